#include "kernels/onednn/backend.hpp"

#include <omp.h>

#include <dnnl.hpp>

#include "kernels/host/threads.hpp"
#include "kernels/onednn/instruction_set.hpp"
#include "kernels/onednn/primitives.hpp"

namespace mrmf {
namespace {

/// How many threads compute: counted in a parallel region, which starts them. OMP_THREAD_LIMIT and a region around this
/// one may leave fewer than were asked for.
int start_threads(int wanted) {
  const onednn::ThreadScope threads(wanted);
  int granted = 1;
#pragma omp parallel
#pragma omp single
  granted = omp_get_num_threads();
  return granted;
}

}  // namespace

namespace onednn {

OnednnBackend::OnednnBackend(int threads)
    : instruction_set_(describe_instruction_set()),
      wanted_(threads > 0 ? threads : omp_get_max_threads()),
      context_(std::make_unique<Context>(start_threads(wanted_))) {
  omp_set_dynamic(0);
  omp_set_num_threads(context_->threads());
}

OnednnBackend::~OnednnBackend() = default;

std::string OnednnBackend::description() const {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) +
         ", own kernels for " + instruction_set_ + ", threads: " + std::to_string(context_->threads()) +
         (context_->threads() < wanted_ ? " (OpenMP grants no more of " + std::to_string(wanted_) + ")" : "");
}

}  // namespace onednn

std::unique_ptr<Backend> make_onednn_backend(int threads) {
  require_threads(threads);
  return std::make_unique<onednn::OnednnBackend>(threads);
}

}  // namespace mrmf
