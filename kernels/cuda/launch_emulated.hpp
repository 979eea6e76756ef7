#pragma once
#include <cuda_runtime_api.h>

#include <functional>

namespace mrmf::cuda {

/// A kernel launch in a build without nvcc: `body` runs on the host when the emulated device reaches it in `stream`.
/// The device emulator (tests/emulated) defines it. cudaGetLastError reports errors, as after a real launch.
void emulated_launch(cudaStream_t stream, std::function<void()> body);

/// FaultError when the launch before this failed, or an earlier call whose error nobody took.
void check_launch();

}  // namespace mrmf::cuda
