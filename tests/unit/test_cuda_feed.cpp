// Batches on their way to the device: one is copied while another is computed on.
#include <doctest/doctest.h>

#include <array>

#include "io/coarsen/coarsen.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {
namespace {

constexpr Index kTargets = 3;
const Shape kSamples = line(6, 7, 5);

/// A batch as the host fills it; whole numbers, which every storage type holds.
struct HostCopy {
  Index rows;
  std::vector<float> x, targets;

  HostCopy(Index n, std::uint64_t seed) : rows(n) {
    Rng rng(seed);
    const auto whole = [&](Index count) {
      std::vector<float> values(static_cast<std::size_t>(count));
      for (float& value : values) value = static_cast<float>(std::floor(rng.uniform(-100, 100)));
      return values;
    };
    x = whole(kSamples.with_rows(n).count());
    targets = whole(n * kTargets);
  }
};

/// What the device computed of a batch: the samples themselves, and the sum of its targets' magnitudes. No memory is
/// freed before all is computed: that would wait for the device.
struct Computed {
  Arena x, zeros, sum;
};

Computed compute(Backend& backend, const Feed::Batch& batch) {
  const Shape &samples = batch.x.shape, &labels = batch.targets.shape;
  Computed result{backend.allocate(backend.activation_floats(samples)),
                  backend.allocate(backend.activation_floats(labels)), backend.allocate(1)};
  backend.begin({});
  backend.activate(ActivationKind::leaky_relu, 1.0F, batch.x, {samples, result.x.span()});
  backend.loss(LossSettings::single(LossKind::mae), labels, labels.channels)
      ->run({}, {labels, result.zeros.span()}, batch.targets, {}, result.sum.span());
  return result;
}

void check_computed(Backend& backend, const Computed& got, const HostCopy& want) {
  std::vector<float> x(want.x.size()), sum(1);
  const ConstSpan stored = got.x.span();
  backend.read_activation({kSamples.with_rows(want.rows), stored}, x);
  CHECK(x == want.x);
  double magnitude = 0;
  for (const float value : want.targets) magnitude += std::abs(value) / static_cast<double>(kTargets);
  backend.read(got.sum.span(), sum);
  CHECK(sum[0] == doctest::Approx(magnitude).epsilon(1e-6));
}

}  // namespace

TEST_CASE("cuda: batches in flight do not mix" * doctest::skip(!tests_cuda())) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto backend = cuda_device(precision);
    const auto feed = backend->feed(kSamples, kTargets);
    const std::vector<HostCopy> batches{{6, 1}, {6, 2}, {2, 3}, {6, 4}, {5, 5}};
    std::vector<Computed> computed;
    for (const HostCopy& batch : batches) {
      const Feed::HostBatch host = feed->host(batch.rows);
      REQUIRE(host.x.size() == batch.x.size());
      REQUIRE(host.targets.size() == batch.targets.size());
      std::ranges::copy(batch.x, host.x.begin());
      std::ranges::copy(batch.targets, host.targets.begin());
      computed.push_back(compute(*backend, feed->submit(batch.rows)));
    }
    // The last first: its work comes after that of all the others.
    for (std::size_t i = batches.size(); i-- > 0;) check_computed(*backend, computed[i], batches[i]);
    for (std::size_t i = 0; i < batches.size(); ++i) check_computed(*backend, computed[i], batches[i]);
  }
}

TEST_CASE("cuda: a feed averages finer samples on the device as the host does" * doctest::skip(!tests_cuda())) {
  const Shape fine{4, {4, 2, 6}, 3, 3};
  const Extent factors{2, 1, 3};
  const Shape coarse = coarse_shape(fine, factors);
  const auto backend = cuda_device(Precision::fp32);
  const auto feed = backend->averaging_feed(fine, kTargets, factors);
  REQUIRE(feed);
  for (const Index rows : {4, 3}) {
    const Feed::HostBatch host = feed->host(rows);
    REQUIRE(std::ssize(host.x) == fine.with_rows(rows).count());
    // Whole numbers: their sums are exact in any order, and the mean is rounded once.
    for (std::size_t i = 0; i < host.x.size(); ++i) host.x[i] = static_cast<float>((i * 7919 + 31) % 65536);
    std::ranges::fill(host.targets, 1.0F);
    std::vector<float> expected(static_cast<std::size_t>(coarse.with_rows(rows).count())), x(expected.size());
    coarsen_lines({ElementType::float32, fine, host.x.data()}, factors,
                  {0, rows * coarse.spatial[0] * coarse.spatial[1]}, expected.data());
    const Feed::Batch batch = feed->submit(rows);
    CHECK(batch.x.shape == coarse.with_rows(rows));
    backend->read_activation(batch.x, x);
    CHECK(x == expected);
  }
}

}  // namespace mrmf::test
