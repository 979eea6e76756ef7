// The memory that a backend's operations share (kernels/cpu/arena.hpp): what one leaves there, no other sees.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/backend.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

using cpu::ConvProblem;

ConvProblem problem_of(const Extent& in, Index in_channels, Index out_channels) {
  ConvProblem problem{ConvProblem::Kind::conv, {in_channels, out_channels, in}, 5, 2};
  for (std::size_t a = 0; a < 3; ++a) {
    problem.geometry.kernel[a] = std::min<Index>(3, in[a]);
    problem.geometry.pad_before[a] = problem.geometry.pad_after[a] = problem.geometry.kernel[a] / 2;
  }
  return problem;
}

struct Results {
  std::vector<float> y, dx, dw, db;
  bool operator==(const Results&) const = default;
};

// All passes of one of the backend's operations. value: of all its input; without one, numbers of every kind.
Results results_of(WeightedOp& op, const ConvProblem& p, std::optional<float> value = {}) {
  Rng rng(5);
  const auto made_up = [&](Index count) {
    std::vector<float> values = uniform(rng, static_cast<std::size_t>(count));
    if (value) std::ranges::fill(values, *value);
    return values;
  };
  const ConvGeometry& g = p.geometry;
  const Shape in{p.rows, g.in, g.in_channels, 3}, out{p.rows, g.out(), g.out_channels, 3};
  const auto x = made_up(in.count()), dy = made_up(out.count()), w = made_up(g.weights()), b = made_up(g.out_channels);
  Results r{std::vector<float>(dy.size()), std::vector<float>(x.size()), std::vector<float>(w.size()),
            std::vector<float>(b.size())};
  op.prepare(p.rows);
  op.forward({in, x}, w, b, {out, r.y});
  op.backward_data({out, dy}, w, {in, r.dx});
  op.backward_weights({in, x}, {out, dy}, r.dw, r.db);
  op.forward({in, x}, w, b, {out, r.y});  // so that the next one's forward meets what this pass left
  return r;
}

// Every operation behind every other one, whose input is no number anywhere.
void check_all_pairs(const std::vector<ConvProblem>& problems, Precision precision) {
  for (const ConvProblem& p : problems)
    for (const std::string& kernels : cpu::CpuBackend(2, precision).kernels_of(p)) {
      cpu::CpuBackend alone(2, precision);
      const auto op = alone.weighted_by(kernels, p);
      if (op == nullptr) continue;
      const Results want = results_of(*op, p);
      CHECK(std::isfinite(want.y.front()));
      for (const ConvProblem& other : problems) {
        cpu::CpuBackend shared(2, precision);
        for (const std::string& before : shared.kernels_of(other)) {
          const auto first = shared.weighted_by(before, other), second = shared.weighted_by(kernels, p);
          if (first == nullptr) continue;
          INFO(p.text() << " by " << kernels << " behind " << other.text() << " by " << before);
          results_of(*first, other, NAN);
          CHECK(results_of(*second, p) == want);
        }
      }
    }
}

}  // namespace

TEST_CASE("workspace: an operation computes the same bits whatever ran before it") {
  std::vector<ConvProblem> problems{problem_of({1, 12, 16}, 16, 16), problem_of({1, 16, 12}, 16, 16),
                                    problem_of({1, 9, 11}, 32, 16), problem_of({3, 8, 8}, 16, 32),
                                    problem_of({2, 2, 2}, 64, 128)};
  problems.push_back(problem_of({3, 18, 16}, 16, 16));
  problems.back().geometry.stride = {1, 2, 2};
  check_all_pairs(problems, Precision::fp32);
  check_all_pairs(problems, Precision::bf16);
}

TEST_CASE("workspace: a thread's memory has zeros for a new form of its contents, and stays as it was for the same") {
  cpu::Workspace memory(2);
  memory.reserve(10, 100);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.common()) % 64 == 0);
  float* const first = memory.of_thread(1, 50, {1, 2});
  std::fill_n(first, 100, 3.0F);
  CHECK(memory.of_thread(1, 50, {1, 2}) == first);
  CHECK(first[0] == 3.0F);
  CHECK(memory.of_thread(1, 40, {1, 3})[39] == 0.0F);
  CHECK(first[40] == 3.0F);
  std::fill_n(memory.of_thread(1), 100, 4.0F);  // whose contents have no form
  CHECK(memory.of_thread(1, 40, {1, 3})[0] == 0.0F);
  first[0] = 5.0F;
  memory.reserve(1000, 10);  // each as large as it was at least
  CHECK(memory.of_thread(1, 40, {1, 3})[0] == 5.0F);
  memory.reserve(0, 200);
  CHECK(memory.of_thread(1, 200, {1, 3})[0] == 0.0F);
  CHECK(memory.of_thread(0, 200, {1, 3}) != memory.of_thread(1, 200, {1, 3}));
}

}  // namespace mrmf::test
