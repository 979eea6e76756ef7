// A training step of a batch norm on memory of its own, alone or as one of two ranks.
#pragma once

#include <barrier>
#include <cmath>
#include <optional>
#include <thread>
#include <vector>

#include "tests/unit/support/backends.hpp"

namespace mrmf::test {

/// Two ranks as two threads: each leaves its values in a slot, waits, and adds the slots in rank order.
class ThreadSum final : public AllReduce {
 public:
  struct Shared {
    std::vector<double> slots[2];
    std::barrier<> barrier{2};
  };
  ThreadSum(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
  void sum(std::span<double> values) override {
    shared_.slots[rank_].assign(values.begin(), values.end());
    shared_.barrier.arrive_and_wait();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = shared_.slots[0][i] + shared_.slots[1][i];
    shared_.barrier.arrive_and_wait();
  }
  void start(Span) override {}
  void finish() override {}
  SumTime take_time() override { return {}; }

 private:
  Shared& shared_;
  int rank_;
};

/// A batch norm over samples of this shape; `fused`: with what follows it.
struct NormLayer {
  Shape in;
  std::optional<NormReluPool> fused{};

  Shape out() const {
    Shape shape = in;
    if (fused && fused->pool) shape.spatial = fused->pool->out();
    return shape;
  }
  /// Null where the backend does not offer it.
  std::unique_ptr<NormOp> make(Backend& backend) const {
    if (fused) return backend.norm_relu_pool(*fused, in.n);
    return backend.norm({.channels = in.channels, .momentum = 0.1F, .epsilon = 1e-5F}, in.n);
  }
  NormLayer rows(Index n) const { return {in.with_rows(n), fused}; }
};

struct NormStep {
  NormLayer layer;
  std::vector<float> x, dy, y, dx, gamma, beta, running_mean, running_variance, mean, inverse, dgamma, dbeta;

  NormStep(const NormLayer& l, ConstSpan x_values, ConstSpan dy_values)
      : layer(l),
        x(x_values.begin(), x_values.end()),
        dy(dy_values.begin(), dy_values.end()),
        y(dy.size(), NAN),
        dx(x.size(), NAN),
        gamma(channels(), 2.0F),
        beta(channels(), 1.0F),
        running_mean(channels(), 0.0F),
        running_variance(channels(), 1.0F),
        mean(channels(), NAN),
        inverse(channels(), NAN),
        dgamma(channels(), NAN),
        dbeta(channels(), NAN) {}
  std::size_t channels() const { return static_cast<std::size_t>(layer.in.channels); }

  void run(Backend& backend, AllReduce* ranks) {
    const auto op = layer.make(backend);
    StepContext step;
    step.team_sum = ranks;
    const NormMemory memory{gamma, beta, running_mean, running_variance, mean, inverse};
    const Shape in = layer.in, out = layer.out();
    op->forward(step, {in, x}, memory, {out, y});
    op->backward(step, {in, x}, {out, dy}, memory, dgamma, dbeta, {in, dx});
  }
};

/// Checks on every backend that offers the layer that two ranks with a part of the rows each have the statistics, the
/// results and, added up, the gradients that the reference has on the whole batch.
void check_two_ranks(const NormLayer& whole);

}  // namespace mrmf::test
