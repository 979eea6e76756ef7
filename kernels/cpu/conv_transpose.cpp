// Transposed convolutions as a convolution's gradients; declared in convolutions.hpp.
#include "kernels/cpu/convolutions.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mrmf::cpu {
namespace {

class ConvTranspose final : public WeightedOp {
 public:
  ConvTranspose(std::unique_ptr<WeightedOp> conv, const ConvGeometry& geometry, Index max_rows)
      : conv_(std::move(conv)),
        channels_(geometry.in_channels),
        no_bias_(static_cast<std::size_t>(geometry.out_channels)),
        unused_(no_bias_.size()),
        sums_(static_cast<std::size_t>(pieces(max_rows * product(geometry.in)) * channels_)) {}

  void prepare(Index rows) override { conv_->prepare(rows); }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    conv_->backward_data(x, w, y);
    const Index rows = std::ssize(y.data) / channels_;
    float* const to = y.data.data();
#pragma omp parallel for schedule(static)
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < channels_; ++c) to[r * channels_ + c] += b[static_cast<std::size_t>(c)];
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override { conv_->forward(dy, w, no_bias_, dx); }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    conv_->backward_weights(dy, x, dw, unused_);
    add_up(dy.data, db);
  }

 private:
  static constexpr Index piece = 1024;  // positions
  static Index pieces(Index positions) { return (positions + piece - 1) / piece; }

  /// Sums per channel: of pieces, and then of these in their order, whatever the threads.
  void add_up(ConstSpan dy, Span db) {
    const Index positions = std::ssize(dy) / channels_, count = pieces(positions);
    const float* const from = dy.data();
#pragma omp parallel for schedule(static)
    for (Index p = 0; p < count; ++p) {
      double* const sums = sums_.data() + p * channels_;
      std::fill_n(sums, channels_, 0.0);
      for (Index r = p * piece; r < std::min(positions, (p + 1) * piece); ++r)
        for (Index c = 0; c < channels_; ++c) sums[c] += double{from[r * channels_ + c]};
    }
    for (Index c = 0; c < channels_; ++c) {
      double sum = 0;
      for (Index p = 0; p < count; ++p) sum += sums_[p * channels_ + c];
      db[c] = static_cast<float>(sum);
    }
  }

  std::unique_ptr<WeightedOp> conv_;
  Index channels_;                       // channels of y
  std::vector<float> no_bias_, unused_;  // for and from the convolution, which has its bias at x
  std::vector<double> sums_;             // per piece and channel
};

}  // namespace

std::unique_ptr<WeightedOp> make_conv_transpose(std::unique_ptr<WeightedOp> conv, const ConvGeometry& geometry,
                                                Index max_rows) {
  return std::make_unique<ConvTranspose>(std::move(conv), geometry, max_rows);
}

}  // namespace mrmf::cpu
