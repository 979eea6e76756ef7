// The only interface of the CUDA module (libmrmf_cuda.so). The program opens the module at run time, so it also runs on
// machines without NVIDIA's libraries. No CUDA in here.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "kernels/backend.hpp"
#include "kernels/timer.hpp"

namespace mrmf::cuda {

/// The program's settings for computing on a GPU.
struct Settings {
  int device = 0;  ///< ordinal among those this process sees
  Precision precision = Precision::tf32;
  bool deterministic = false;  ///< the same bits in every run: fixed plans, no atomic sums
  bool graphs = true;          ///< capture a step once and replay it
  bool resident = true;        ///< keep data sets in device memory where they fit
  bool share_device = false;   ///< several ranks compute on one GPU: for tests
  WaitLimit limit{300};        ///< after which an unfinished sum over ranks is a fault
  std::string plans;           ///< file that keeps the fastest plans; empty: none
  /// Replaces the file at `path` by this text, whole or not at all; makes its folder if necessary; may throw. Unset:
  /// plans are not kept.
  std::function<void(const std::string& path, std::string_view text)> replace_file;
  /// Most bytes that a library call may use; 0: a 32nd of the device's memory, from 64 MiB to 2 GiB. On an H100 cuDNN
  /// needs 40 ms with 64 MiB for a weight gradient in tf32 from four channels.
  std::size_t workspace = 0;
};

}  // namespace mrmf::cuda

extern "C" {
/// What the module was built with, as text. The program compares it with its own before any other call
/// (kernels/cuda/interface.cmake).
[[gnu::visibility("default")]] const char* mrmf_cuda_interface();
/// A new backend, owned by the caller. Throws ConfigError and FaultError.
[[gnu::visibility("default")]] mrmf::Backend* mrmf_make_cuda_backend(const mrmf::cuda::Settings& settings);
/// GPUs that this process sees; 0 when there is no driver.
[[gnu::visibility("default")]] int mrmf_cuda_device_count();
/// Its PCI address as text of at most `size` characters with the final zero.
[[gnu::visibility("default")]] void mrmf_cuda_device_address(int device, char* text, int size);
/// cuDNN's description of the device that the calling thread computes on, as JSON text of at most `size` characters
/// with the final zero: the form in which a device is described for plans (DeviceModel::from_json). Returns the size
/// needed.
[[gnu::visibility("default")]] int mrmf_cuda_device_properties(char* text, int size);
/// Tells a profiler that was started with the program to note what comes from here on, or no more. Waits for nothing.
[[gnu::visibility("default")]] void mrmf_cuda_profile(bool on);
}
