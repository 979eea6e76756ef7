// Batch norm beyond the generic layer test: the numbers of one example, and statistics of a batch spread over ranks.
#include <doctest/doctest.h>

#include <barrier>
#include <cmath>
#include <thread>

#include "tests/unit/backends.hpp"

namespace mrmf::test {
namespace {

/// Two ranks as two threads: each leaves its values in a slot, waits, and adds the slots in rank order.
class ThreadSum final : public RankSum {
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
  double take_seconds() override { return 0; }

 private:
  Shared& shared_;
  int rank_;
};

/// A training step of a batch norm on its own memory.
struct NormStep {
  Shape shape;
  std::vector<float> x, dy, y, dx, gamma, beta, running_mean, running_variance, mean, inverse, dgamma, dbeta;

  NormStep(const Shape& s, ConstSpan x_values, ConstSpan dy_values)
      : shape(s),
        x(x_values.begin(), x_values.end()),
        dy(dy_values.begin(), dy_values.end()),
        y(x.size(), NAN),
        dx(x.size(), NAN),
        gamma(channels(), 2.0F),
        beta(channels(), 1.0F),
        running_mean(channels(), 0.0F),
        running_variance(channels(), 1.0F),
        mean(channels(), NAN),
        inverse(channels(), NAN),
        dgamma(channels(), NAN),
        dbeta(channels(), NAN) {}
  std::size_t channels() const { return static_cast<std::size_t>(shape.channels); }

  void run(Backend& backend, RankSum* ranks) {
    const auto op = backend.norm({.channels = shape.channels, .momentum = 0.1F, .epsilon = 1e-5F}, shape.n);
    Step step;
    step.ranks = ranks;
    const NormMemory memory{gamma, beta, running_mean, running_variance, mean, inverse};
    op->forward(step, {shape, x}, memory, {shape, y});
    op->backward(step, {shape, x}, {shape, dy}, memory, dgamma, dbeta, {shape, dx});
  }
};

void check_close(const std::vector<float>& a, const std::vector<float>& b) {
  CHECK(relative_distance(a, b) < 1e-5);  // float rounding; a statistic of half the batch differs by 1e-1
}

}  // namespace

TEST_CASE("batch norm: biased variance normalises, the unbiased one is remembered") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    const std::vector<float> x{1, 3}, dy{1, 0};
    NormStep step(flat(2, 1), x, dy);
    step.run(*backend, nullptr);
    // mean 2, biased variance 1, unbiased 2; the running values start at 0 and 1 and take a tenth.
    CHECK(step.y[0] == doctest::Approx(1.0 - 2.0 / std::sqrt(1.0 + 1e-5)));
    CHECK(step.y[1] == doctest::Approx(1.0 + 2.0 / std::sqrt(1.0 + 1e-5)));
    CHECK(step.running_mean[0] == doctest::Approx(0.2));
    CHECK(step.running_variance[0] == doctest::Approx(1.1));
    CHECK(step.dbeta[0] == doctest::Approx(1.0));
    CHECK(step.dgamma[0] == doctest::Approx(-1.0 / std::sqrt(1.0 + 1e-5)));
  }
}

TEST_CASE("batch norm: two ranks have the statistics and gradients of the whole batch") {
  for (const Shape& whole : {flat(12, 31), line(6, 5, 8)}) {
    const Index per_row = whole.per_sample(), first = whole.n / 3;
    Rng rng(17);
    const auto x = uniform(rng, static_cast<std::size_t>(whole.count()), -1.0, 3.0);
    const auto dy = uniform(rng, x.size());
    const auto split = static_cast<std::size_t>(first * per_row);
    NormStep expected(whole, x, dy);
    const auto reference = make_reference_backend();
    expected.run(*reference, nullptr);

    for (std::size_t b = 0; b < backends().size(); ++b) {
      NormStep parts[2]{{whole.rows(first), ConstSpan(x).first(split), ConstSpan(dy).first(split)},
                        {whole.rows(whole.n - first), ConstSpan(x).subspan(split), ConstSpan(dy).subspan(split)}};
      ThreadSum::Shared shared;
      const auto rank = [&](int r) {
        const auto backend = std::move(backends()[b]);
        ThreadSum sum(shared, r);
        parts[r].run(*backend, &sum);
      };
      std::thread other(rank, 1);
      rank(0);
      other.join();

      INFO(backends()[b]->name());
      std::vector<float> y = parts[0].y, dx = parts[0].dx, dgamma = parts[0].dgamma, dbeta = parts[0].dbeta;
      y.insert(y.end(), parts[1].y.begin(), parts[1].y.end());
      dx.insert(dx.end(), parts[1].dx.begin(), parts[1].dx.end());
      for (std::size_t c = 0; c < dgamma.size(); ++c) {
        dgamma[c] += parts[1].dgamma[c];
        dbeta[c] += parts[1].dbeta[c];
      }
      check_close(y, expected.y);
      check_close(dx, expected.dx);
      check_close(dgamma, expected.dgamma);
      check_close(dbeta, expected.dbeta);
      check_close(parts[0].running_mean, expected.running_mean);
      check_close(parts[1].running_variance, expected.running_variance);
      CHECK(parts[0].running_variance == parts[1].running_variance);
    }
  }
}

}  // namespace mrmf::test
