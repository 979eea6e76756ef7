// HDF5 files that end with a checksum of the bytes before it: 16 hexadecimal digits of XXH3. The HDF5 library does not
// look behind the last byte of its file, and it never gets to see a damaged one.
#pragma once

#include <string>

#include "io/files/output_file.hpp"

namespace mrmf {

/// Writes the checksum of a file's bytes [0, bytes) behind them, where all of them have been written. On one rank.
/// DataError when it cannot be read or written.
void append_checksum(OutputFile& file, std::uint64_t bytes);

enum class Checksum { right, wrong, missing };

/// Whether the file ends with the checksum of its contents. An HDF5 file that ends where its own header says has none.
/// DataError when it cannot be read. On one rank.
Checksum verify(const std::string& path);

/// The 16 digits at the end of a file that has them. DataError when it cannot be read.
std::string checksum_at_end(const std::string& path);

}  // namespace mrmf
