#include "src/data/classes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "io/rows/class_values.hpp"
#include "io/rows/labels.hpp"
#include "io/rows/sample_order.hpp"
#include "io/values/class_names.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

// A name for each, which tells it from the others.
void require_names(const std::vector<std::string>& names, Index outputs, const char* key, const char* what) {
  if (names.empty()) return;
  if (std::ssize(names) != outputs)
    throw ConfigError(fmt::format("{} has {} name{}, and there are {} {}; name each, in their order", key, names.size(),
                                  names.size() == 1 ? "" : "s", outputs, what));
  std::set<std::string> seen;
  for (const std::string& name : names)
    if (name.empty() || !seen.insert(name).second)
      throw ConfigError(fmt::format("{} {}; give each of the {} a name of its own", key,
                                    name.empty() ? "has an empty name" : "has \"" + name + "\" twice", what));
}

// "dice:tumour" becomes "dice:1".
void resolve_metric(Config& config) {
  TrainingConfig& training = config.training;
  if (training.metric_class.empty()) return;
  const std::string asked =
      fmt::format("training.metric = \"{}:{}\"", to_string(*training.metric), training.metric_class);
  const std::vector<std::string>& names = names_of(config);
  if (names.empty()) throw ConfigError(asked + ", and nothing has names; give data.names, or a number, counted from 0");
  const auto found = std::ranges::find(names, training.metric_class);
  if (found == names.end())
    throw ConfigError(fmt::format("{}, and the names are {}; name one of them", asked, fmt::join(names, ", ")));
  training.metric->of = static_cast<int>(found - names.begin());
  training.metric_class.clear();
}

// Unless they are given or the classes' own values, what the labels' files say.
void find_names(Config& config, Index outputs, const DatasetShape& train) {
  const bool classes = config.training.loss.task() == Task::classes;
  Names& names = config.data.names;
  if (!(classes ? names.labels : names.classes).empty())
    throw ConfigError(classes ? "data.names.labels names numbers, or a yes, and training.loss is of classes; use "
                                "data.names.classes"
                              : "data.names.classes names classes, and training.loss is of none; use "
                                "data.names.labels");
  require_names(names.classes, outputs, "data.names.classes", "classes");
  require_names(names.labels, outputs, "data.names.labels", "outputs");
  std::vector<std::string>& own = classes ? names.classes : names.labels;
  if (!own.empty()) return;
  const std::vector<std::string>& values = config.training.class_values;
  if (classes && !values.empty() && !class_number(values.front())) {
    own = values;
    std::ranges::replace(own, std::string(), std::string("(empty)"));  // a list of a configuration holds no empty text
    return;
  }
  own = config.data.train.more_labels.empty() ? train.names.in_order(config.data.train.form, outputs)
                                              : config.data.train.label_names();
  if (std::ssize(own) != outputs) own.clear();
}

// ConfigError: data.names.stored is not as a run writes it.
LabelNames kept_names(const Config& config) {
  try {
    return LabelNames::from_texts(config.data.names.stored, "the training data");
  } catch (const DataError& error) {
    throw ConfigError(std::string("data.names.stored: ") + error.what() + "; leave it to the run, which writes it");
  }
}

std::vector<std::string> unused_names(const Config& config, Index outputs, const LabelNames& found) {
  const bool classes = config.training.loss.task() == Task::classes;
  if (!names_of(config).empty()) return {};
  std::string lists = found.unused;
  if (lists.empty() && found.listed && std::ssize(found.of) != outputs)
    lists = fmt::format("{} lists {} names, and there are {} {}", found.of.begin()->second.where, found.of.size(),
                        outputs, classes ? "classes" : "outputs");
  if (lists.empty()) return {};
  return {fmt::format("{}: they are not used; name each {} in data.names.{}", lists, classes ? "class" : "output",
                      classes ? "classes" : "labels")};
}

}  // namespace

std::vector<std::string> resolve_names(Config& config, Index outputs, const DatasetShape& train) {
  require_same_names(config, train);
  find_names(config, outputs, train);
  if (config.data.names.stored.empty()) config.data.names.stored = train.names.texts();
  resolve_metric(config);
  return unused_names(config, outputs, train.names);
}

void require_same_names(const Config& config, const DatasetShape& shape) {
  const LabelNames stored = kept_names(config);
  const std::string text = contradiction(stored, shape.names);
  if (!text.empty()) throw DataError(text + "; store the labels as the training data has them, or train anew");
}

void require_same_names(const DatasetShape& train, const DatasetShape& other, const std::string& part) {
  if (const std::string text = contradiction(train.names, other.names); !text.empty())
    throw DataError(fmt::format("training and {} data differ: {}; {}", part, text, rename_text(train.names)));
}

const std::vector<std::string>& names_of(const Config& config) {
  const bool classes = config.training.loss.task() == Task::classes;
  return classes ? config.data.names.classes : config.data.names.labels;
}

std::vector<Index> class_counts(const DatasetSpec& spec, const DatasetShape& shape, Comm& comm) {
  std::vector<Index> counts(static_cast<std::size_t>(spec.form.classes));
  collective_try(comm, [&] {
    const Range own = piece(shape.samples, comm.rank(), comm.size());
    if (own.count > 0) counts = Labels(spec, shape, own).counts();
  });
  comm.sum(std::span(counts));
  return counts;
}

namespace {

constexpr Index kRare = 3;  // so many times as often is another class, or a no

}  // namespace

bool some_are_rare(const std::vector<Index>& counts) {
  Index least = 0, most = 0;
  for (const Index count : counts) {
    if (count > 0) least = least == 0 ? count : std::min(least, count);
    most = std::max(most, count);
  }
  return least > 0 && most >= kRare * least;
}

std::vector<Index> rarely_yes(const ChannelFacts& labels) {
  std::vector<Index> rare;
  for (std::size_t c = 0; c < labels.mean.size(); ++c) {
    if (labels.mean[c] > 0 && labels.mean[c] * (1 + kRare) <= 1) rare.push_back(static_cast<Index>(c));
  }
  return rare;
}

void resolve_class_weights(Config& config, const DatasetShape& train, Comm& comm) {
  TrainingConfig& training = config.training;
  if (!training.balanced_weights || !training.loss.class_weights.empty()) return;
  const std::vector<Index> counts = class_counts(config.data.train, train, comm);
  double all = 0;
  for (const Index count : counts) all += static_cast<double>(count);
  for (const Index count : counts)
    training.loss.class_weights.push_back(
        count == 0 ? 1.0F
                   : static_cast<float>(all / (static_cast<double>(counts.size()) * static_cast<double>(count))));
}

std::shared_ptr<const ClassBalance> class_balance(const DataConfig& data, const Split& train, Comm& team) {
  if (data.sampling != Sampling::balanced) return nullptr;
  std::vector<std::int64_t> found(static_cast<std::size_t>(train.shape.samples));
  const Range own = visited_rows(train.order);
  // From 1 on, so that a sum over the ranks tells all.
  for (Index id = own.first; id < own.first + own.count; ++id)
    found[static_cast<std::size_t>(id)] = train.store->class_of(id) + 1;
  if (!visits_all(train.order)) team.sum(std::span(found));
  std::vector<std::int32_t> classes;
  classes.reserve(found.size());
  for (const std::int64_t one : found) classes.push_back(static_cast<std::int32_t>(one - 1));
  auto balance = std::make_shared<ClassBalance>(balance_classes(std::move(classes), train.order));
  if (const std::string text = unbalanced_text(balance->quotas); !text.empty())
    throw ConfigError(
        "data.sampling = \"balanced\": " + text +
        "; set data.shuffle_over = \"all\", or mix the rows, or use training.class_weights = \"balanced\"");
  return balance;
}

}  // namespace mrmf
