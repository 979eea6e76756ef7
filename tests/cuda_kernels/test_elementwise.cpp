#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cuda/kernels.hpp"
#include "tests/cuda_kernels/stored.hpp"

namespace mrmf::test {
namespace {

const std::unique_ptr<Backend> reference = make_reference_backend();

std::vector<float> like(const std::vector<float>& x) { return std::vector<float>(x.size()); }

}  // namespace

TEST_CASE("cuda kernels: activations and their gradients, in place and not; NaN stays") {
  Rng rng(8);
  const Shape shape{7, {1, 1, 5}, 11, 1};
  for (const ActivationKind kind :
       {ActivationKind::relu, ActivationKind::leaky_relu, ActivationKind::tanh, ActivationKind::gelu,
        ActivationKind::silu, ActivationKind::softplus, ActivationKind::sigmoid})
    for (const cuda::Storage& storage : {float_storage, bf16_storage}) {
      const cuda::Work work{nullptr, storage};
      std::vector<float> x = exact(rng, shape.count()), dy = exact(rng, shape.count());
      Stored in(storage, shape, x), y(storage, shape), gradient(storage, shape, dy);
      std::vector<float> expected = like(x), expected_dx = like(x);
      reference->activate(kind, 0.3F, {shape, x}, {shape, expected});
      cuda::activate(work, kind, 0.3F, shape, in.data(), y.data());
      cuda::activate(work, kind, 0.3F, shape, in.data(), in.data());
      CHECK(in.values() == y.values());
      CHECK(distance(y.values(), expected) < tolerance(storage));
      const std::vector<float> kept = gradient_reads_input(kind) ? x : y.values();
      const Stored stored_kept(storage, shape, kept);
      reference->activate_backward(kind, 0.3F, {shape, kept}, {shape, dy}, {shape, expected_dx});
      cuda::activate_backward(work, kind, 0.3F, shape, stored_kept.data(), gradient.data(), gradient.data());
      CHECK(distance(gradient.values(), expected_dx) < tolerance(storage));
      CHECK(y.pads_are_zero());
      CHECK(gradient.pads_are_zero());
      x[0] = std::nanf("");
      const Stored with_nan(storage, shape, x);
      cuda::activate(work, kind, 0.3F, shape, with_nan.data(), y.data());
      CHECK(std::isnan(y.values()[0]));
    }
}

TEST_CASE("cuda kernels: a sum equals the reference's, and may be written over either part") {
  Rng rng(18);
  const Shape shape{7, {1, 1, 5}, 11, 1};
  for (const cuda::Storage& storage : {float_storage, bf16_storage}) {
    const cuda::Work work{nullptr, storage};
    const std::vector<float> a = exact(rng, shape.count()), b = exact(rng, shape.count());
    std::vector<float> expected = like(a);
    reference->add({shape, a}, {shape, b}, {shape, expected});
    Stored first(storage, shape, a), second(storage, shape, b), y(storage, shape);
    cuda::add(work, y.vectors(), first.data(), second.data(), y.data());
    CHECK(distance(y.values(), expected) < tolerance(storage));
    CHECK(y.pads_are_zero());
    Stored over(storage, shape, a);
    cuda::add(work, y.vectors(), over.data(), second.data(), over.data());
    CHECK(over.memory() == y.memory());
    cuda::add(work, y.vectors(), first.data(), second.data(), second.data());
    CHECK(second.memory() == y.memory());
  }
}

TEST_CASE("cuda kernels: channels are copied from any place to any, the others stay, pads become zero") {
  Rng rng(19);
  for (const cuda::Storage& storage : {float_storage, bf16_storage})
    for (const Index x_channels : {1, 3, 8, 21})
      for (const Index y_channels : {1, 5, 8, 16, 30})
        for (Index from = 0; from < x_channels; from += 3)
          for (Index to = 0; to < y_channels; ++to) {
            const Index count = std::min(x_channels - from, y_channels - to);
            CAPTURE(storage.bf16);
            CAPTURE(x_channels);
            CAPTURE(y_channels);
            CAPTURE(from);
            CAPTURE(to);
            const Shape of{3, {1, 2, 5}, x_channels, 2}, shape{3, {1, 2, 5}, y_channels, 2};
            const std::vector<float> x = exact(rng, of.count());
            std::vector<float> expected = exact(rng, shape.count());
            const Stored source(storage, of, x);
            Stored y(storage, shape, expected), forgotten(storage, shape);
            reference->copy_channels({of, x}, from, {shape, expected}, to, count);
            cuda::copy_channels({nullptr, storage}, {of, from, to, count}, source.data(), shape, y.data());
            CHECK(y.values() == expected);
            CHECK(y.pads_are_zero());
            // Memory that held something else before: after the last channel, no pad of it is left.
            cuda::copy_channels({nullptr, storage}, {of, from, to, count}, source.data(), shape, forgotten.data());
            if (to + count == y_channels) CHECK(forgotten.pads_are_zero());
          }
}

TEST_CASE("cuda kernels: a box of positions is copied or added, the others stay") {
  Rng rng(23);
  for (const cuda::Storage& storage : {float_storage, bf16_storage})
    for (const Index channels : {1, 3, 8, 21})
      for (const bool add : {false, true}) {
        CAPTURE(storage.bf16);
        CAPTURE(channels);
        CAPTURE(add);
        const Shape of{3, {4, 3, 5}, channels, 3}, shape{3, {3, 4, 6}, channels, 3};
        const BoxCopy box{.from = {1, 0, 2}, .to = {0, 2, 3}, .count = {3, 2, 2}, .add = add};
        const std::vector<float> x = exact(rng, of.count());
        std::vector<float> expected = exact(rng, shape.count());
        const Stored source(storage, of, x);
        Stored y(storage, shape, expected);
        reference->copy_box({of, x}, {shape, expected}, box);
        cuda::copy_box({nullptr, storage}, box, of, source.data(), shape, y.data());
        CHECK(y.values() == Stored(storage, shape, expected).values());  // a sum is rounded once
        CHECK(y.pads_are_zero());
      }
}

TEST_CASE("cuda kernels: dropout drops the very features the reference drops") {
  Rng rng(9);
  for (const Shape& shape : {Shape{5, {1, 1, 1}, 37, 0}, Shape{4, {1, 3, 5}, 3, 2}, Shape{3, {1, 1, 9}, 12, 1}})
    for (const cuda::Storage& storage : {float_storage, bf16_storage}) {
      const std::vector<std::int64_t> ids{4, 1LL << 40, 0, 77, 3};
      StepContext step;
      step.seed = 11, step.updates_done = (1ULL << 33) + 5, step.ids = ids;
      const cuda::StepBlock block = cuda::StepBlock::of(step);
      const std::vector<float> x = exact(rng, shape.count());
      std::vector<float> expected = like(x);
      reference->dropout(step, {6, 0.5F}, {shape, x}, {shape, expected});
      Stored y(storage, shape, x);
      cuda::dropout({nullptr, storage}, {{6, 0.5F}, &block, ids.data()}, shape, y.data(), y.data());
      CHECK(y.values() == expected);  // a scale of 2 is exact in both storages
      CHECK(y.pads_are_zero());
    }
}

TEST_CASE("cuda kernels: append_history puts a value where the step says") {
  StepContext step;
  step.batch_index = 2;
  const cuda::StepBlock block = cuda::StepBlock::of(step);
  std::vector<float> history(4, 7);
  const float value = 3;
  cuda::keep(nullptr, &block, &value, history.data());
  CHECK(history == std::vector<float>{7, 7, 3, 7});
}

TEST_CASE("cuda kernels: sums and clipping are the reference's, at any length and alignment") {
  Rng rng(12);
  for (const std::size_t offset : {0, 1, 4})
    for (const std::size_t count : {0, 1, 3, 4, 9, 8191, 70001}) {
      const std::vector<float> x = uniform(rng, count + offset), start = uniform(rng, count + offset);
      std::vector<float> y = start, expected = start;
      const ConstSpan summand = ConstSpan(x).subspan(offset);
      cuda::accumulate(nullptr, summand, Span(y).subspan(offset));
      reference->accumulate(summand, Span(expected).subspan(offset));
      CHECK(y == expected);
      std::vector<double> scratch(cuda::clip_bytes(static_cast<Index>(count)) / sizeof(double));
      for (const float most : {0.5F, 1e6F}) {
        cuda::clip(nullptr, Span(y).subspan(offset), most, scratch.data());
        reference->clip(static_cast<Index>(count))->run(Span(expected).subspan(offset), most);
        double worst = 0;
        for (std::size_t i = 0; i < y.size(); ++i) worst = std::max(worst, std::abs(double{y[i]} - expected[i]));
        CHECK(worst < 1e-7);
      }
      CHECK(std::equal(y.begin(), y.begin() + static_cast<std::ptrdiff_t>(offset), start.begin()));
    }
}

TEST_CASE("cuda kernels: clipping by the norm of what ranks count is the reference's") {
  Rng rng(13);
  TwoEqualRanks ranks;
  const std::vector<float> start = uniform(rng, 70001);
  const auto parts = [](std::vector<float>& x) {
    const Span all = x;
    return std::vector<std::vector<Span>>{
        {all}, {all.subspan(16, 40000)}, {all.first(7), all.subspan(64, 0), all.subspan(129, 60000)}, {}};
  };
  for (std::size_t number = 0; number < 4; ++number)
    for (const float most : {0.5F, 1e6F}) {
      CAPTURE(number);
      std::vector<float> y = start, expected = start;
      std::vector<double> scratch(cuda::clip_bytes(std::ssize(y)) / sizeof(double) + 1, 99);
      cuda::clip_over(nullptr, y, most, parts(y)[number], ranks, scratch.data());
      reference->clip(std::ssize(y))->run_over(expected, most, parts(expected)[number], ranks);
      double worst = 0;
      for (std::size_t i = 0; i < y.size(); ++i) worst = std::max(worst, std::abs(double{y[i]} - expected[i]));
      CHECK(worst < 1e-7);
      CHECK(scratch.back() == 99);
    }
}

TEST_CASE("cuda kernels: updates equal the reference's to the bit, at any length and alignment") {
  Rng rng(11);
  StepContext step;
  step.sgd = {0.1F, 0.9F, 1e-3F};
  step.lion = {0.01F, 0.9F, 0.99F, 0.1F, 1.5F};
  step.adam = {AdamStep{0.01F, 0.9F, 0.999F, 1e-8F, 1e-4F, 1e-2F, 0.5F, 0.25F},
               AdamStep{0.02F, 0.8F, 0.99F, 1e-7F, 1e-3F, 1e-1F, 0.25F, 0.125F}};
  const cuda::StepBlock block = cuda::StepBlock::of(step);
  for (const std::size_t offset : {0, 1, 4})
    for (std::size_t count = 0; count < 11; ++count) {
      std::vector<float> w = uniform(rng, 20), m = uniform(rng, 20), v = uniform(rng, 20, 0, 1);
      const std::vector<float> dw = uniform(rng, 20);
      std::vector<float> expected_w = w, expected_m = m, expected_v = v;
      const auto part = [&](std::vector<float>& all) { return Span(all).subspan(offset, count); };
      const ConstSpan gradient = ConstSpan(dw).subspan(offset, count);
      for (const std::size_t group : {0U, 1U}) {
        cuda::adam(nullptr, &block, group, part(w), gradient, part(m), part(v));
        reference->adam(step, group, part(expected_w), gradient, part(expected_m), part(expected_v));
      }
      cuda::sgd(nullptr, &block, part(w), gradient, part(m));
      reference->sgd(step, part(expected_w), gradient, part(expected_m));
      cuda::lion(nullptr, &block, part(w), gradient, part(m));
      reference->lion(step, part(expected_w), gradient, part(expected_m));
      cuda::lion_directions(nullptr, &block, part(v), part(m));
      reference->lion_directions(step, part(expected_v), part(expected_m));
      cuda::lion_move(nullptr, &block, part(w), part(v));
      reference->lion_move(step, part(expected_w), part(expected_v));
      CHECK(w == expected_w);
      CHECK(m == expected_m);
      CHECK(v == expected_v);
    }
}

TEST_CASE("cuda kernels: fill, swap and copy") {
  std::vector<float> a(7), b(7, 2);
  cuda::fill(nullptr, Span(a).subspan(1, 5), 3);
  cuda::swap(nullptr, Span(a).first(3), Span(b).first(3));
  CHECK(a == std::vector<float>{2, 2, 2, 3, 3, 3, 0});
  CHECK(b == std::vector<float>{0, 3, 3, 2, 2, 2, 2});
  const Stored x(bf16_storage, {2, {1, 1, 1}, 5, 0}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  Stored y(bf16_storage, {2, {1, 1, 1}, 5, 0});
  cuda::copy({nullptr, bf16_storage}, x.vectors(), x.data(), y.data());
  CHECK(y.values() == x.values());
}

}  // namespace mrmf::test
