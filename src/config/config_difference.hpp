// Where two configurations differ, key by key.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"

namespace mrmf {

struct KeyDifference {
  std::string key, was, is;  ///< values as TOML; "" where a key is not set
};

/// Every key but those that say where and how to compute, not what: [run], data.load and data.memory, nor the check
/// data.channels.
std::vector<KeyDifference> differences(const Config& was, const Config& is);

}  // namespace mrmf
