// Convolutions on the direct kernels.
#pragma once

#include <memory>
#include <vector>

#include "kernels/host/norm_conv.hpp"
#include "kernels/onednn/direct_planes.hpp"

namespace mrmf::onednn {

class DirectConv final : public WeightedOp {
 public:
  /// Null where oneDNN's own kernels are the better ones: on AVX-512, with strides, for few positions.
  static std::unique_ptr<DirectConv> make(const ConvGeometry& geometry);

  DirectConv(const direct::Kernels& kernels, const ConvGeometry& geometry);
  DirectConv(const DirectConv&) = delete;  // the rings point at the sweeps
  DirectConv& operator=(const DirectConv&) = delete;

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override { forward_of({x.data.data()}, w, b, y); }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override;
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    backward_weights_of({x.data.data()}, dy, dw, db, nullptr);
  }

  /// The same of what a map makes of x, which is nowhere stored.
  void forward_of(const PlaneInput& input, ConstSpan w, ConstSpan b, Tensor y);
  /// taps, if not null: sums of dy, taken while a plane of it is in the cache.
  void backward_weights_of(const PlaneInput& input, ConstTensor dy, Span dw, Span db, TapSums* taps);

 private:
  int threads() const { return static_cast<int>(gradients_.size()); }
  void convolve(const Sweep& sweep, std::vector<PlaneRing>& rings, const PlaneInput& input, Tensor y);

  Sweep forward_, data_;
  Arena bias_, packed_;
  std::vector<PlaneRing> forward_rings_, data_rings_;  // per thread
  std::vector<Arena> gradients_;                       // per thread: of weights and bias
};

}  // namespace mrmf::onednn
