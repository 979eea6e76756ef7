#pragma once
#include <cuda_runtime_api.h>

#include <functional>

namespace mrmf::cuda {

/// A kernel launch in a build without nvcc: `body` runs on the host when the emulated device reaches it in `stream`.
/// The device emulator (tests/emulated) defines it. cudaGetLastError reports errors, as after a real launch.
void emulated_launch(cudaStream_t stream, std::function<void()> body);

}  // namespace mrmf::cuda
