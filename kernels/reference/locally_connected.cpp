// Locally connected layers; the penalty and the constraint of reconstruction ICA, which is made of them.
#include <cmath>
#include <vector>

#include "kernels/formulas.hpp"
#include "kernels/reference/backend.hpp"

namespace mrmf::reference {
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
  std::vector<double> sums_;  // sums for dx, or for dw and db
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
