// Layers of several inputs, on every backend: copies and sums of two floats are exact, so all checks are.
#include <doctest/doctest.h>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/layer_memory.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {
namespace {

struct JoinCase {
  LayerKind kind;
  std::vector<Shape> in;
};

std::vector<JoinCase> join_cases() {
  const auto with = [](Shape shape, Index channels) {
    shape.channels = channels;
    return shape;
  };
  std::vector<JoinCase> list;
  for (const Shape& shape : {flat(5, 30), flat(3, 7), line(4, 9, 3), image(2, 5, 4, 8), volume(2, {3, 4, 5}, 4)}) {
    list.push_back({LayerKind::add, {shape, shape}});
    list.push_back({LayerKind::add, {shape, shape, shape, shape}});
    list.push_back({LayerKind::concat, {shape, shape}});
    list.push_back({LayerKind::concat, {shape, with(shape, 1), with(shape, 12), with(shape, 5)}});
    list.push_back({LayerKind::concat, {with(shape, 16), with(shape, 8), shape}});
  }
  // So many positions that threads share them.
  list.push_back({LayerKind::concat, {volume(2, {16, 16, 16}, 8), volume(2, {16, 16, 16}, 3)}});
  list.push_back({LayerKind::add, {volume(2, {16, 16, 16}, 8), volume(2, {16, 16, 16}, 8)}});
  return list;
}

/// The memory of one join and its calls, all outputs poisoned.
struct JoinMemory {
  std::unique_ptr<Join> join;
  std::vector<Shape> shapes;
  std::vector<Guarded> x, dx;
  Shape out;
  Guarded y, dy;

  JoinMemory(Backend& backend, const JoinCase& c, Index rows)
      : join(make_join(backend, c.in, layer(c.kind))),
        out(join->output().with_rows(rows)),
        y(out.count()),
        dy(out.count()) {
    Rng rng(17);
    dy.set(uniform(rng, static_cast<std::size_t>(out.count())));
    for (const Shape& in : c.in) {
      shapes.push_back(in.with_rows(rows));
      x.emplace_back(shapes.back().count());
      dx.emplace_back(shapes.back().count());
      x.back().set(uniform(rng, static_cast<std::size_t>(shapes.back().count())));
    }
  }
  std::vector<ConstTensor> inputs() const {
    std::vector<ConstTensor> tensors;
    for (std::size_t i = 0; i < x.size(); ++i) tensors.emplace_back(shapes[i], x[i].span());
    return tensors;
  }
  void split(std::size_t without) {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < x.size(); ++i) tensors.push_back({shapes[i], i == without ? Span() : dx[i].span()});
    join->join_backward({out, dy.span()}, tensors);
  }
  bool intact() const {
    for (const std::vector<Guarded>* all : {&x, &dx})
      for (const Guarded& one : *all)
        if (!one.intact()) return false;
    return y.intact() && dy.intact();
  }
};

/// What the join of `memory` is, one position after the other.
std::vector<float> expected(const JoinCase& c, const JoinMemory& memory) {
  std::vector<float> y;
  const Index positions = memory.out.n * product(memory.out.spatial);
  for (Index p = 0; p < positions; ++p) {
    const auto value = [&](std::size_t i, Index channel) {
      return memory.x[i].span()[static_cast<std::size_t>(p * memory.shapes[i].channels + channel)];
    };
    if (c.kind == LayerKind::concat) {
      for (std::size_t i = 0; i < c.in.size(); ++i)
        for (Index channel = 0; channel < c.in[i].channels; ++channel) y.push_back(value(i, channel));
      continue;
    }
    for (Index channel = 0; channel < c.in[0].channels; ++channel) {
      float sum = value(0, channel);
      for (std::size_t i = 1; i < c.in.size(); ++i) sum += value(i, channel);
      y.push_back(sum);
    }
  }
  return y;
}

/// The gradient of input i, one position after the other.
std::vector<float> expected_gradient(const JoinCase& c, const JoinMemory& memory, std::size_t i) {
  if (c.kind == LayerKind::add) return memory.dy.values();
  Index first = 0;
  for (std::size_t before = 0; before < i; ++before) first += c.in[before].channels;
  std::vector<float> dx;
  const Index positions = memory.out.n * product(memory.out.spatial);
  for (Index p = 0; p < positions; ++p)
    for (Index channel = 0; channel < c.in[i].channels; ++channel)
      dx.push_back(memory.dy.span()[static_cast<std::size_t>(p * memory.out.channels + first + channel)]);
  return dx;
}

}  // namespace

TEST_CASE("joins: sums and channels one after the other, with all rows and with fewer") {
  for (const auto& backend : backends())
    for (const JoinCase& c : join_cases())
      for (const Index rows : {c.in[0].n, c.in[0].n / 2 + 1}) {
        INFO(backend->name(), ": ", to_string(c.kind), " ", c.in.size(), " ", to_string(c.in[0]), " rows ", rows);
        JoinMemory memory(*backend, c, rows);
        const std::vector<float> want = expected(c, memory);
        memory.join->join(memory.inputs(), {memory.out, memory.y.span()});
        CHECK(memory.y.values() == want);
        memory.split(c.in.size());
        for (std::size_t i = 0; i < c.in.size(); ++i) CHECK(memory.dx[i].values() == expected_gradient(c, memory, i));
        CHECK(memory.intact());
      }
}

TEST_CASE("joins: an input whose gradient nobody wants is left out") {
  for (const auto& backend : backends())
    for (const JoinCase& c : join_cases())
      for (std::size_t without = 0; without < c.in.size(); ++without) {
        INFO(backend->name(), ": ", to_string(c.kind), " ", to_string(c.in[0]), " without ", without);
        JoinMemory memory(*backend, c, c.in[0].n);
        memory.split(without);
        for (std::size_t i = 0; i < c.in.size(); ++i)
          if (i == without)
            CHECK(!all_finite(memory.dx[i].span()));
          else
            CHECK(memory.dx[i].values() == expected_gradient(c, memory, i));
        CHECK(memory.intact());
      }
}

TEST_CASE("joins: a sum may be written over its first or its second input, and a gradient be dy itself") {
  for (const auto& backend : backends())
    for (const JoinCase& c : join_cases()) {
      if (c.kind != LayerKind::add) continue;
      for (const std::size_t over : {0U, 1U}) {
        INFO(backend->name(), ": ", c.in.size(), " ", to_string(c.in[0]), " over ", over);
        JoinMemory memory(*backend, c, c.in[0].n);
        CHECK(memory.join->footprint().in_place);
        const std::vector<float> want = expected(c, memory);
        memory.join->join(memory.inputs(), {memory.out, memory.x[over].span()});
        CHECK(memory.x[over].values() == want);
        const std::vector<float> dy = memory.dy.values();
        const std::vector<Tensor> dx(c.in.size(), Tensor{memory.out, memory.dy.span()});
        memory.join->join_backward({memory.out, memory.dy.span()}, dx);
        CHECK(memory.dy.values() == dy);
        CHECK(memory.intact());
      }
    }
}

TEST_CASE("joins: what lies in its slice of a concat's output already is not copied, nor is its gradient") {
  for (const auto& backend : backends())
    for (const JoinCase& c : join_cases()) {
      JoinMemory memory(*backend, c, c.in[0].n);
      const std::vector<Index> parts = memory.join->footprint().parts;
      CHECK(parts.empty() == (c.kind != LayerKind::concat || !backend->accepts_slices()));
      Index first = 0;
      for (std::size_t i = 0; i < parts.size(); first += parts[i++]) {
        INFO(backend->name(), ": ", to_string(c.in[0]), " input ", i);
        const auto slice = [&](Guarded& of) {
          const auto floats = static_cast<std::size_t>(memory.out.count() - memory.out.channels + parts[i]);
          return Tensor{memory.shapes[i], of.span().subspan(static_cast<std::size_t>(first), floats),
                        memory.out.channels};
        };
        memory.y.poison();
        std::vector<ConstTensor> x = memory.inputs();
        backend->copy_channels(x[i], 0, {memory.out, memory.y.span()}, first, parts[i]);
        x[i] = slice(memory.y);
        memory.join->join(x, {memory.out, memory.y.span()});
        CHECK(memory.y.values() == expected(c, memory));
        SliceMemory elsewhere(memory.shapes[i], true);  // a slice of something else is copied like any input
        elsewhere.set(memory.x[i].span());
        x[i] = elsewhere.tensor();
        memory.y.poison();
        memory.join->join(x, {memory.out, memory.y.span()});
        CHECK(memory.y.values() == expected(c, memory));

        const std::vector<float> dy = memory.dy.values();
        std::vector<Tensor> dx;
        for (std::size_t j = 0; j < parts.size(); ++j)
          dx.push_back(j == i ? slice(memory.dy) : Tensor{memory.shapes[j], memory.dx[j].span()});
        memory.join->join_backward({memory.out, memory.dy.span()}, dx);
        CHECK(memory.dy.values() == dy);
        for (std::size_t j = 0; j < parts.size(); ++j)
          if (j != i) CHECK(memory.dx[j].values() == expected_gradient(c, memory, j));
        // A slice is read where it lies, by a copy and by a sum.
        backend->copy_channels(slice(memory.dy), 0, {memory.shapes[i], memory.dx[i].span()}, 0, parts[i]);
        CHECK(memory.dx[i].values() == expected_gradient(c, memory, i));
        std::vector<float> twice = memory.dx[i].values();
        for (float& value : twice) value += value;
        backend->add(slice(memory.dy), {memory.shapes[i], memory.dx[i].span()},
                     {memory.shapes[i], memory.dx[i].span()});
        CHECK(memory.dx[i].values() == twice);
        CHECK(memory.intact());
      }
    }
}

TEST_CASE("joins: NaN in one input is NaN in the output") {
  for (const auto& backend : backends())
    for (const JoinCase& c : join_cases()) {
      INFO(backend->name(), ": ", to_string(c.kind), " ", to_string(c.in[0]));
      JoinMemory memory(*backend, c, c.in[0].n);
      memory.x[1].span()[0] = NAN;
      memory.join->join(memory.inputs(), {memory.out, memory.y.span()});
      CHECK(std::ranges::count_if(memory.y.span(), [](float v) { return std::isnan(v); }) == 1);
    }
}

TEST_CASE("joins: facts and messages") {
  const auto backend = make_reference_backend();
  LayerSpec add = layer(LayerKind::add), concat = layer(LayerKind::concat);
  add.name = "add1", concat.name = "concat1";
  add.from = concat.from = {"up1", "conv2"};
  const auto error = [&](const LayerSpec& spec, const Shape& a, const Shape& b) -> std::string {
    try {
      make_join(*backend, std::vector{a, b}, spec);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "none";
  };
  CHECK(error(add, line(2, 8, 4), line(2, 8, 4)) == "none");
  CHECK(error(add, line(2, 8, 4), line(2, 8, 5)) ==
        "add1: up1 gives 8x4 and conv2 gives 8x5; only equal shapes are added");
  CHECK(error(add, line(2, 1, 4), flat(2, 4)) == "add1: up1 gives 1x4 and conv2 gives 4; only equal shapes are added");
  CHECK(error(concat, line(2, 8, 4), line(2, 8, 5)) == "none");
  CHECK(
      error(concat, image(2, 8, 7, 4), image(2, 8, 8, 5))
          .find("concat1: up1 gives 8x7x4 and conv2 gives 8x8x5; they may differ in their channels alone (a pooling") ==
      0);
  CHECK(error(concat, flat(2, 8), line(2, 1, 8)) ==
        "concat1: up1 gives 8 and conv2 gives 1x8; they may differ in their channels alone");
  const std::vector<Shape> in{volume(2, {2, 3, 4}, 5), volume(2, {2, 3, 4}, 7)};
  CHECK(make_join(*backend, in, concat)->output() == volume(2, {2, 3, 4}, 12));
  CHECK(make_join(*backend, in, concat)->signature() == "concat 5+7");
  CHECK(make_join(*backend, std::vector{in[0], in[0]}, add)->signature() == "add");
}

}  // namespace mrmf::test
