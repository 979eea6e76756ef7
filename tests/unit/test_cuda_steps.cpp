// Whole training steps on CUDA: captured against call by call, fused layers against single ones, batches in flight.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <utility>

#include "src/bench/bench.hpp"
#include "src/method/pipeline.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/branches.hpp"
#include "tests/unit/support/device_training.hpp"
#include "tests/unit/support/without_cuda.hpp"

namespace mrmf::test {
namespace {

/// Trains with changing numbers of rows, evaluating in between. Every key comes often enough to be replayed.
void train_and_evaluate(DeviceTraining& training) {
  const std::array<Index, 12> rows{8, 5, 8, 8, 5, 5, 8, 1, 5, 8, 1, 1};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<Index>(i);
    training.train(rows[i], i, 11 - at);
    if (i % 3 == 1) training.evaluate(8, 50 + i, 20 + at);
  }
}

constexpr int kKeys = 4, kTrainedSteps = 16;  // of train_and_evaluate

}  // namespace

TEST_CASE("cuda: captured steps give the bits of steps made call by call" * without_cuda) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto with = cuda_device(precision, true), without = cuda_device(precision, false);
    DeviceTraining captured(*with, fusable_model(41, 3)), eager(*without, fusable_model(41, 3));
    train_and_evaluate(captured);
    train_and_evaluate(eager);
    CHECK(captured.calls() == 2 * kKeys);  // once call by call, once to capture
    CHECK(eager.calls() == kTrainedSteps);
    CHECK(captured.losses() == eager.losses());
    CHECK(captured.everything() == eager.everything());
  }
}

TEST_CASE("cuda: training from the same start gives the same bits" * without_cuda) {
  std::vector<float> first;
  for (int run = 0; run < 2; ++run) {
    const auto backend = cuda_device(Precision::tf32, true);
    DeviceTraining training(*backend, fusable_model(41, 3));
    train_and_evaluate(training);
    if (run == 0) first = training.everything();
    CHECK(training.everything() == first);
  }
}

TEST_CASE("cuda: replays see what a fusion moved" * without_cuda) {
  std::array<std::vector<float>, 2> outcome;
  for (const bool graphs : {true, false}) {
    const auto backend = cuda_device(Precision::fp32, graphs);
    DeviceTraining coarse(*backend, fusable_model(21, 3), 1), dense(*backend, fusable_model(41, 4), 2);
    for (DeviceTraining* training : {&coarse, &dense}) train_and_evaluate(*training);
    const std::vector<float> before = dense.everything();
    fuse(*backend, coarse.model_state, dense.model_state, {.moments = MomentTransfer::carry});
    CHECK(dense.everything() != before);
    for (DeviceTraining* training : {&coarse, &dense}) train_and_evaluate(*training);
    if (graphs) CHECK(dense.calls() == 2 * kKeys);  // what was captured before the fusion still served after it
    for (DeviceTraining* training : {&dense, &coarse}) {
      const std::vector<float> end = training->everything(), losses = training->losses();
      std::vector<float>& all = outcome[graphs ? 0 : 1];
      all.insert(all.end(), end.begin(), end.end());
      all.insert(all.end(), losses.begin(), losses.end());
    }
  }
  CHECK(outcome[0] == outcome[1]);
}

// Summation orders differ: float32 rounding of sums of tens of terms of size one.
TEST_CASE("cuda: fused layers give the gradients of single ones, and the reference's" * without_cuda) {
  std::vector<std::unique_ptr<Backend>> list;
  list.push_back(make_reference_backend());
  list.push_back(cuda_device(Precision::fp32));
  std::vector<float> expected;
  for (const auto& backend : list)
    for (const bool fuse : {false, true}) {
      CAPTURE(backend->name());
      CAPTURE(fuse);
      ModelSettings settings = fusable_model(41, 3);
      settings.fuse = fuse;
      DeviceTraining training(*backend, settings);
      CHECK(training.model_state.model.units().size() == (fuse ? 11U : 16U));
      training.evaluate(8, 2, 1);  // before the step: Adam makes much of gradients that are rounding alone
      training.train(7, 1, 0);
      std::vector<float> results = training.gradients();
      const std::vector<float> losses = training.losses();
      results.insert(results.end(), losses.begin(), losses.end());
      if (expected.empty()) expected = results;
      CHECK(relative_distance(results, expected) < 1e-5);
    }
}

// Padded channels lie in memory that held other tensors before. The later steps of a graph are replayed.
TEST_CASE("cuda: networks with branches have the reference's gradients, in captured steps and in others" *
          without_cuda) {
  for (std::uint64_t key = 0; key < 8; ++key) {
    CAPTURE(key);
    const std::vector<LayerSpec> layers = key == 0 ? residual_layers() : random_layers(key);
    const auto reference = make_reference_backend();
    DeviceTraining expected(*reference, branch_model(layers, 1, false));
    for (std::uint64_t step = 0; step < 4; ++step) expected.train(4, 1, 0);
    for (const bool graphs : {false, true}) {
      CAPTURE(graphs);
      const auto backend = cuda_device(Precision::fp32, graphs);
      DeviceTraining training(*backend, branch_model(layers, 1));
      for (std::uint64_t step = 0; step < 4; ++step) training.train(4, 1, 0);
      CHECK(relative_distance(training.losses(), expected.losses()) < 1e-3);  // Adam makes much of rounding
    }
    const auto backend = cuda_device(Precision::fp32);
    DeviceTraining first(*backend, branch_model(layers, 1)), oracle(*reference, branch_model(layers, 1, false));
    first.train(4, 1, 0);
    oracle.train(4, 1, 0);
    CHECK(relative_distance(first.gradients(), oracle.gradients()) < 1e-4);
  }
}

// The layers behind are smooth, so that roundings decide nothing. Statistics move in training and serve in evaluation.
TEST_CASE("cuda: a batch norm and the narrow convolution behind it have the reference's gradients" * without_cuda) {
  ModelSettings settings;
  settings.network.sample = {.n = 0, .spatial = {6, 9, 19}, .channels = 4, .axes = 3};
  settings.network.max_rows = 8;
  LayerSpec conv = layer(LayerKind::conv, 16);
  conv.window = {3, 3, 3};
  conv.same_padding = true;
  settings.network.layers = {layer(LayerKind::batch_norm), conv, layer(LayerKind::tanh), layer(LayerKind::flatten),
                             layer(LayerKind::dense, 3)};
  name_layers(settings.network.layers);
  const auto reference = make_reference_backend();
  DeviceTraining oracle(*reference, settings);
  const auto run = [](DeviceTraining& training) {
    training.evaluate(8, 3, 0);
    training.train(7, 4, 1);
    std::vector<float> gradients = training.gradients();
    training.evaluate(8, 3, 2);
    return std::pair(training.losses(), gradients);
  };
  const auto [expected_losses, expected] = run(oracle);
  for (const auto& [precision, tolerance] : {std::pair{Precision::tf32, 0.005}, {Precision::bf16, 0.03}}) {
    const auto backend = cuda_device(precision);
    DeviceTraining training(*backend, settings);
    CHECK(training.model_state.model.units().front().layer->signature().find("batch_norm + ") == 0);
    const auto [losses, gradients] = run(training);
    CHECK(relative_distance(losses, expected_losses) < tolerance);
    for (const GradientError& error : gradient_errors(oracle.model_state.model.network(), gradients, expected)) {
      CAPTURE(error.name);
      CHECK(error.distance < tolerance);
      if (error.counts) CHECK(std::abs(error.along - 1) < tolerance / 2);
    }
  }
}

// Of enough positions for the kernels of tiles, which end inside of tiles along every axis. The batch norm in front
// takes its gradients from the data gradient.
TEST_CASE("cuda: a convolution from 16 to 32 channels by tiles has the CPU's gradients" * without_cuda) {
  ModelSettings settings;
  settings.network.sample = {.n = 0, .spatial = {41, 41, 41}, .channels = 16, .axes = 3};
  settings.network.max_rows = 1;
  LayerSpec conv = layer(LayerKind::conv, 32), pool = layer(LayerKind::average_pool);
  conv.window = {3, 3, 3};
  conv.same_padding = true;
  pool.window = {5, 5, 5};
  settings.network.layers = {layer(LayerKind::batch_norm), conv,
                             layer(LayerKind::tanh),       pool,
                             layer(LayerKind::flatten),    layer(LayerKind::dense, 3)};
  name_layers(settings.network.layers);
  const auto cpu = make_cpu_backend(2);
  DeviceTraining oracle(*cpu, settings);
  oracle.train(1, 4, 0);
  const std::vector<float> expected = oracle.gradients();
  for (const auto& [precision, tolerance] : {std::pair{Precision::tf32, 0.005}, {Precision::bf16, 0.03}}) {
    const auto backend = cuda_device(precision);
    DeviceTraining training(*backend, settings);
    training.train(1, 4, 0);
    CHECK(relative_distance(training.losses(), oracle.losses()) < tolerance);
    for (const GradientError& error :
         gradient_errors(oracle.model_state.model.network(), training.gradients(), expected)) {
      CAPTURE(error.name);
      CHECK(error.distance < tolerance);
      if (error.counts) CHECK(std::abs(error.along - 1) < tolerance / 2);
    }
  }
}

// Small, so that compute-sanitizer, too, can run it. Roundings of 2^-8 (bf16) and 2^-11 (tf32) decide in a few places
// which value a pooling takes and on which side of zero one lies; a missing term or factor would be far more.
TEST_CASE("cuda: gradients of fused layers in low precision" * without_cuda) {
  const auto reference = make_reference_backend();
  DeviceTraining expected(*reference, fusable_model(41, 3));
  expected.train(7, 1, 0);
  for (const auto& [precision, tolerance] : {std::pair{Precision::tf32, 0.02}, {Precision::bf16, 0.15}}) {
    const auto backend = cuda_device(precision);
    DeviceTraining training(*backend, fusable_model(41, 3));
    training.train(7, 1, 0);
    for (const GradientError& error :
         gradient_errors(training.model_state.model.network(), training.gradients(), expected.gradients())) {
      CAPTURE(error.name);
      CHECK(error.distance < tolerance);
      CHECK(std::abs(error.along - 1) < tolerance / 2);
    }
  }
}

}  // namespace mrmf::test
