// The one door of the CUDA module (libmrmf_cuda.so), which the program opens at run time: so it runs on machines that
// have none of NVIDIA's libraries.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/cuda/settings.hpp"

extern "C" {
/// What the module was built with, as text: the program compares it with its own before it calls anything else
/// (kernels/cuda/interface.cmake).
[[gnu::visibility("default")]] const char* mrmf_cuda_interface();
/// A new backend, owned by the caller. Throws ConfigError and FaultError.
[[gnu::visibility("default")]] mrmf::Backend* mrmf_make_cuda_backend(const mrmf::cuda::Settings& settings);
/// GPUs that this process sees; 0 when there is no driver.
[[gnu::visibility("default")]] int mrmf_cuda_device_count();
/// Its PCI address as text of at most `size` characters with the final zero.
[[gnu::visibility("default")]] void mrmf_cuda_device_address(int device, char* text, int size);
}
