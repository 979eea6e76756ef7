// Convolution, transposed convolution, and convolution with max pooling and ReLU; dense layers.
#include <vector>

#include "kernels/cpu/convolutions.hpp"
#include "kernels/reference/backend.hpp"

namespace mrmf::reference {
namespace {

class Conv final : public WeightedOp {
 public:
  Conv(const ConvGeometry& geometry, Index max_rows)
      : g_(geometry),
        out_(geometry.out()),
        window_{geometry.in, geometry.kernel, geometry.stride, geometry.pad_before, geometry.dilation},
        max_rows_(max_rows),
        weights_(static_cast<std::size_t>(geometry.weights())),
        bias_(static_cast<std::size_t>(geometry.out_channels)) {}

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    check_rows(x.shape, max_rows_);
    for_each_output(x.shape.n, [&](Index row, const Extent& at, Index channel, Index element) {
      double sum = g_.bias ? b[channel] : 0.0F;
      for_each_tap(window_, at, [&](Index tap, Index position) {
        const float* const xs = input(x.data, row, position);
        const float* const ws = filter(w, channel, tap);
        for (Index c = 0; c < g_.in_channels; ++c) sum += double{ws[c]} * xs[c];
      });
      y.data[element] = static_cast<float>(sum);
    });
  }

  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    check_rows(dy.shape, max_rows_);
    const Index per_sample = product(g_.in) * g_.in_channels;
    for (Index row = 0; row < dy.shape.n; ++row) {
      sample_.assign(static_cast<std::size_t>(per_sample), 0.0);  // not before: whole samples may only be planned
      for_each_output_of(row, [&](const Extent& at, Index channel, Index element) {
        for_each_tap(window_, at, [&](Index tap, Index position) {
          double* const sums = sample_.data() + position * g_.in_channels;
          const float* const ws = filter(w, channel, tap);
          for (Index c = 0; c < g_.in_channels; ++c) sums[c] += double{ws[c]} * dy.data[element];
        });
      });
      for (Index i = 0; i < per_sample; ++i) dx.data[row * per_sample + i] = static_cast<float>(sample_[i]);
    }
  }

  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    check_rows(x.shape, max_rows_);
    std::fill(weights_.begin(), weights_.end(), 0.0);
    std::fill(bias_.begin(), bias_.end(), 0.0);
    for_each_output(x.shape.n, [&](Index row, const Extent& at, Index channel, Index element) {
      bias_[channel] += dy.data[element];
      for_each_tap(window_, at, [&](Index tap, Index position) {
        const float* const xs = input(x.data, row, position);
        double* const sums = weights_.data() + (channel * product(g_.kernel) + tap) * g_.in_channels;
        for (Index c = 0; c < g_.in_channels; ++c) sums[c] += double{xs[c]} * dy.data[element];
      });
    });
    std::copy(weights_.begin(), weights_.end(), dw.begin());
    if (g_.bias) std::copy(bias_.begin(), bias_.end(), db.begin());
  }

 private:
  /// use(position, channel, element of y) for all outputs of one row.
  template <class Use>
  void for_each_output_of(Index row, Use use) const {
    Index element = row * product(out_) * g_.out_channels;
    for_each_position(out_, [&](const Extent& at) {
      for (Index channel = 0; channel < g_.out_channels; ++channel) use(at, channel, element++);
    });
  }
  template <class Use>
  void for_each_output(Index rows, Use use) const {
    for (Index row = 0; row < rows; ++row)
      for_each_output_of(row, [&](const Extent& at, Index channel, Index element) { use(row, at, channel, element); });
  }
  const float* input(ConstSpan x, Index row, Index position) const {
    return x.data() + (row * product(g_.in) + position) * g_.in_channels;
  }
  const float* filter(ConstSpan w, Index channel, Index tap) const {
    return w.data() + (channel * product(g_.kernel) + tap) * g_.in_channels;
  }

  ConvGeometry g_;
  Extent out_;
  Window window_;
  Index max_rows_;
  std::vector<double> sample_, weights_, bias_;  // sums of dx of one row (empty before the first), dw, db
};

}  // namespace

std::unique_ptr<WeightedOp> ReferenceBackend::conv(const ConvGeometry& geometry, Index max_rows) {
  return std::make_unique<Conv>(geometry, max_rows);
}

std::unique_ptr<WeightedOp> ReferenceBackend::conv_transpose(const ConvGeometry& geometry, Index max_rows) {
  return cpu::make_conv_transpose(conv(geometry, max_rows), geometry, max_rows);
}

namespace {

/// The fused operation as the composition of its parts.
class ConvPoolRelu final : public ConvPoolOp {
 public:
  ConvPoolRelu(Backend& backend, const ConvGeometry& conv, const PoolGeometry& pool, Index max_rows)
      : backend_(backend),
        conv_(backend.conv(conv, max_rows)),
        pool_(backend.pool(pool, max_rows)),
        full_shape_{0, conv.out(), conv.out_channels, 3},
        full_(static_cast<std::size_t>(full_shape_.with_rows(max_rows).count())),
        rectified_(static_cast<std::size_t>(max_rows * product(pool.out()) * pool.channels)) {}

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, std::span<std::uint8_t> winner) override {
    const Tensor full = full_rows(x.shape.n);
    conv_->forward(x, w, b, full);
    pool_->forward(full, y, winner);
    backend_.activate(ActivationKind::relu, 0, y, y);
  }

  void backward(ConstTensor x, ConstTensor y, ConstTensor dy, std::span<const std::uint8_t> winner, ConstSpan w,
                Span dw, Span db, Tensor dx) override {
    const Tensor full = full_rows(x.shape.n);
    const Tensor pooled{dy.shape, Span(rectified_).first(dy.data.size())};
    backend_.activate_backward(ActivationKind::relu, 0, y, dy, pooled);
    pool_->backward(pooled, winner, full);
    conv_->backward_weights(x, full, dw, db);
    if (!dx.data.empty()) conv_->backward_data(full, w, dx);
  }

 private:
  Tensor full_rows(Index rows) {
    const Shape shape = full_shape_.with_rows(rows);
    return {shape, Span(full_).first(static_cast<std::size_t>(shape.count()))};
  }

  Backend& backend_;
  std::unique_ptr<WeightedOp> conv_;
  std::unique_ptr<PoolOp> pool_;
  Shape full_shape_;
  std::vector<float> full_;       // the convolution's output, then its gradient
  std::vector<float> rectified_;  // dy behind the ReLU
};

}  // namespace

// Null unless `pool` is a max pooling with stride = window.
std::unique_ptr<ConvPoolOp> ReferenceBackend::conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool,
                                                             Index max_rows) {
  if (pool.kind != PoolKind::max || pool.stride != pool.window) return nullptr;
  return std::make_unique<ConvPoolRelu>(*this, conv, pool, max_rows);
}

namespace {

class Dense final : public WeightedOp {
 public:
  Dense(Index in, Index out, Index max_rows) : in_(in), out_(out), max_rows_(max_rows) {}

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    check_rows(x.shape, max_rows_);
    for (Index row = 0; row < x.shape.n; ++row)
      for (Index o = 0; o < out_; ++o) {
        double sum = b[o];
        for (Index i = 0; i < in_; ++i) sum += double{x.data[row * in_ + i]} * w[o * in_ + i];
        y.data[row * out_ + o] = static_cast<float>(sum);
      }
  }

  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    check_rows(dy.shape, max_rows_);
    for (Index row = 0; row < dy.shape.n; ++row)
      for (Index i = 0; i < in_; ++i) {
        double sum = 0;
        for (Index o = 0; o < out_; ++o) sum += double{dy.data[row * out_ + o]} * w[o * in_ + i];
        dx.data[row * in_ + i] = static_cast<float>(sum);
      }
  }

  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    check_rows(x.shape, max_rows_);
    for (Index o = 0; o < out_; ++o) {
      double bias = 0;
      for (Index row = 0; row < x.shape.n; ++row) bias += dy.data[row * out_ + o];
      db[o] = static_cast<float>(bias);
      for (Index i = 0; i < in_; ++i) {
        double sum = 0;
        for (Index row = 0; row < x.shape.n; ++row) sum += double{dy.data[row * out_ + o]} * x.data[row * in_ + i];
        dw[o * in_ + i] = static_cast<float>(sum);
      }
    }
  }

 private:
  Index in_, out_, max_rows_;
};

}  // namespace

std::unique_ptr<WeightedOp> ReferenceBackend::dense(Index in, Index out, Index max_rows) {
  return std::make_unique<Dense>(in, out, max_rows);
}

}  // namespace mrmf::reference
