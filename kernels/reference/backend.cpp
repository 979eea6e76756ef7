#include "kernels/reference/backend.hpp"

#include <cstdlib>
#include <new>

#include "kernels/host/norm_conv.hpp"

namespace mrmf {
namespace {

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::string description() const override { return "reference: naive loops, double accumulation, one thread"; }

  Arena allocate(Index count) override {
    constexpr std::size_t alignment = 64;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    const std::size_t rounded = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
    auto* const data = static_cast<float*>(std::aligned_alloc(alignment, rounded));
    if (data == nullptr) throw std::bad_alloc();
    std::fill_n(data, rounded / sizeof(float), 0.0F);
    return {data, static_cast<std::size_t>(count), +[](float* p) { std::free(p); }};
  }
  void swap(Span a, Span b) override { std::swap_ranges(a.begin(), a.end(), b.begin()); }
  void fill(Span x, float value) override { std::fill(x.begin(), x.end(), value); }

  std::unique_ptr<WeightedOp> conv(const ConvGeometry& geometry, Index max_rows) override {
    return reference::make_conv(geometry, max_rows);
  }
  std::unique_ptr<PoolOp> pool(const PoolGeometry& geometry, Index max_rows) override {
    return reference::make_pool(geometry, max_rows);
  }
  std::unique_ptr<NormOp> norm(const NormSettings& settings, Index max_rows) override {
    return reference::make_norm(settings, max_rows);
  }
  std::unique_ptr<WeightedOp> dense(Index in, Index out, Index max_rows) override {
    return reference::make_dense(in, out, max_rows);
  }
  std::unique_ptr<ConvPoolOp> conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool,
                                             Index max_rows) override {
    return reference::make_conv_pool_relu(conv, pool, max_rows);
  }
  std::unique_ptr<NormOp> norm_relu_pool(const NormReluPool& settings, Index max_rows) override {
    return reference::make_norm_relu_pool(settings, max_rows);
  }
  std::unique_ptr<NormConvOp> norm_conv(const NormSettings& settings, const ConvGeometry& geometry,
                                        Index max_rows) override {
    return make_host_norm_conv({norm(settings, max_rows), conv(geometry, max_rows)}, geometry);
  }

  void activate(ActivationKind kind, float slope, ConstSpan x, Span y) override {
    reference::activate(kind, slope, x, y);
  }
  void activate_backward(ActivationKind kind, float slope, ConstSpan y, ConstSpan dy, Span dx) override {
    reference::activate_backward(kind, slope, y, dy, dx);
  }
  void dropout(const Step& step, std::uint64_t layer, float rate, ConstTensor x, Tensor y) override {
    reference::dropout(step, layer, rate, x, y);
  }
  void loss(const Step& step, LossKind kind, ConstTensor y, ConstTensor target, Span dy, Span sum) override {
    reference::loss(step, kind, y, target, dy, sum);
  }
  void sgd(const Step& step, Span w, ConstSpan dw, Span velocity) override {
    reference::sgd(step.sgd, w, dw, velocity);
  }
  void adam(const Step& step, std::size_t group, Span w, ConstSpan dw, Span m, Span v) override {
    reference::adam(step.adam.at(group), w, dw, m, v);
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace mrmf
