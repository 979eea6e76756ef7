#include <vector>

#include "kernels/reference/backend.hpp"

namespace mrmf::reference {
namespace {

/// The fused operation as the composition of its parts.
class NormActivatePool final : public NormOp {
 public:
  NormActivatePool(const NormReluPool& settings, Index max_rows)
      : kind_(settings.slope > 0 ? ActivationKind::leaky_relu : ActivationKind::relu),
        slope_(settings.slope),
        norm_(make_norm(settings.norm, max_rows)),
        pool_(settings.pool ? make_pool(*settings.pool, max_rows) : nullptr),
        full_(static_cast<std::size_t>(max_rows * product(settings.in) * settings.norm.channels)),
        gradient_(full_.size()) {}

  void forward(const Step& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    const Tensor z{x.shape, Span(full_).first(x.data.size())};
    norm_->forward(step, x, memory, z);
    activate(kind_, slope_, z.data, z.data);
    if (pool_)
      pool_->forward(z, y, {});
    else
      std::copy(z.data.begin(), z.data.end(), y.data.begin());
  }

  void backward(const Step& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma, Span dbeta,
                Tensor dx) override {
    const Tensor dz{x.shape, Span(gradient_).first(x.data.size())};
    if (pool_)
      pool_->backward(dy, {}, dz);
    else
      std::copy(dy.data.begin(), dy.data.end(), dz.data.begin());
    activate_backward(kind_, slope_, ConstSpan(full_).first(x.data.size()), dz.data, dz.data);
    norm_->backward(step, x, dz, memory, dgamma, dbeta, dx);
  }

 private:
  ActivationKind kind_;
  float slope_;
  std::unique_ptr<NormOp> norm_;
  std::unique_ptr<PoolOp> pool_;
  std::vector<float> full_, gradient_;  // behind the activation, and its gradient
};

}  // namespace

std::unique_ptr<NormOp> make_norm_relu_pool(const NormReluPool& settings, Index max_rows) {
  return std::make_unique<NormActivatePool>(settings, max_rows);
}

}  // namespace mrmf::reference
