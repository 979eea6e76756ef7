// The CUDA backend from its module, which is opened only when a run wants a GPU.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/module.hpp"

namespace mrmf {

/// True when an NVIDIA driver is installed and the module lies beside the program: asking it for a device makes sense.
bool cuda_is_worth_trying();

/// GPUs that this process sees; 0 without a driver. ConfigError: the module cannot be opened.
int cuda_device_count();
/// The PCI address of one of them: two ranks of a node with the same one share a card.
std::string cuda_device_address(int device);

/// ConfigError: no module, no driver, no device, libraries missing or too old; each with what to do.
std::unique_ptr<Backend> make_cuda_backend(const cuda::Settings& settings);

}  // namespace mrmf
