// Convolutions made of others' passes, which the reference has, too: transposed ones as a convolution's gradients, and
// the gradients of a batch norm fused with its convolution.
#include <omp.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/batch_norm.hpp"
#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/threads.hpp"

namespace mrmf::cpu {

// Transposed convolutions as a convolution's gradients; declared in convolutions.hpp.

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

// Gradients of a batch norm fused with its convolution.
//
// Let y = gamma * u + beta be the batch norm's output, u its normalised input, and w the convolution's filters. The
// gradient of y, called dy here, is the convolution's data gradient. Only two sums per channel of it are wanted:
//   dgamma = sum over positions of dy * u = sum over outputs and taps of w * v, v the weight gradient taken with u,
//   dbeta  = sum over positions of dy     = sum over outputs and taps of w * s, s the sums of TapSums.
// The weight gradient itself is gamma * v + beta * s. Nothing is divided by gamma, which may be zero. The padding is
// zeros of y, not of x, so s must know the border.

namespace {

class NormThenConv final : public NormConvOp {
 public:
  NormThenConv(NormConvParts parts, const ConvGeometry& geometry)
      : parts_(std::move(parts)), g_(geometry), taps_(geometry) {}

  void prepare(Index rows) override { parts_.conv->prepare(rows); }

  void forward(const StepContext& step, const Forward& f) override {
    const Tensor y{f.x.shape, f.normalised};
    parts_.norm->forward(step, f.x, f.memory, y);
    parts_.conv->forward(y, f.w, f.b, f.y);
  }

  void backward(const Backward& b) override {
    normalise(b);
    parts_.conv->backward_weights({b.x.shape, b.normalised}, b.dy, b.dw, b.db);
    norm_conv_gradients(b, g_, taps_(b.dy));
  }

 private:
  /// (x - mean) / deviation
  void normalise(const Backward& b) const {
    const Index channels = g_.in_channels, rows = std::ssize(b.x.data) / channels;
    const float *x = b.x.data.data(), *mean = b.memory.mean.data(), *inverse = b.memory.inverse_deviation.data();
    float* u = b.normalised.data();
#pragma omp parallel for schedule(static)
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < channels; ++c) u[r * channels + c] = (x[r * channels + c] - mean[c]) * inverse[c];
  }

  NormConvParts parts_;
  ConvGeometry g_;
  TapSums taps_;
};

}  // namespace

void norm_conv_gradients(const NormConvOp::Backward& b, const ConvGeometry& geometry, std::span<const double> sums) {
  const auto channels = static_cast<std::size_t>(geometry.in_channels);
  const auto taps = static_cast<std::size_t>(product(geometry.kernel));
  const auto outs = static_cast<std::size_t>(geometry.out_channels);
  for (std::size_t c = 0; c < channels; ++c) {
    double dgamma = 0, dbeta = 0;
    for (std::size_t o = 0; o < outs; ++o)
      for (std::size_t t = 0; t < taps; ++t) {
        const std::size_t at = (o * taps + t) * channels + c;
        const double sum = sums[t * outs + o], w = b.w[at], v = b.dw[at];
        dgamma += w * v;
        dbeta += w * sum;
        b.dw[at] = static_cast<float>(b.memory.gamma[c] * v + b.memory.beta[c] * sum);
      }
    b.dgamma[c] = static_cast<float>(dgamma);
    b.dbeta[c] = static_cast<float>(dbeta);
  }
}

TapSums::TapSums(const ConvGeometry& geometry)
    : g_(geometry),
      out_(geometry.out()),
      line_(g_.kernel[2] * g_.out_channels),
      plane_(g_.kernel[1] * line_),
      volume_(g_.kernel[0] * plane_),
      stride_(volume_ + plane_ + line_) {
  for (std::size_t a = 0; a < 3; ++a)
    for (Index tap = 0; tap < g_.kernel[a]; ++tap) {
      // 0 <= position * stride - pad_before + tap * dilation < in
      const Index shift = g_.pad_before[a] - tap * g_.dilation[a], stride = g_.stride[a];
      const Index begin = std::clamp<Index>((shift + stride - 1) / stride, 0, out_[a]);
      const Index end = std::min(out_[a], shift + g_.in[a] <= 0 ? 0 : (shift + g_.in[a] - 1) / stride + 1);
      ranges_[a].push_back({begin, std::max(begin, end)});
    }
}

/// Writes the sums of one line of dy for each tap along the last axis: the whole line, less the ends that the tap
/// misses.
void TapSums::add_line(const float* dy, double* line) const {
  const Index outs = g_.out_channels;
  const auto add = [&](Index begin, Index end, double sign, double* to) {
    constexpr Index run = 32, block = 16;  // positions summed as floats, and channels in registers
    for (Index first = begin; first < end; first += run)
      for (Index o = 0; o < outs; o += block) {
        const Index last = std::min(end, first + run), count = std::min(block, outs - o);
        std::array<float, block> sum{};
        if (count == block)
          for (Index p = first; p < last; ++p)
            for (Index k = 0; k < block; ++k) sum[k] += dy[p * outs + o + k];
        else
          for (Index p = first; p < last; ++p)
            for (Index k = 0; k < count; ++k) sum[k] += dy[p * outs + o + k];
        for (Index k = 0; k < count; ++k) to[o + k] += sign * static_cast<double>(sum[k]);
      }
  };
  std::fill_n(line, line_, 0.0);
  add(0, out_[2], 1, line);
  for (Index tap = g_.kernel[2]; tap-- > 0;) {  // the first tap's place holds the total, so it comes last
    if (tap > 0) std::copy_n(line, outs, line + tap * outs);
    const Range& range = ranges_[2][static_cast<std::size_t>(tap)];
    add(0, range.begin, -1, line + tap * outs);
    add(range.end, out_[2], -1, line + tap * outs);
  }
}

void TapSums::start(Index parts) { sums_.assign(static_cast<std::size_t>(parts * stride_), 0.0); }

void TapSums::add_plane(Index part, Index plane, const float* dy) {
  const auto add = [](const std::vector<Range>& ranges, Index position, const double* from, Index count, double* to) {
    for (const Range& range : ranges) {
      if (position >= range.begin && position < range.end)
        for (Index i = 0; i < count; ++i) to[i] += from[i];
      to += count;
    }
  };
  double* volume = sums_.data() + part * stride_;
  double *plane_sums = volume + volume_, *line = plane_sums + plane_;
  std::fill_n(plane_sums, plane_, 0.0);
  for (Index row = 0; row < out_[1]; ++row) {
    add_line(dy + row * out_[2] * g_.out_channels, line);
    add(ranges_[1], row, line, line_, plane_sums);
  }
  add(ranges_[0], plane % out_[0], plane_sums, plane_, volume);
}

std::span<const double> TapSums::total() {
  for (Index part = 1; part < std::ssize(sums_) / stride_; ++part)
    for (Index i = 0; i < volume_; ++i) sums_[i] += sums_[part * stride_ + i];
  return std::span(sums_).first(static_cast<std::size_t>(volume_));
}

std::span<const double> TapSums::operator()(ConstTensor dy) {
  const Index planes = dy.shape.n * out_[0], floats = out_[1] * out_[2] * g_.out_channels;
  const int threads = omp_get_max_threads();
  const Index parts = std::min(sum_parts(threads, stride_, most_added_serially), std::max<Index>(1, planes));
  start(parts);
  share_out(parts, threads, [&](Index first, Index last, int) {
    for (Index part = first; part < last; ++part)
      for (Index plane = planes * part / parts; plane < planes * (part + 1) / parts; ++plane)
        add_plane(part, plane, dy.data.data() + plane * floats);
  });
  return total();
}

std::unique_ptr<NormConvOp> make_norm_conv(NormConvParts parts, const ConvGeometry& geometry) {
  return std::make_unique<NormThenConv>(std::move(parts), geometry);
}

}  // namespace mrmf::cpu
