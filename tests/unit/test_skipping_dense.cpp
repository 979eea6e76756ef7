// Dense layers whose gradients skip the zeros of dy: the same gradients as those of all products, wherever the zeros
// are, in every instruction set, on any number of threads; and all products where there are few zeros.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/cpu/skipping_dense.hpp"
#include "kernels/random.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

/// Stands for the plain products: says that it was asked, and writes nothing.
struct Asked final : WeightedOp {
  explicit Asked(int& times) : times_(&times) {}
  void forward(ConstTensor, ConstSpan, ConstSpan, Tensor) override { ++*times_; }
  void backward_data(ConstTensor, ConstSpan, Tensor) override { ++*times_; }
  void backward_weights(ConstTensor, ConstTensor, Span, Span) override { ++*times_; }
  int* times_;
};

struct Sizes {
  Index rows, in, out;
};

struct Problem {
  Sizes s;
  Values x, w, dy;
  Problem(const Sizes& sizes, double zeros) : s(sizes) {
    Rng rng(5);
    const auto count = [](Index a, Index b) { return static_cast<std::size_t>(a * b); };
    x = uniform(rng, count(s.rows, s.in)), w = uniform(rng, count(s.in, s.out));
    dy = uniform(rng, count(s.rows, s.out));
    for (float& slope : dy) slope = rng.uniform() < zeros ? 0.0F : slope;
  }
};

struct Gradients {
  Values dx, dw, db;
  int asked = 0;
};

/// With a guard behind each gradient, which nothing may change.
Gradients gradients_of(cpu::InstructionSet set, int threads, const Problem& l) {
  Gradients g{Values(l.x.size() + 1, kGuardValue), Values(l.w.size() + 1, kGuardValue),
              Values(static_cast<std::size_t>(l.s.out) + 1, kGuardValue)};
  const auto op = cpu::make_skipping_dense(set, std::make_unique<Asked>(g.asked), l.s.in, l.s.out,
                                           std::make_shared<cpu::Workspace>(threads));
  const Shape in{l.s.rows, {1, 1, 1}, l.s.in, 0}, out{l.s.rows, {1, 1, 1}, l.s.out, 0};
  const auto but_guard = [](Values& v) { return Span(v).first(v.size() - 1); };
  op->backward_data({out, l.dy}, l.w, {in, but_guard(g.dx)});
  op->backward_weights({in, l.x}, {out, l.dy}, but_guard(g.dw), but_guard(g.db));
  for (Values* v : {&g.dx, &g.dw, &g.db}) {
    CHECK(v->back() == kGuardValue);
    v->pop_back();
  }
  return g;
}

Gradients in_double(const Problem& l) {
  const auto [rows, in, out] = l.s;
  std::vector<double> dx(l.x.size()), dw(l.w.size()), db(static_cast<std::size_t>(out));
  for (Index n = 0; n < rows; ++n)
    for (Index o = 0; o < out; ++o) {
      const double slope = l.dy[static_cast<std::size_t>(n * out + o)];
      db[static_cast<std::size_t>(o)] += slope;
      for (Index i = 0; i < in; ++i) {
        const auto at_x = static_cast<std::size_t>(n * in + i), at_w = static_cast<std::size_t>(o * in + i);
        dx[at_x] += slope * l.w[at_w];
        dw[at_w] += slope * l.x[at_x];
      }
    }
  return {Values(dx.begin(), dx.end()), Values(dw.begin(), dw.end()), Values(db.begin(), db.end())};
}

/// Sets that this processor has, and the environment allows.
std::vector<cpu::InstructionSet> sets() {
  std::vector<cpu::InstructionSet> here;
  for (const auto set : {cpu::InstructionSet::generic, cpu::InstructionSet::avx2, cpu::InstructionSet::avx512})
    if (set <= cpu::instruction_set()) here.push_back(set);
  return here;
}

// Groups of four rows and less; panels of whole vectors, and less; more rows and more outputs than a block has.
const Sizes kSizes[] = {{1, 1, 1}, {4, 64, 4}, {6, 9, 17}, {37, 130, 90}, {530, 70, 33}, {33, 200, 1030}};

}  // namespace

TEST_CASE("skipping dense: gradients are those of all products, wherever the zeros are") {
  for (const Sizes& sizes : kSizes)
    for (const double zeros : {0.5, 0.9, 1.0}) {
      Problem layer(sizes, zeros);
      if (layer.dy.size() < 20)  // so few that chance may leave too many: every second one
        for (std::size_t i = 0; i < layer.dy.size(); i += 2) layer.dy[i] = 0;
      const Gradients want = in_double(layer);
      for (const auto set : sets()) {
        INFO(sizes.rows << " rows, " << sizes.in << " to " << sizes.out << ", zeros " << zeros << ", "
                        << cpu::name(set));
        const Gradients got = gradients_of(set, 2, layer);
        CHECK(got.asked == 0);
        CHECK(relative_distance(got.dx, want.dx) < 2e-6);
        CHECK(relative_distance(got.dw, want.dw) < 2e-6);
        CHECK(relative_distance(got.db, want.db) < 2e-6);
      }
    }
}

TEST_CASE("skipping dense: a layer without a bias has no gradient of one") {
  const Problem layer({12, 20, 8}, 0.6);
  const Gradients want = in_double(layer);
  int asked = 0;
  const auto op = cpu::make_skipping_dense(cpu::instruction_set(), std::make_unique<Asked>(asked), layer.s.in,
                                           layer.s.out, std::make_shared<cpu::Workspace>(2));
  op->prepare(layer.s.rows);
  Values dw(layer.w.size());
  op->backward_weights({{layer.s.rows, {1, 1, 1}, layer.s.in, 0}, layer.x},
                       {{layer.s.rows, {1, 1, 1}, layer.s.out, 0}, layer.dy}, dw, {});
  CHECK(asked == 0);
  CHECK(relative_distance(dw, want.dw) < 2e-6);
}

TEST_CASE("skipping dense: the same bits on any number of threads") {
  const Problem layer({90, 500, 70}, 0.6);
  for (const auto set : sets()) {
    const Gradients one = gradients_of(set, 1, layer), three = gradients_of(set, 3, layer);
    CHECK(one.dx == three.dx);
    CHECK(one.dw == three.dw);
    CHECK(one.db == three.db);
  }
}

TEST_CASE("skipping dense: a NaN in dy is no zero, and reaches what it meets") {
  Problem layer({8, 40, 12}, 0.7);
  layer.dy[3 * 12 + 5] = NAN;
  for (const auto set : sets()) {
    const Gradients got = gradients_of(set, 2, layer);
    for (Index i = 0; i < layer.s.in; ++i) {
      CHECK(std::isnan(got.dx[static_cast<std::size_t>(3 * layer.s.in + i)]));
      CHECK(std::isnan(got.dw[static_cast<std::size_t>(5 * layer.s.in + i)]));
      CHECK_FALSE(std::isnan(got.dx[static_cast<std::size_t>(4 * layer.s.in + i)]));
      CHECK_FALSE(std::isnan(got.dw[static_cast<std::size_t>(6 * layer.s.in + i)]));
    }
    CHECK(std::isnan(got.db[5]));
  }
}

TEST_CASE("skipping dense: where few are zero, and forward, all products are asked for") {
  const Problem layer({40, 30, 20}, 0.3);
  CHECK(gradients_of(cpu::InstructionSet::generic, 2, layer).asked == 2);
  int asked = 0;
  const auto op = cpu::make_skipping_dense(cpu::InstructionSet::generic, std::make_unique<Asked>(asked), 30, 20,
                                           std::make_shared<cpu::Workspace>(1));
  op->forward({}, {}, {}, {});
  CHECK(asked == 1);
}

}  // namespace mrmf::test
