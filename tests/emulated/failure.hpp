#pragma once
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace mrmf::emulated {

/// A refused call of the CUDA runtime; api() turns it into the returned code.
struct Failure : std::runtime_error {
  Failure(cudaError_t error, const std::string& text) : std::runtime_error(text), code(error) {}
  cudaError_t code;
};

inline void require(bool condition, cudaError_t code, const std::string& text) {
  if (!condition) throw Failure(code, text);
}

/// The calling thread's last error and its explanation; cudaGetErrorString shows the explanation with the code.
struct LastError {
  cudaError_t code = cudaSuccess;
  cudaError_t explained = cudaSuccess;
  std::string text;
};
LastError& last_error();

/// Keeps the error as the thread's last one and returns its code. With MRMF_EMULATED_VERBOSE set it goes to stderr too.
cudaError_t remember(const Failure& failure);

/// The explanation that every emulated library prints under MRMF_EMULATED_VERBOSE.
void report(const char* library, const std::string& text);

}  // namespace mrmf::emulated
