#include "kernels/cpu/backend.hpp"

#include <omp.h>

#include <utility>

#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/onednn/operations.hpp"

namespace mrmf {
namespace cpu {
namespace {

/// How many threads compute: counted in a parallel region, which starts them. OMP_THREAD_LIMIT and a region around this
/// one may leave fewer than were asked for.
int start_threads(int wanted) {
  const ThreadScope threads(wanted);
  int granted = 1;
#pragma omp parallel
#pragma omp single
  granted = omp_get_num_threads();
  return granted;
}

}  // namespace

CpuBackend::CpuBackend(int threads, std::optional<KernelChoices> choices)
    : instruction_set_(describe_instruction_set()),
      wanted_(threads > 0 ? threads : omp_get_max_threads()),
      threads_(start_threads(wanted_)),
      context_(onednn::make_context(threads_)),
      choices_(std::move(choices)) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads_);
}

CpuBackend::~CpuBackend() = default;

std::string CpuBackend::description() const {
  return "oneDNN " + onednn::version() + ", own kernels for " + instruction_set_ +
         ", threads: " + std::to_string(threads_) +
         (threads_ < wanted_ ? " (OpenMP grants no more of " + std::to_string(wanted_) + ")" : "");
}

std::unique_ptr<Backend> make_choosing_backend(int threads, KernelChoices choices) {
  require_threads(threads);
  return std::make_unique<CpuBackend>(threads, std::move(choices));
}

KernelChoices* kernel_choices(Backend& backend) {
  auto* const cpu = dynamic_cast<CpuBackend*>(&backend);
  return cpu != nullptr ? cpu->choices() : nullptr;
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  cpu::require_threads(threads);
  return std::make_unique<cpu::CpuBackend>(threads);
}

}  // namespace mrmf
