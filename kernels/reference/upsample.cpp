// Upsampling, nearest and linear, by its definition; declared in backend.hpp.
#include <cmath>
#include <vector>

#include "kernels/reference/backend.hpp"

namespace mrmf::reference {
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
