#include "src/config/config_difference.hpp"

#include "src/config/schema.hpp"

namespace mrmf {

std::vector<KeyDifference> differences(const Config& was, const Config& is) {
  std::vector<KeyDifference> found;
  for (const Key<Config>& key : config_keys()) {
    if (key.path.starts_with("run.") || key.path == "data.load" || key.path == "data.memory" ||
        key.path == "data.channels")
      continue;
    KeyDifference difference{key.path, key.write(was), key.write(is)};
    if (difference.was != difference.is) found.push_back(std::move(difference));
  }
  return found;
}

}  // namespace mrmf
