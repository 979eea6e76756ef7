#include "tests/unit/support/norm_step.hpp"

#include <doctest/doctest.h>

namespace mrmf::test {
namespace {

void check_close(const std::vector<float>& a, const std::vector<float>& b) {
  CHECK(relative_distance(a, b) < 1e-5);  // float rounding; a statistic of half the batch differs by 1e-1
}

struct TwoRanks {
  NormStep first, second;
};

/// The two ranks at the same time, each on a backend of its own.
void run_together(TwoRanks& pair, std::size_t backend_number) {
  ThreadSum::Shared shared;
  const auto rank = [&](NormStep& step, int number) {
    const auto backend = std::move(backends()[backend_number]);
    ThreadSum sum(shared, number);
    step.run(*backend, &sum);
  };
  std::thread other(rank, std::ref(pair.second), 1);
  rank(pair.first, 0);
  other.join();
}

void check_pair(const TwoRanks& pair, const NormStep& expected) {
  std::vector<float> y = pair.first.y, dx = pair.first.dx, dgamma = pair.first.dgamma, dbeta = pair.first.dbeta;
  y.insert(y.end(), pair.second.y.begin(), pair.second.y.end());
  dx.insert(dx.end(), pair.second.dx.begin(), pair.second.dx.end());
  for (std::size_t c = 0; c < dgamma.size(); ++c) {
    dgamma[c] += pair.second.dgamma[c];
    dbeta[c] += pair.second.dbeta[c];
  }
  check_close(y, expected.y);
  check_close(dx, expected.dx);
  check_close(dgamma, expected.dgamma);
  check_close(dbeta, expected.dbeta);
  check_close(pair.first.running_mean, expected.running_mean);
  check_close(pair.second.running_variance, expected.running_variance);
  CHECK(pair.first.running_variance == pair.second.running_variance);
}

}  // namespace

void check_two_ranks(const NormLayer& whole) {
  const Index first = whole.in.n / 3;
  Rng rng(17);
  const auto x = uniform(rng, static_cast<std::size_t>(whole.in.count()), -1.0, 3.0);
  const auto dy = uniform(rng, static_cast<std::size_t>(whole.out().count()));
  NormStep expected(whole, x, dy);
  expected.run(*make_reference_backend(), nullptr);

  const auto of_x = static_cast<std::size_t>(first * whole.in.per_sample());
  const auto of_dy = static_cast<std::size_t>(first * whole.out().per_sample());
  const auto list = backends();
  for (std::size_t b = 0; b < list.size(); ++b) {
    INFO(list[b]->name());
    if (!whole.make(*list[b])) continue;
    TwoRanks pair{{whole.rows(first), ConstSpan(x).first(of_x), ConstSpan(dy).first(of_dy)},
                  {whole.rows(whole.in.n - first), ConstSpan(x).subspan(of_x), ConstSpan(dy).subspan(of_dy)}};
    run_together(pair, b);
    check_pair(pair, expected);
  }
}

}  // namespace mrmf::test
