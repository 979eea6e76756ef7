// Which backend and how many threads a run has; the CUDA backend is in a module, opened only when a run wants a GPU.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/module.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Threads for this rank: as wanted, or (0) the cores it may use over the ranks of the node that may use the same.
/// Collective over `world`; all ranks want the same.
int choose_threads(int wanted, Comm& world);

/// The backend that the configuration names, with its threads. ConfigError for a device this build lacks.
std::unique_ptr<Backend> make_backend(const RunConfig& run, Comm& world);

/// True when an NVIDIA driver is installed and the module lies beside the program: asking it for a device makes sense.
bool cuda_is_worth_trying();

/// GPUs that this process sees; 0 without a driver. ConfigError: the module cannot be opened.
int cuda_device_count();
/// The PCI address of one of them: two ranks of a node with the same one share a card.
std::string cuda_device_address(int device);

/// ConfigError: no module, no driver, no device, libraries missing or too old; each with what to do.
std::unique_ptr<Backend> make_cuda_backend(const cuda::Settings& settings);

}  // namespace mrmf
