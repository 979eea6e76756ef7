#include "src/data/label_names.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "io/class_values.hpp"
#include "io/stored_names.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

void require_count(const std::vector<std::string>& names, Index outputs, const char* key, const char* what) {
  if (names.empty() || std::ssize(names) == outputs) return;
  throw ConfigError(fmt::format("{} has {} name{}, and there are {} {}; name each, in their order", key, names.size(),
                                names.size() == 1 ? "" : "s", outputs, what));
}

// The same on every rank: the root's.
void share(std::vector<std::string>& names, Comm& comm) {
  std::string text;
  for (const std::string& name : names) text += name + '\n';
  comm.broadcast(text, 0);
  names.clear();
  for (std::size_t first = 0; first < text.size();) {
    const std::size_t end = text.find('\n', first);
    names.push_back(text.substr(first, end - first));
    first = end + 1;
  }
}

}  // namespace

void resolve_names(Config& config, Index outputs, Comm& comm) {
  const bool classes = config.training.loss.task() == Task::classes;
  Names& names = config.data.names;
  require_count(names.classes, outputs, "data.names.classes", "classes");
  require_count(names.labels, outputs, "data.names.labels", "outputs");
  std::vector<std::string>& own = classes ? names.classes : names.labels;
  if (!own.empty()) return;
  const std::vector<std::string>& values = config.training.class_values;
  if (classes && !values.empty() && !class_number(values.front())) {
    own = values;
    std::ranges::replace(own, std::string(), std::string("(empty)"));  // a list of a configuration holds no empty text
    return;
  }
  if (comm.root()) own = stored_names(config.data.train, static_cast<std::size_t>(outputs));
  std::ranges::for_each(own, [](std::string& name) { std::ranges::replace(name, '\n', ' '); });
  share(own, comm);
}

const std::vector<std::string>& names_of(const Config& config) {
  const bool classes = config.training.loss.task() == Task::classes;
  return classes ? config.data.names.classes : config.data.names.labels;
}

}  // namespace mrmf
