// Errors about a configuration's keys, at the location where a key was set.
#pragma once

#include <string>

#include "kernels/errors.hpp"
#include "src/config/key_table.hpp"

namespace mrmf {

/// Where keys were set, by their paths ("data.files"); of one that was not, `origin` says which configuration it is.
struct KeyOrigin {
  const KeyLocations& locations;
  const std::string& origin;

  std::string of(const std::string& key) const {
    const auto found = locations.find(key);
    return found == locations.end() ? origin : found->second;
  }
  bool given(const std::string& key) const { return locations.contains(key); }
  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw ConfigError(of(key) + ": " + message);
  }
  void require(bool good, const std::string& key, const std::string& message) const {
    if (!good) fail(key, message);
  }
};

}  // namespace mrmf
