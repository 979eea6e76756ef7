// Files that end with a checksum of what is before it: 16 hexadecimal digits of XXH3 behind the last byte of an HDF5
// file, which the HDF5 library does not look at. So nothing damaged reaches that library.
#pragma once

#include <string>

#include "io/output_file.hpp"

namespace mrmf {

/// Puts `bytes` and their checksum into the file `path`, whole or not at all. On one rank. Errors as write_file()'s.
void write_checksummed(const std::string& path, std::string_view bytes, Replace replace);

enum class Checksum { right, wrong, missing };

/// What the file's end says of it. An HDF5 file that ends where its own header says has none. DataError when it cannot
/// be read. On one rank.
Checksum verify(const std::string& path);

}  // namespace mrmf
