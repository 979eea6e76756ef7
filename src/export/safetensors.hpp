// The safetensors format: 8 bytes with the header's length, a JSON header, then the tensors' bytes without gaps. Only
// float32 is written and read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

struct SafetensorsEntry {
  std::vector<Index> shape;
  std::uint64_t first = 0, last = 0;  ///< bytes behind the header
};

/// A file for reading. Nothing in it is taken on trust. DataError, with file and tensor: it is no such file, its header
/// is larger than the format allows (100 MB) or than the file, is no JSON of the right form or has a name twice; a
/// tensor is not float32, or its bytes are not those of its shape; bytes overlap, leave holes, or go beyond the end.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, SafetensorsEntry>& tensors() const { return tensors_; }
  /// "" when there is none of that name in __metadata__.
  std::string metadata(const std::string& name) const;
  /// Fills `values`, as many as the tensor has. DataError for NaN or an infinity.
  void read(const std::string& name, Span values) const;

 private:
  void read_header(const std::string& header);

  std::string path_;
  InputFile file_;
  std::uint64_t data_ = 0;  // where the tensors' bytes begin
  std::map<std::string, SafetensorsEntry> tensors_;
  std::map<std::string, std::string> metadata_;
};

struct SafetensorsTensor {
  std::string name;
  std::vector<Index> shape;
  ConstSpan values;
};

/// A name from a file, quoted, and cut where it is long: fit for a message.
std::string shown(const std::string& name);

/// The bytes of a file with these tensors, in this order.
std::string safetensors_bytes(const std::vector<SafetensorsTensor>& parts,
                              const std::map<std::string, std::string>& metadata);

}  // namespace mrmf
