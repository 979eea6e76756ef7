// Max and average pooling, nearest and linear upsampling, by their definitions.
#include <cmath>
#include <vector>

#include "kernels/formulas.hpp"
#include "kernels/reference/backend.hpp"

namespace mrmf::reference {

// Max and average pooling, by their definitions; declared in backend.hpp.

namespace {

class Pool final : public PoolOp {
 public:
  Pool(const PoolGeometry& geometry, Index max_rows)
      : g_(geometry),
        out_(geometry.out()),
        window_{geometry.in, geometry.window, geometry.stride, {0, 0, 0}},
        max_rows_(max_rows) {
    MRMF_CHECK(g_.kind == PoolKind::average || product(g_.window) <= 256,
               "a max pooling window holds at most 256 positions: its winner is one byte");
  }

  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t> winner) override {
    check_rows(x.shape, max_rows_);
    for (Index row = 0; row < x.shape.n; ++row) {
      const float* const in = x.data.data() + row * per_sample();
      for_each_output_of(row, [&](const Extent& at, Index c, Index element) {
        if (g_.kind == PoolKind::average)
          y.data[element] = mean(in + c, at);
        else
          find_maximum(in + c, at, y.data[element], winner[element]);
      });
    }
  }

  /// Windows may overlap, so a position of dx may get several contributions.
  void backward(ConstTensor dy, std::span<const std::uint8_t> winner, Tensor dx) override {
    check_rows(dy.shape, max_rows_);
    const double share = 1.0 / static_cast<double>(product(g_.window));
    for (Index row = 0; row < dy.shape.n; ++row) {
      sample_.assign(static_cast<std::size_t>(per_sample()), 0.0);  // not before: whole samples may only be planned
      for_each_output_of(row, [&](const Extent& at, Index c, Index element) {
        for_each_tap(window_, at, [&](Index tap, Index position) {
          double& target = sample_[position * g_.channels + c];
          if (g_.kind == PoolKind::average)
            target += share * dy.data[element];
          else if (tap == winner[element])
            target += dy.data[element];
        });
      });
      for (Index i = 0; i < per_sample(); ++i) dx.data[row * per_sample() + i] = static_cast<float>(sample_[i]);
    }
  }

 private:
  Index per_sample() const { return product(g_.in) * g_.channels; }

  float mean(const float* in, const Extent& at) const {
    double sum = 0;
    for_each_tap(window_, at, [&](Index, Index position) { sum += in[position * g_.channels]; });
    return static_cast<float>(sum / static_cast<double>(product(g_.window)));
  }

  void find_maximum(const float* in, const Extent& at, float& maximum, std::uint8_t& winner) const {
    for_each_tap(window_, at, [&](Index tap, Index position) {
      const float value = in[position * g_.channels];
      if (tap > 0 && !takes_maximum(value, maximum)) return;
      maximum = value;
      winner = static_cast<std::uint8_t>(tap);
    });
  }

  /// use(position, channel, element of y) for all outputs of one row.
  template <class Use>
  void for_each_output_of(Index row, Use use) const {
    Index element = row * product(out_) * g_.channels;
    for_each_position(out_, [&](const Extent& at) {
      for (Index c = 0; c < g_.channels; ++c) use(at, c, element++);
    });
  }

  PoolGeometry g_;
  Extent out_;
  Window window_;
  Index max_rows_;
  std::vector<double> sample_;  // sums of dx of one row; empty before the first
};

}  // namespace

std::unique_ptr<PoolOp> ReferenceBackend::pool(const PoolGeometry& geometry, Index max_rows) {
  return std::make_unique<Pool>(geometry, max_rows);
}

// Upsampling, nearest and linear, by its definition; declared in backend.hpp.

namespace {

/// The two input positions along one axis that an output position lies between, and the weight of the second.
struct Between {
  Index low, high;
  double weight;
};

Between between(UpsampleKind kind, Index out, Index factor, Index in) {
  if (kind == UpsampleKind::nearest) return {out / factor, out / factor, 0};
  // Centres: output position o is at (o + 1/2) / factor, input position i at i + 1/2.
  const double at = std::max(0.0, (static_cast<double>(out) + 0.5) / static_cast<double>(factor) - 0.5);
  const auto low = static_cast<Index>(std::floor(at));
  return {low, std::min(low + 1, in - 1), at - static_cast<double>(low)};
}

/// use(element of x, element of y, weight) for all pairs of one sample that have to do with each other.
template <class Use>
void for_each_pair(const UpsampleGeometry& g, Use use) {
  Index out = 0;
  for_each_position(g.out(), [&](const Extent& at) {
    Between axis[3];
    for (std::size_t a = 0; a < 3; ++a) axis[a] = between(g.kind, at[a], g.factor[a], g.in[a]);
    for (Index corner = 0; corner < 8; ++corner) {
      double weight = 1;
      Extent from{};
      for (std::size_t a = 0; a < 3; ++a) {
        const bool high = (corner >> a & 1) != 0;
        from[a] = high ? axis[a].high : axis[a].low;
        weight *= high ? axis[a].weight : 1 - axis[a].weight;
      }
      if (weight == 0) continue;
      for (Index c = 0; c < g.channels; ++c) use(flat(g.in, from) * g.channels + c, out * g.channels + c, weight);
    }
    ++out;
  });
}

class Upsample final : public PoolOp {
 public:
  Upsample(const UpsampleGeometry& geometry, Index max_rows)
      : g_(geometry), in_(product(g_.in) * g_.channels), out_(product(g_.out()) * g_.channels), max_rows_(max_rows) {}

  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t>) override {
    check_rows(x.shape, max_rows_);
    std::vector<double> sums(static_cast<std::size_t>(out_));
    for (Index row = 0; row < x.shape.n; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for_each_pair(g_, [&](Index from, Index to, double weight) { sums[to] += weight * x.data[row * in_ + from]; });
      for (Index i = 0; i < out_; ++i) y.data[row * out_ + i] = static_cast<float>(sums[i]);
    }
  }

  void backward(ConstTensor dy, std::span<const std::uint8_t>, Tensor dx) override {
    check_rows(dy.shape, max_rows_);
    std::vector<double> sums(static_cast<std::size_t>(in_));
    for (Index row = 0; row < dy.shape.n; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for_each_pair(g_, [&](Index from, Index to, double weight) { sums[from] += weight * dy.data[row * out_ + to]; });
      for (Index i = 0; i < in_; ++i) dx.data[row * in_ + i] = static_cast<float>(sums[i]);
    }
  }

 private:
  UpsampleGeometry g_;
  Index in_, out_;  // values of a sample
  Index max_rows_;
};

}  // namespace

std::unique_ptr<PoolOp> ReferenceBackend::upsample(const UpsampleGeometry& geometry, Index max_rows) {
  return std::make_unique<Upsample>(geometry, max_rows);
}

}  // namespace mrmf::reference
