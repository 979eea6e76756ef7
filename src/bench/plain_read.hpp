// Reading files from front to back, as a measure for better ways of reading them.
#pragma once

#include <string>

#include "io/order.hpp"

namespace mrmf {

/// Asks the operating system to forget what it keeps of the file in memory; then the share of it that it still does
/// (0 to 1). It keeps what others use, and files of a file system in memory. DataError when it cannot be opened.
double drop_from_memory(const std::string& path);

/// Reads bytes [first, first + count) of the file with read(2), a large block at a time, each over the one before.
/// DataError when they cannot be read.
void read_plainly(const std::string& path, Range bytes);

}  // namespace mrmf
