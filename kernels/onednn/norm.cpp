// Batch norm alone.
#include <algorithm>

#include "kernels/onednn/backend.hpp"
#include "kernels/onednn/norm.hpp"
#include "kernels/onednn/vectorise.hpp"

namespace mrmf::onednn {
namespace {

/// Part of a (rows, channels) matrix: a thread's rows, and a block of channels whose sums stay in the L1 cache.
struct Block {
  Index rows, stride, channels;
};
constexpr Index block_channels = 512;

/// y = (x - mean) * factor + beta.
inline void normalise(const Block& b, const float* __restrict x, const float* __restrict mean,
                      const float* __restrict factor, const float* __restrict beta, float* __restrict y) {
  for (Index r = 0; r < b.rows; ++r, x += b.stride, y += b.stride)
    for (Index c = 0; c < b.channels; ++c) y[c] = (x[c] - mean[c]) * factor[c] + beta[c];
}

/// Sums of dy and dy * (x - mean).
inline void add_gradients(const Block& b, const float* __restrict x, const float* __restrict dy,
                          const float* __restrict mean, double* __restrict sum, double* __restrict product_sum) {
  const Index stride = b.stride;
  for (Index r = 0; r < b.rows; ++r, x += stride, dy += stride)
    for (Index c = 0; c < b.channels; ++c) {
      const double gradient = dy[c];
      sum[c] += gradient;
      product_sum[c] += gradient * static_cast<double>(x[c] - mean[c]);
    }
}

/// Per channel, what dx = factor * (dy - offset - (x - mean) * slope) needs.
struct GradientTerms {
  const float *mean, *factor, *offset, *slope;
};
inline void data_gradient(const Block& b, const float* __restrict x, const float* dy, const GradientTerms& t,
                          float* dx) {
  const float* __restrict mean = t.mean, * __restrict factor = t.factor, * __restrict offset = t.offset, * __restrict slope = t.slope;
  for (Index r = 0; r < b.rows; ++r, x += b.stride, dy += b.stride, dx += b.stride)
    for (Index c = 0; c < b.channels; ++c) dx[c] = factor[c] * (dy[c] - offset[c] - (x[c] - mean[c]) * slope[c]);
}

class Norm final : public NormOp {
 public:
  explicit Norm(const NormSettings& settings) : channels_(settings.channels), sums_(settings) {}

  void forward(const Step& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    if (step.training) sums_.update_statistics(step, x.data, memory);
    const norm_loops::Terms terms = sums_.terms(step, memory);
    sums_.share_out(std::ssize(x.data) / channels_, [&](Index first, Index last) {
      for_blocks(first, last, [&](const Block& b, Index at, Index c) {
        vectorised([&] {
          normalise(b, x.data.data() + at, terms.mean + c, terms.factor + c, terms.beta + c, y.data.data() + at);
        });
      });
    });
  }

  void backward(const Step& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma, Span dbeta,
                Tensor dx) override {
    const Index rows = std::ssize(x.data) / channels_;
    sums_.add_up(rows, [&](Index first, Index last, double* sums) {
      for_blocks(first, last, [&](const Block& b, Index at, Index c) {
        vectorised([&] {
          add_gradients(b, x.data.data() + at, dy.data.data() + at, memory.mean.data() + c, sums + c,
                        sums + channels_ + c);
        });
      });
    });
    sums_.parameter_gradients(memory, dgamma, dbeta);
    if (dx.data.empty()) return;
    const norm_loops::DataTerms data = sums_.data_terms(step, rows, memory);
    const norm_loops::Terms terms = sums_.terms(step, memory);
    sums_.share_out(rows, [&](Index first, Index last) {
      for_blocks(first, last, [&](const Block& b, Index at, Index c) {
        vectorised([&] {
          data_gradient(b, x.data.data() + at, dy.data.data() + at,
                        {terms.mean + c, terms.factor + c, data.offset + c, data.slope + c}, dx.data.data() + at);
        });
      });
    });
  }

 private:
  /// body(block, offset of the block in the matrix, its first channel) over the rows [first, last).
  template <class Body>
  void for_blocks(Index first, Index last, const Body& body) const {
    for (Index c = 0; c < channels_; c += block_channels)
      body(Block{last - first, channels_, std::min(block_channels, channels_ - c)}, first * channels_ + c, c);
  }

  Index channels_;
  NormSums sums_;
};

}  // namespace

std::unique_ptr<NormOp> make_norm(const NormSettings& settings) { return std::make_unique<Norm>(settings); }

}  // namespace mrmf::onednn
