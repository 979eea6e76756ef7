#include <doctest/doctest.h>

#include <cmath>

#include "kernels/cuda/kernels.hpp"
#include "tests/cuda_kernels/stored.hpp"

namespace mrmf::test {
namespace {

const std::unique_ptr<Backend> reference = make_reference_backend();

struct Case {
  LossSettings settings;
  Extent positions;
  Index channels, target_channels;
};

LossSettings sum_of(std::initializer_list<LossKind> kinds, std::vector<float> class_weights = {}) {
  LossSettings settings;
  settings.weights = {};
  float weight = 1;
  for (const LossKind kind : kinds) settings.weights[static_cast<std::size_t>(kind)] = weight, weight /= 2;
  settings.class_weights = std::move(class_weights);
  return settings;
}

// Channels that fill a vector, leave pads, and take several.
std::vector<Case> cases() {
  using enum LossKind;
  return {{sum_of({mse}), {1, 1, 1}, 19, 19},
          {sum_of({mae}), {1, 1, 1}, 19, 19},
          {sum_of({huber, mse}), {1, 5, 7}, 3, 3},
          {sum_of({cross_entropy}), {1, 1, 1}, 10, 1},
          {sum_of({cross_entropy, dice}, {1, 2, 0.5F}), {4, 5, 7}, 3, 1},
          {sum_of({dice, cross_entropy}), {1, 9, 31}, 9, 9},
          {sum_of({binary_cross_entropy}, {1, 2, 0.5F, 4}), {1, 1, 1}, 4, 4},
          {sum_of({binary_cross_entropy, dice}), {1, 1, 3001}, 1, 1}};
}

std::vector<float> targets(const Case& with, Rng& rng, Index rows) {
  const Index positions = rows * product(with.positions);
  std::vector<float> target = uniform(rng, positions * with.target_channels, 0, 1);
  if (with.settings.task() == Task::regression) return target;
  if (with.target_channels == 1 && with.channels > 1)
    for (float& t : target) t = std::floor(t * static_cast<float>(with.channels));
  else if (with.settings.task() == Task::classes)
    for (float& t : target) t /= static_cast<float>(with.channels);  // shares of what is not ignored
  if (with.settings.task() == Task::binary || with.target_channels == 1)
    for (std::size_t i = 0; i < target.size(); i += 5) target[i] = -1;
  return target;
}

/// `shared`: another rank has as many positions with the same values.
void compare(const Case& with, const cuda::Storage& storage, Index rows, Index most_rows, bool shared = false) {
  Rng rng(10);
  const Shape shape{rows, with.positions, with.channels, 3};
  const std::vector<float> y = exact(rng, shape.count()), target = targets(with, rng, rows);
  StepContext step;
  step.loss_weight = 0.125F;
  TwoEqualRanks other_half;
  if (shared) step.share = 0.5F, step.sample_sum = &other_half;
  const cuda::StepBlock block = cuda::StepBlock::of(step);
  std::vector<float> expected_dy(y.size());
  float expected = 0, sum = 77, again = 78;
  Shape target_shape = shape;
  target_shape.channels = with.target_channels;
  reference->loss(with.settings, shape, with.target_channels)
      ->run(step, {shape, y}, {target_shape, target}, expected_dy, Span(&expected, 1));
  const Stored stored(storage, shape, y);
  Stored dy(storage, shape);
  cuda::LossWork work = cuda::LossWork::of(with.settings, shape, with.target_channels);
  work.rows = most_rows;
  std::vector<double> scratch((cuda::loss_bytes(storage, work) + sizeof(double) - 1) / sizeof(double) + 1, 99);
  work.rows = rows;
  work.step = &block;
  work.scratch = scratch.data();
  work.sample_sum = step.sample_sum;
  if (!with.settings.class_weights.empty()) work.class_weights = with.settings.class_weights.data();
  cuda::loss({nullptr, storage}, work, stored.data(), target.data(), dy.data(), &sum);
  cuda::loss({nullptr, storage}, work, stored.data(), target.data(), nullptr, &again);
  CHECK(sum == doctest::Approx(expected).epsilon(2e-6));
  CHECK(sum == again);
  CHECK(distance(dy.values(), expected_dy) < (storage.bf16 ? 4e-3 : 2e-6));  // half a unit of 8 bits of mantissa
  CHECK(dy.pads_are_zero());
  CHECK(scratch.back() == 99);
}

}  // namespace

TEST_CASE("cuda kernels: losses and their gradients over padded outputs, with scratch for as many rows or more") {
  for (const Case& with : cases())
    for (const cuda::Storage& storage : {float_storage, bf16_storage})
      for (const Index rows : {0, 1, 3}) {
        CAPTURE(with.channels);
        CAPTURE(rows);
        compare(with, storage, rows, rows);
        compare(with, storage, rows, rows + 2);
        compare(with, storage, rows, rows, true);
      }
  for (const Case& with : cases())
    if (product(with.positions) == 1)
      for (const cuda::Storage& storage : {float_storage, bf16_storage})
        for (const Index rows : {50, 257, 3000}) compare(with, storage, rows, 3000);
}

}  // namespace mrmf::test
