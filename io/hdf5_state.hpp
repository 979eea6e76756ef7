// What an open file holds. Private to io/hdf5_*.cpp.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5.hpp"
#include "io/hdf5_handle.hpp"

namespace mrmf {

struct Hdf5File::State {
  std::string path;
  h5::File file;
  std::optional<Comm> comm;                                ///< set when the file is being written
  std::vector<std::pair<std::string, std::string>> texts;  ///< written by the root when the file is closed

  State(std::string where, h5::File opened, std::optional<Comm> team = std::nullopt)
      : path(std::move(where)), file(std::move(opened)), comm(std::move(team)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  /// Collective when writing.
  void close();
  /// The communicator of a file being written; FaultError for a file opened for reading.
  Comm& writers();
  std::string at(const std::string& name) const { return path + ": data set '" + name + "'"; }
};

namespace h5 {

/// DataError that says apart what is wrong with a file that should be readable. On one rank.
void check_readable(const std::string& path);
/// Whether a link of this path exists; the library's own test needs every group before it to exist.
bool exists(hid_t file, const std::string& name);
/// Whether it is there and a data set.
bool is_dataset(hid_t file, const std::string& name);
/// The data sets directly in a group, alphabetically, and the links to other files, whatever they lead to.
std::vector<std::string> dataset_names(hid_t file, const std::string& group);
/// Selects a block in the file's space and returns the matching memory space.
struct Block;
Space select(hid_t file_space, const Block& block);

}  // namespace h5
}  // namespace mrmf
