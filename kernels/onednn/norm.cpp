// Batch norm. Rows are split over threads; sums are double, per thread, and added in thread order.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/onednn/operations.hpp"
#include "kernels/onednn/vectorise.hpp"

namespace mrmf::onednn {
namespace {

/// Part of a (rows, channels) matrix: a thread's rows, and a block of channels whose sums stay in the L1 cache.
struct Block {
  Index rows, stride, channels;
};
constexpr Index block_channels = 512;

MRMF_VECTORISE void add_moments(const Block& b, const float* __restrict x, double* __restrict sum,
                                double* __restrict squares) {
  const Index stride = b.stride;
  Index r = 0;
  for (; r + 2 <= b.rows; r += 2, x += 2 * stride)
    for (Index c = 0; c < b.channels; ++c) {
      const double p = x[c], q = x[c + stride];
      sum[c] += p + q;
      squares[c] += p * p + q * q;
    }
  if (r < b.rows)
    for (Index c = 0; c < b.channels; ++c) {
      const double p = x[c];
      sum[c] += p;
      squares[c] += p * p;
    }
}

/// y = (x - mean) * factor + beta.
MRMF_VECTORISE void normalise(const Block& b, const float* __restrict x, const float* __restrict mean,
                              const float* __restrict factor, const float* __restrict beta, float* __restrict y) {
  for (Index r = 0; r < b.rows; ++r, x += b.stride, y += b.stride)
    for (Index c = 0; c < b.channels; ++c) y[c] = (x[c] - mean[c]) * factor[c] + beta[c];
}

/// Sums of dy and dy * (x - mean).
MRMF_VECTORISE void add_gradients(const Block& b, const float* __restrict x, const float* __restrict dy,
                                  const float* __restrict mean, double* __restrict sum,
                                  double* __restrict product_sum) {
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
MRMF_VECTORISE void data_gradient(const Block& b, const float* __restrict x, const float* dy, const GradientTerms& t,
                                  float* dx) {
  const float* __restrict mean = t.mean, * __restrict factor = t.factor, * __restrict offset = t.offset, * __restrict slope = t.slope;
  for (Index r = 0; r < b.rows; ++r, x += b.stride, dy += b.stride, dx += b.stride)
    for (Index c = 0; c < b.channels; ++c) dx[c] = factor[c] * (dy[c] - offset[c] - (x[c] - mean[c]) * slope[c]);
}

class Norm final : public NormOp {
 public:
  explicit Norm(const NormSettings& settings)
      : settings_(settings),
        channels_(settings.channels),
        threads_(omp_get_max_threads()),
        partial_(static_cast<std::size_t>(threads_ * 2 * channels_)),
        sums_(static_cast<std::size_t>(2 * channels_ + 1)),
        terms_(static_cast<std::size_t>(3 * channels_)) {}

  void forward(const Step& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    const Index rows = std::ssize(x.data) / channels_;
    if (step.training) update_statistics(step, x.data, memory);
    float* factor = terms_.data();
    for (Index c = 0; c < channels_; ++c)
      factor[c] = memory.gamma[c] *
                  (step.training ? memory.inverse_deviation[c] : inverse_root(double{memory.running_variance[c]}));
    const float* mean = step.training ? memory.mean.data() : memory.running_mean.data();
    for_blocks(rows, [&](int, const Block& b, Index at, Index c) {
      normalise(b, x.data.data() + at, mean + c, factor + c, memory.beta.data() + c, y.data.data() + at);
    });
  }

  void backward(const Step& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma, Span dbeta,
                Tensor dx) override {
    const Index rows = std::ssize(x.data) / channels_;
    sum_over_threads(rows, [&](const Block& b, Index at, Index c, double* sum, double* product_sum) {
      add_gradients(b, x.data.data() + at, dy.data.data() + at, memory.mean.data() + c, sum, product_sum);
    });
    for (Index c = 0; c < channels_; ++c) {
      dbeta[c] = static_cast<float>(sums_[c]);
      dgamma[c] = static_cast<float>(sums_[channels_ + c] * memory.inverse_deviation[c]);
    }
    if (step.ranks != nullptr) step.ranks->sum(sums_);
    if (dx.data.empty()) return;
    const double count = sums_.back();
    float *factor = terms_.data(), *offset = factor + channels_, *slope = offset + channels_;
    for (Index c = 0; c < channels_; ++c) {
      const double inverse = memory.inverse_deviation[c];
      factor[c] = memory.gamma[c] * memory.inverse_deviation[c];
      offset[c] = static_cast<float>(sums_[c] / count);
      slope[c] = static_cast<float>(sums_[channels_ + c] / count * inverse * inverse);
    }
    for_blocks(rows, [&](int, const Block& b, Index at, Index c) {
      data_gradient(b, x.data.data() + at, dy.data.data() + at,
                    {memory.mean.data() + c, factor + c, offset + c, slope + c}, dx.data.data() + at);
    });
  }

 private:
  float inverse_root(double variance) const {
    return static_cast<float>(1.0 / std::sqrt(variance + double{settings_.epsilon}));
  }

  /// body(thread, block, offset of the block in the matrix, its first channel).
  template <class Body>
  void for_blocks(Index rows, const Body& body) const {
#pragma omp parallel for schedule(static) num_threads(threads_)
    for (int t = 0; t < threads_; ++t) {
      const Index first = rows * t / threads_, last = rows * (t + 1) / threads_;
      for (Index c = 0; c < channels_; c += block_channels)
        body(t, Block{last - first, channels_, std::min(block_channels, channels_ - c)}, first * channels_ + c, c);
    }
  }

  /// Fills sums_ with two sums per channel and the number of rows. add(block, offset, channel, sum, other sum).
  template <class Add>
  void sum_over_threads(Index rows, const Add& add) {
    for_blocks(rows, [&](int t, const Block& b, Index at, Index c) {
      double* sum = partial_.data() + t * 2 * channels_ + c;
      double* other = sum + channels_;
      std::fill_n(sum, b.channels, 0.0);
      std::fill_n(other, b.channels, 0.0);
      add(b, at, c, sum, other);
    });
    std::copy_n(partial_.data(), 2 * channels_, sums_.data());
    for (int t = 1; t < threads_; ++t)
      for (Index c = 0; c < 2 * channels_; ++c) sums_[c] += partial_[t * 2 * channels_ + c];
    sums_.back() = static_cast<double>(rows);
  }

  void update_statistics(const Step& step, ConstSpan x, const NormMemory& memory) {
    sum_over_threads(std::ssize(x) / channels_, [&](const Block& b, Index at, Index, double* sum, double* squares) {
      add_moments(b, x.data() + at, sum, squares);
    });
    if (step.ranks != nullptr) step.ranks->sum(sums_);
    const double count = sums_.back(), unbias = count / std::max(count - 1.0, 1.0);
    const auto drift = [this](float& running, double batch) {
      running = static_cast<float>(running + double{settings_.momentum} * (batch - running));
    };
    for (Index c = 0; c < channels_; ++c) {
      const double mean = sums_[c] / count;
      const double variance = std::max(sums_[channels_ + c] / count - mean * mean, 0.0);
      memory.mean[c] = static_cast<float>(mean);
      memory.inverse_deviation[c] = inverse_root(variance);
      drift(memory.running_mean[c], mean);
      drift(memory.running_variance[c], variance * unbias);
    }
  }

  NormSettings settings_;
  Index channels_;
  int threads_;
  std::vector<double> partial_;  // per thread: two sums per channel
  std::vector<double> sums_;     // two sums per channel, then the number of values
  std::vector<float> terms_;     // per channel: what the elementwise loops need
};

}  // namespace

std::unique_ptr<NormOp> make_norm(const NormSettings& settings) { return std::make_unique<Norm>(settings); }

}  // namespace mrmf::onednn
