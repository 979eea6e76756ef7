// Layers of weights by their definitions: convolution, alone, transposed, and with max pooling and ReLU; dense;
// locally connected, with the penalty and the constraint of reconstruction ICA.
#include <cmath>
#include <vector>

#include "kernels/cpu/convolutions.hpp"
#include "kernels/formulas.hpp"
#include "kernels/reference/backend.hpp"

namespace mrmf::reference {

// Convolution, transposed convolution, and convolution with max pooling and ReLU.

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

// Locally connected layers; the penalty and the constraint of reconstruction ICA, which is made of them.

namespace {

class LocallyConnected final : public LocallyConnectedOp {
 public:
  LocallyConnected(ReferenceBackend& backend, const ConvGeometry& geometry, Index max_rows)
      : backend_(backend),
        g_(geometry),
        out_(geometry.out()),
        window_{g_.in, g_.kernel, g_.stride, {}, {1, 1, 1}},
        max_rows_(max_rows) {}

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    check_rows(x.shape, max_rows_);
    for_each_output(x.shape.n, [&](Index row, const Extent& at, Index unit, Index element) {
      double sum = b.empty() ? 0.0F : b[static_cast<std::size_t>(unit)];
      for_each_weight(row, at, unit,
                      [&](std::size_t weight, std::size_t in) { sum += double{w[weight]} * x.data[in]; });
      y.data[static_cast<std::size_t>(element)] = static_cast<float>(sum);
    });
  }

  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    check_rows(dy.shape, max_rows_);
    sums_.assign(dx.data.size(), 0.0);
    for_each_output(dy.shape.n, [&](Index row, const Extent& at, Index unit, Index element) {
      const double gradient = dy.data[static_cast<std::size_t>(element)];
      for_each_weight(row, at, unit, [&](std::size_t weight, std::size_t in) { sums_[in] += w[weight] * gradient; });
    });
    std::copy(sums_.begin(), sums_.end(), dx.data.begin());
  }

  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    sums_.assign(dw.size() + db.size(), 0.0);
    add(x, dy, dw, db);
  }

  void accumulate_weight_gradient(ConstTensor x, ConstTensor dy, Span dw) override {
    sums_.assign(dw.begin(), dw.end());
    add(x, dy, dw, {});
  }

  void update(const StepContext& step, const GradientProduct& first, const GradientProduct* second,
              const UntiedWeights& weights) override {
    std::vector<float> dw(weights.w.size()), db(weights.b.size());
    backward_weights(first.x, first.dy, dw, db);
    if (second != nullptr) accumulate_weight_gradient(second->x, second->dy, dw);
    backend_.sgd(step, weights.w, dw, weights.w_velocity);
    backend_.sgd(step, weights.b, db, weights.b_velocity);
  }

 private:
  // To what is in sums_, which becomes dw and db.
  void add(ConstTensor x, ConstTensor dy, Span dw, Span db) {
    check_rows(x.shape, max_rows_);
    for_each_output(x.shape.n, [&](Index row, const Extent& at, Index unit, Index element) {
      const double gradient = dy.data[static_cast<std::size_t>(element)];
      if (!db.empty()) sums_[dw.size() + static_cast<std::size_t>(unit)] += gradient;
      for_each_weight(row, at, unit,
                      [&](std::size_t weight, std::size_t in) { sums_[weight] += x.data[in] * gradient; });
    });
    std::copy_n(sums_.begin(), dw.size(), dw.begin());
    std::copy_n(sums_.end() - static_cast<std::ptrdiff_t>(db.size()), db.size(), db.begin());
  }

  /// use(row, position, number of the output within a sample, and within all) for all outputs.
  template <class Use>
  void for_each_output(Index rows, Use use) const {
    Index element = 0;
    for (Index row = 0; row < rows; ++row) {
      Index unit = 0;
      for_each_position(out_, [&](const Extent& at) {
        for (Index channel = 0; channel < g_.out_channels; ++channel) use(row, at, unit++, element++);
      });
    }
  }
  /// use(weight, element of x) for all weights of an output.
  template <class Use>
  void for_each_weight(Index row, const Extent& at, Index unit, Use use) const {
    const Index field = product(g_.kernel) * g_.in_channels;
    for_each_tap(window_, at, [&](Index tap, Index position) {
      for (Index c = 0; c < g_.in_channels; ++c)
        use(static_cast<std::size_t>(unit * field + tap * g_.in_channels + c),
            static_cast<std::size_t>((row * product(g_.in) + position) * g_.in_channels + c));
    });
  }

  ReferenceBackend& backend_;
  ConvGeometry g_;
  Extent out_;
  Window window_;
  Index max_rows_;
  std::vector<double> sums_;  // of dx, or of dw and db
};

}  // namespace

std::unique_ptr<LocallyConnectedOp> ReferenceBackend::locally_connected(const ConvGeometry& geometry, Index max_rows) {
  return std::make_unique<LocallyConnected>(*this, geometry, max_rows);
}

void ReferenceBackend::add_sparsity(const StepContext& step, const SparsitySettings& settings, ConstTensor x,
                                    Tensor dx) {
  for (Index i = 0; i < std::ssize(x.data); i += settings.pooled)
    add_sparsity_of_group(settings, settings.weight * step.loss_weight, x.data.data() + i, dx.data.data() + i);
}

void ReferenceBackend::scale_rows(Span w, Index count, float length) {
  for (Index first = 0; first < std::ssize(w); first += count) {
    double squares = 0;
    for (Index i = first; i < first + count; ++i) squares += double{w[i]} * w[i];
    const double factor = squares > 0 ? length / std::sqrt(squares) : 1;
    for (Index i = first; i < first + count; ++i) w[i] = static_cast<float>(w[i] * factor);
  }
}

}  // namespace mrmf::reference
