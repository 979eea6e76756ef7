// Local contrast normalisation, by its formula; declared in backend.hpp.
#include <cmath>
#include <vector>

#include "kernels/reference/backend.hpp"

namespace mrmf::reference {
namespace {

/// Local contrast normalisation, in the order of its formula: means, what is left of x, deviations, quotients.
class Contrast final : public ContrastOp {
 public:
  Contrast(const ContrastGeometry& geometry, Index max_rows) : g_(geometry), max_rows_(max_rows) {}

  void forward(ConstTensor x, Span, Tensor y) override {
    check_rows(x.shape, max_rows_);
    for (Index row = 0; row < x.shape.n; ++row) {
      measure(x.data.data() + row * product(g_.in) * g_.channels);
      Index element = row * product(g_.out.count) * g_.channels;
      for_each_in(g_.out, [&](const Extent& at) {
        for (Index c = 0; c < g_.channels; ++c)
          y.data[element++] = static_cast<float>(left_[index(at, c)] / divisor(at));
      });
    }
  }

  void backward(ConstTensor x, ConstTensor dy, Span, Tensor dx) override {
    check_rows(x.shape, max_rows_);
    for (Index row = 0; row < x.shape.n; ++row) {
      measure(x.data.data() + row * product(g_.in) * g_.channels);
      dleft_.assign(left_.size(), 0.0), dx_.assign(left_.size(), 0.0);
      Index element = row * product(g_.out.count) * g_.channels;
      for_each_in(g_.out, [&](const Extent& at) {
        double product = 0;
        for (Index c = 0; c < g_.channels; ++c, ++element) {
          dleft_[index(at, c)] += dy.data[element] / divisor(at);
          product += dy.data[element] * left_[index(at, c)];
        }
        const double deviation = std::sqrt(variance_[flat(g_.in, at)]);
        if (!(deviation < g_.floor)) spread_variance(at, -product / (2 * deviation * deviation * deviation));
      });
      for_each_in(g_.middle(), [&](const Extent& at) {
        double of_mean = 0;
        for (Index c = 0; c < g_.channels; ++c) {
          dx_[index(at, c)] += dleft_[index(at, c)];
          of_mean -= dleft_[index(at, c)];
        }
        for_each_weight(at, [&](const Extent& from, double weight) {
          for (Index c = 0; c < g_.channels; ++c)
            dx_[index(from, c)] += of_mean * weight / static_cast<double>(g_.channels);
        });
      });
      for (std::size_t i = 0; i < dx_.size(); ++i)
        dx.data[static_cast<std::size_t>(row) * dx_.size() + i] = static_cast<float>(dx_[i]);
    }
  }

 private:
  std::size_t index(const Extent& at, Index c) const {
    return static_cast<std::size_t>(flat(g_.in, at) * g_.channels + c);
  }
  double divisor(const Extent& at) const {
    const double deviation = std::sqrt(variance_[flat(g_.in, at)]);
    return deviation < g_.floor ? double{g_.floor} : deviation;
  }

  /// What is left of x behind its mean, and the variance of that.
  void measure(const float* x) {
    const auto channels = static_cast<double>(g_.channels);
    left_.assign(static_cast<std::size_t>(product(g_.in) * g_.channels), 0.0);
    variance_.assign(static_cast<std::size_t>(product(g_.in)), 0.0);
    for_each_in(g_.middle(), [&](const Extent& at) {
      double mean = 0;
      for_each_weight(at, [&](const Extent& from, double weight) {
        for (Index c = 0; c < g_.channels; ++c) mean += weight * x[index(from, c)] / channels;
      });
      for (Index c = 0; c < g_.channels; ++c) left_[index(at, c)] = x[index(at, c)] - mean;
    });
    for_each_in(g_.out, [&](const Extent& at) {
      for_each_weight(at, [&](const Extent& from, double weight) {
        for (Index c = 0; c < g_.channels; ++c)
          variance_[flat(g_.in, at)] += weight * left_[index(from, c)] * left_[index(from, c)] / channels;
      });
    });
  }
  void spread_variance(const Extent& at, double gradient) {
    for_each_weight(at, [&](const Extent& from, double weight) {
      for (Index c = 0; c < g_.channels; ++c)
        dleft_[index(from, c)] += gradient * weight * 2 * left_[index(from, c)] / static_cast<double>(g_.channels);
    });
  }

  template <class Use>
  static void for_each_in(const Box& box, Use use) {
    for_each_position(box.count, [&](const Extent& at) {
      use(Extent{box.first[0] + at[0], box.first[1] + at[1], box.first[2] + at[2]});
    });
  }
  /// use(position, weight) for the positions of the window around `at` that are in the sample. The weights' sum is 1.
  template <class Use>
  void for_each_weight(const Extent& at, Use use) const {
    double sum = 0;
    const auto visit = [&](auto with) {
      for_each_position(g_.window, [&](const Extent& tap) {
        double weight = 1;
        Extent from{};
        for (std::size_t a = 0; a < 3; ++a) {
          const Index distance = tap[a] - g_.window[a] / 2;
          from[a] = at[a] + distance;
          if (from[a] + g_.first[a] < 0 || from[a] + g_.first[a] >= g_.sample[a]) return;
          weight *= g_.weight(a, std::abs(distance));
        }
        with(from, weight);
      });
    };
    visit([&](const Extent&, double weight) { sum += weight; });
    visit([&](const Extent& from, double weight) { use(from, weight / sum); });
  }

  ContrastGeometry g_;
  Index max_rows_;
  std::vector<double> left_, variance_, dleft_, dx_;  // of one row
};

}  // namespace

std::unique_ptr<ContrastOp> ReferenceBackend::contrast(const ContrastGeometry& geometry, Index max_rows) {
  return std::make_unique<Contrast>(geometry, max_rows);
}

}  // namespace mrmf::reference
