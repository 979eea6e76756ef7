// Choice of a run's backend and number of threads. The CUDA backend is in a module, opened only if a run wants a GPU.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cuda/module.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Threads for this rank: `wanted`, or if that is 0, OMP_NUM_THREADS, else the cores it may use over the ranks of the
/// host that may use the same. Collective over `world`; all ranks must want the same.
int choose_threads(int wanted, Comm& world);

/// The configured backend with its threads. ConfigError for a device that this build lacks.
std::unique_ptr<Backend> make_backend(const RunConfig& run, Comm& world);

/// The same for what models say once they are trained: on CPUs in float32, because scores and predictions must not
/// depend on whether a processor multiplies in bf16.
std::unique_ptr<Backend> make_inference_backend(RunConfig run, Comm& world);

/// Whether it makes sense to ask for a device: an NVIDIA driver is installed, and the module lies beside the program.
bool cuda_is_worth_trying();

/// GPUs that this process sees; 0 without a driver. ConfigError when the module cannot be opened.
int cuda_device_count();
/// A GPU's PCI address: two ranks of a host with the same one share a card.
std::string cuda_device_address(int device);
/// The GPU that this thread computes on, in the form that plans for a described device take (tests/cuda), as JSON text.
/// Once a CUDA backend was made.
std::string cuda_device_properties();
/// Tells a profiler that was started with the program to note what comes from here on, or no more. Once a CUDA backend
/// was made, and has finished.
void cuda_profile(bool on);

/// ConfigError, with what to do: no module, no driver, no device, libraries missing or too old.
std::unique_ptr<Backend> make_cuda_backend(const cuda::Settings& settings);

}  // namespace mrmf
