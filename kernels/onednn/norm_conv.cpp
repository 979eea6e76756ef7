// The batch norm of a network's input and the convolution behind it on the direct kernels: they normalise the input's
// rows as they copy them, and what is normalised is never stored.
#include "kernels/host/norm_conv.hpp"

#include <vector>

#include "kernels/onednn/backend.hpp"
#include "kernels/onednn/direct_conv_op.hpp"
#include "kernels/onednn/norm.hpp"

namespace mrmf::onednn {
namespace {

/// direct::Affine over a row of the input.
class RowMap {
 public:
  RowMap(Index width, Index channels) : channels_(static_cast<std::size_t>(channels)) {
    for (std::vector<float>* row : {&mean_, &factor_, &beta_}) row->resize(static_cast<std::size_t>(width * channels));
  }
  /// beta null: zeros
  direct::Affine operator()(const float* mean, const float* factor, const float* beta) {
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      const std::size_t c = i % channels_;
      mean_[i] = mean[c], factor_[i] = factor[c], beta_[i] = beta == nullptr ? 0.0F : beta[c];
    }
    return {mean_.data(), factor_.data(), beta_.data()};
  }

 private:
  std::size_t channels_;
  std::vector<float> mean_, factor_, beta_;
};

class DirectNormConv final : public NormConvOp {
 public:
  DirectNormConv(const NormSettings& settings, std::unique_ptr<DirectConv> conv, const ConvGeometry& geometry)
      : norm_(settings),
        conv_(std::move(conv)),
        geometry_(geometry),
        taps_(geometry),
        map_(geometry.in[2], geometry.in_channels) {}

  void forward(const Step& step, const Forward& f) override {
    if (step.training) norm_.update_statistics(step, f.x.data, f.memory);
    const norm_loops::Terms terms = norm_.terms(step, f.memory);
    const direct::Affine map = map_(terms.mean, terms.factor, terms.beta);
    conv_->forward_of({f.x.data.data(), &map}, f.w, f.b, f.y);
  }

  void backward(const Backward& b) override {
    const direct::Affine map = map_(b.memory.mean.data(), b.memory.inverse_deviation.data(), nullptr);
    conv_->backward_weights_of({b.x.data.data(), &map}, b.dy, b.dw, b.db, &taps_);
    norm_conv_gradients(b, geometry_, taps_.total());
  }

 private:
  NormSums norm_;
  std::unique_ptr<DirectConv> conv_;
  ConvGeometry geometry_;
  TapSums taps_;
  RowMap map_;
};

}  // namespace

std::unique_ptr<NormConvOp> make_norm_conv(const NormSettings& settings, const ConvGeometry& geometry) {
  auto conv = DirectConv::make(geometry);
  if (conv == nullptr) return nullptr;
  return std::make_unique<DirectNormConv>(settings, std::move(conv), geometry);
}

}  // namespace mrmf::onednn
