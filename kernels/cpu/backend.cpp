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

CpuBackend::CpuBackend(int threads, Precision precision, std::optional<KernelChoices> choices)
    : instruction_set_(describe_instruction_set()),
      precision_(precision),
      wanted_(threads > 0 ? threads : omp_get_max_threads()),
      threads_(start_threads(wanted_)),
      context_(onednn::make_context(threads_)),
      choices_(std::move(choices)) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads_);
}

CpuBackend::~CpuBackend() = default;

bool CpuBackend::in_bf16() const { return precision_ == Precision::bf16 && has_bf16_products(); }

bool CpuBackend::onednn_in_bf16() const { return in_bf16() && onednn::has_bf16_products(); }

std::string CpuBackend::description() const {
  const std::string products = precision_ != Precision::bf16 ? ""
                               : in_bf16()                   ? ", products in bf16"
                                                             : ", all in float32 (no products in bf16 here)";
  return "oneDNN " + onednn::version() + ", own kernels for " + instruction_set_ + products +
         ", threads: " + std::to_string(threads_) +
         (threads_ < wanted_ ? " (OpenMP grants no more of " + std::to_string(wanted_) + ")" : "");
}

std::unique_ptr<Backend> make_choosing_backend(int threads, Precision precision, KernelChoices choices) {
  require_threads(threads);
  return std::make_unique<CpuBackend>(threads, precision, std::move(choices));
}

bool rounds_to_bf16(const Backend& backend) {
  const auto* const cpu = dynamic_cast<const CpuBackend*>(&backend);
  return cpu != nullptr && cpu->in_bf16();
}

KernelChoices* kernel_choices(Backend& backend) {
  auto* const cpu = dynamic_cast<CpuBackend*>(&backend);
  return cpu != nullptr ? cpu->choices() : nullptr;
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads, Precision precision) {
  cpu::require_threads(threads);
  return std::make_unique<cpu::CpuBackend>(threads, precision);
}

std::unique_ptr<Backend> make_one_thread_backend(const Backend& like) {
  const auto* const fast = dynamic_cast<const cpu::CpuBackend*>(&like);
  if (fast == nullptr) return make_reference_backend();
  return make_cpu_backend(1, fast->precision());
}

}  // namespace mrmf
