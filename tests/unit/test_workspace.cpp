// The memory that a backend's operations share (kernels/cpu/arena.hpp): what one leaves there, no other sees.
#include <doctest/doctest.h>

#include <cmath>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/backend.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

using cpu::ConvProblem;

ConvProblem problem_of(const Extent& in, Index in_channels, Index out_channels) {
  ConvProblem problem{ConvProblem::Kind::conv, {in_channels, out_channels, in}, 3, 2};
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

struct Input {
  std::vector<float> x, dy, w, b;
};

/// Numbers of every kind.
Input made_up(const ConvGeometry& g, Index rows) {
  Rng rng(5);
  const auto some = [&](Index count) { return uniform(rng, static_cast<std::size_t>(count)); };
  return {some(rows * product(g.in) * g.in_channels), some(rows * product(g.out()) * g.out_channels), some(g.weights()),
          some(g.out_channels)};
}

// All passes of one of the backend's operations.
Results results_of(WeightedOp& op, const ConvProblem& p, const Input& input) {
  const ConvGeometry& g = p.geometry;
  const Shape in{p.rows, g.in, g.in_channels, 3}, out{p.rows, g.out(), g.out_channels, 3};
  Results r{std::vector<float>(input.dy.size()), std::vector<float>(input.x.size()), std::vector<float>(input.w.size()),
            std::vector<float>(input.b.size())};
  op.prepare(p.rows);
  op.forward({in, input.x}, input.w, input.b, {out, r.y});
  op.backward_data({out, input.dy}, input.w, {in, r.dx});
  op.backward_weights({in, input.x}, {out, input.dy}, r.dw, r.db);
  op.forward({in, input.x}, input.w, input.b, {out, r.y});  // so that the next one's forward meets what this pass left
  return r;
}

/// An operation of a backend that others share, and what it computes in a backend of its own.
struct Operation {
  const ConvProblem& problem;
  std::string kernels;
  std::unique_ptr<WeightedOp> shared;
  const Input& input;
  Results alone;
};

// Every operation behind every other one, whose input is no number anywhere.
void check_all_pairs(const std::vector<ConvProblem>& problems, Precision precision) {
  std::list<Input> inputs;
  cpu::CpuBackend shared(2, precision);
  std::vector<Operation> operations;
  for (const ConvProblem& p : problems) {
    const Input& input = inputs.emplace_back(made_up(p.geometry, p.rows));
    for (const std::string& kernels : shared.kernels_of(p)) {
      cpu::CpuBackend alone(2, precision);
      const auto op = alone.weighted_by(kernels, p);
      if (op == nullptr) continue;
      operations.push_back({p, kernels, shared.weighted_by(kernels, p), input, results_of(*op, p, input)});
      CHECK(std::isfinite(operations.back().alone.y.front()));
    }
  }
  for (Operation& first : operations) {
    Input nothing = first.input;
    for (std::vector<float>* values : {&nothing.x, &nothing.dy, &nothing.w, &nothing.b})
      std::ranges::fill(*values, NAN);
    for (Operation& second : operations) {
      INFO(second.problem.text() << " by " << second.kernels << " behind " << first.problem.text() << " by "
                                 << first.kernels);
      // Two layers of the same form are two operations.
      const auto twin = &first == &second ? shared.weighted_by(first.kernels, first.problem) : nullptr;
      results_of(twin ? *twin : *first.shared, first.problem, nothing);
      CHECK(results_of(*second.shared, second.problem, second.input) == second.alone);
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
