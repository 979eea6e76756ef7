// What has become of each member: a journal of lines, appended only, each with its checksum.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// What became of a try to make a member. One line of a journal.
struct Attempt {
  Index member = 0;
  bool done = false;       ///< else it failed
  int number = 1;          ///< the first try is 1
  double seconds = 0;      ///< that it took
  std::uint64_t row = 0;   ///< done: the checksum of its row
  std::string reason{};    ///< failed: why, in one line
  std::uint64_t line = 0;  ///< the checksum of the line that it was read from
};

/// A journal in the making. A line is in it wholly, or is seen to be torn: then it counts as not written.
class Journal {
 public:
  /// Opens the file, or makes it. A line that a killed process left torn is ended first.
  explicit Journal(const std::string& path);
  /// Returns when the lines are on disk. DataError when they cannot be written; then none of them is there.
  void append(std::span<const Attempt> attempts);

 private:
  LineFile file_;
};

/// The lines of a journal, in their order; `damaged` are those whose checksum is wrong, numbered from 1.
struct JournalText {
  std::vector<Attempt> attempts;
  std::vector<Index> damaged;
};
/// None where there is no such file. DataError when it cannot be read.
JournalText read_journal(const std::string& path);

/// The checksum of a row.
std::uint64_t row_checksum(std::span<const std::byte> row);

}  // namespace mrmf
