// Where the rows of files lie that have been opened before. Private to io/.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/rows/row_reader.hpp"

namespace mrmf {

/// Where the rows of arrays lie that are read without HDF5, and the values of attributes: so that of a file whose
/// headers this rank has read once, they are not read again. Takes some 200 bytes for each. On any thread.
class RowHeaderCache {
 public:
  /// How an array is asked for.
  struct Name {
    const std::string& path;
    const std::string& array;
    bool whole;
    PackingRule packing;
  };
  std::optional<PlainRows> find(const Name& name) const;
  void keep(const Name& name, PlainRows rows);

 private:
  struct Known {
    std::string array;
    PackingRule packing;
    PlainRows rows;
  };
  static bool is(const Known& known, const Name& name);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::vector<Known>> files_;
  std::vector<std::shared_ptr<const PlainRows::Form>> forms_;  // the last few that were seen
};

}  // namespace mrmf
