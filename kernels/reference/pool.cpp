// Max and average pooling, by their definitions; declared in backend.hpp.
#include <vector>

#include "kernels/formulas.hpp"
#include "kernels/reference/backend.hpp"

namespace mrmf::reference {
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

}  // namespace mrmf::reference
