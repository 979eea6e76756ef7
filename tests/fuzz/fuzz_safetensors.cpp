// safetensors of any bytes are a DataError, or tensors that fill the file.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/errors.hpp"
#include "src/export/safetensors.hpp"

namespace {

std::string path;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  path = "/tmp/mrmf-fuzz-" + std::to_string(::getpid()) + ".safetensors";
  std::atexit([] { std::remove(path.c_str()); });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::FILE* const out = std::fopen(path.c_str(), "wb");
  if (out == nullptr || std::fwrite(data, 1, size, out) != size || std::fclose(out) != 0) std::abort();
  try {
    const mrmf::SafetensorsFile file(path);
    std::size_t bytes = 0;
    for (const auto& [name, entry] : file.tensors()) {
      std::vector<float> values((entry.last - entry.first) / sizeof(float));
      bytes += values.size() * sizeof(float);
      if (bytes > size) std::abort();
      try {
        file.read(name, values);
      } catch (const mrmf::DataError&) {  // NaN
      }
    }
  } catch (const mrmf::DataError&) {
  }
  return 0;
}
