// What an open file holds. Private to io/hdf5_*.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/hdf5_file.hpp"
#include "io/hdf5_library.hpp"

namespace mrmf {

struct Hdf5File::State {
  std::string path;
  h5::File file;

  State(std::string where, h5::File opened) : path(std::move(where)), file(std::move(opened)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

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
