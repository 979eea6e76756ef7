// The fast CPU backend: oneDNN for convolutions and dense layers, own loops over OpenMP threads for the rest.
#include "kernels/onednn/backend.hpp"

#include <omp.h>

#include <dnnl.hpp>

#include "kernels/host/norm_conv.hpp"
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

class OnednnBackend final : public Backend {
 public:
  explicit OnednnBackend(int threads)
      : wanted_(threads > 0 ? threads : omp_get_max_threads()), context_(start_threads(wanted_)) {
    omp_set_dynamic(0);
    omp_set_num_threads(context_.threads());
  }

  std::string name() const override { return "onednn"; }
  std::string description() const override {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) +
           ", own kernels for " + instruction_set_ + ", threads: " + std::to_string(context_.threads()) +
           (context_.threads() < wanted_ ? " (OpenMP grants no more of " + std::to_string(wanted_) + ")" : "");
  }

  Arena allocate(Index count) override { return onednn::make_arena(count); }
  void swap(Span a, Span b) override { onednn::swap(a, b); }
  void fill(Span x, float value) override { onednn::fill(x, value); }

  std::unique_ptr<WeightedOp> conv(const ConvGeometry& geometry, Index max_rows) override {
    return onednn::make_conv(context_, geometry, max_rows);
  }
  std::unique_ptr<PoolOp> pool(const PoolGeometry& geometry, Index) override { return onednn::make_pool(geometry); }
  std::unique_ptr<NormOp> norm(const NormSettings& settings, Index) override { return onednn::make_norm(settings); }
  std::unique_ptr<WeightedOp> dense(Index in, Index out, Index max_rows) override {
    return onednn::make_dense(context_, in, out, max_rows);
  }
  std::unique_ptr<ConvPoolOp> conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool, Index) override {
    return onednn::make_fused_conv_pool(conv, pool);
  }
  std::unique_ptr<NormOp> norm_relu_pool(const NormReluPool& settings, Index) override {
    return onednn::make_norm_relu_pool(settings);
  }
  std::unique_ptr<NormConvOp> norm_conv(const NormSettings& settings, const ConvGeometry& geometry,
                                        Index max_rows) override {
    if (auto direct = onednn::make_norm_conv(settings, geometry)) return direct;
    return make_host_norm_conv({norm(settings, max_rows), conv(geometry, max_rows)}, geometry);
  }

  void activate(ActivationKind kind, float slope, ConstSpan x, Span y) override { onednn::activate(kind, slope, x, y); }
  void activate_backward(ActivationKind kind, float slope, ConstSpan y, ConstSpan dy, Span dx) override {
    onednn::activate_backward(kind, slope, y, dy, dx);
  }
  void dropout(const Step& step, std::uint64_t layer, float rate, ConstTensor x, Tensor y) override {
    onednn::dropout(step, layer, rate, x, y);
  }
  void loss(const Step& step, LossKind kind, ConstTensor y, ConstTensor target, Span dy, Span sum) override {
    onednn::loss(step, kind, y, target, dy, sum);
  }
  void sgd(const Step& step, Span w, ConstSpan dw, Span velocity) override { onednn::sgd(step.sgd, w, dw, velocity); }
  void adam(const Step& step, std::size_t group, Span w, ConstSpan dw, Span m, Span v) override {
    onednn::adam(step.adam.at(group), w, dw, m, v);
  }

 private:
  std::string instruction_set_ = onednn::describe_instruction_set();  // before oneDNN is used
  int wanted_;                                                        // threads
  onednn::Context context_;
};

}  // namespace

std::unique_ptr<Backend> make_onednn_backend(int threads) {
  require_threads(threads);
  return std::make_unique<OnednnBackend>(threads);
}

}  // namespace mrmf
