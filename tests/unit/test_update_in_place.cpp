// Updates in place of untied weights: the same bits as by way of gradients, without memory for them.
#include <doctest/doctest.h>

#include <algorithm>

#include "layers/model.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"
#include "src/training/model_and_optimizer.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {
namespace {

LayerSpec untied(LayerKind kind, Index units, const Extent& window, Decoder decoder = Decoder::tied) {
  LayerSpec spec = layer(kind, units);
  spec.window = window;
  spec.stride = {1, 1, 2};
  spec.decoder = decoder;
  return spec;
}

struct UpdateCase {
  Shape in;
  LayerSpec spec;
};

// One backward of a layer, and what becomes of its parameters and velocities.
struct Update {
  std::vector<float> params, velocity, dx;
  bool operator==(const Update&) const = default;
};

Update update_of(Backend& backend, const UpdateCase& c, const SgdStep& sgd, bool in_place) {
  const auto made = make_layer(backend, c.in, c.spec, 0);
  const Shape out = made->output();
  const Footprint footprint = made->footprint();
  Index count = 0;
  for (const NamedTensor& part : footprint.params) count += part.count();
  Rng rng(11);
  Update result{uniform(rng, static_cast<std::size_t>(count)), uniform(rng, static_cast<std::size_t>(count)), {}};
  if (sgd.momentum == 0) result.velocity.clear();
  const std::vector<float> x = uniform(rng, static_cast<std::size_t>(c.in.count()));
  const std::vector<float> dy = uniform(rng, static_cast<std::size_t>(out.count()));
  std::vector<float> y(dy.size()), grads(in_place ? 0 : result.params.size());
  result.dx.resize(x.size());
  Arena cache = backend.allocate(footprint.cache);
  StepContext step{.training = true, .sgd = sgd};
  backend.begin(step);
  LayerBuffers buffers{step, result.params, grads, {}, cache.span()};
  if (in_place) buffers.updated = result.params, buffers.velocity = result.velocity;
  made->forward(buffers, {c.in, x}, {out, y});
  made->backward(buffers, {c.in, x}, {out, y}, {out, dy}, {c.in, result.dx});
  if (!in_place) backend.sgd(step, result.params, grads, result.velocity);
  return result;
}

}  // namespace

TEST_CASE("updates in place: parameters and velocities have the bits that they have by way of gradients") {
  constexpr LayerKind local = LayerKind::locally_connected, rica = LayerKind::rica;
  LayerSpec features = untied(rica, 8, {1, 4, 4});
  features.output = RicaOutput::features;
  const UpdateCase cases[] = {{line(7, 13, 3), untied(local, 5, {1, 1, 4})},
                              {image(2, 6, 9, 2), untied(local, 13, {1, 2, 3})},
                              {image(65, 9, 8, 5), untied(local, 3, {1, 8, 7})},  // parts of the field
                              {volume(3, {4, 5, 6}, 2), untied(local, 7, {3, 3, 3})},
                              {image(9, 8, 11, 3), untied(rica, 8, {1, 4, 4})},
                              {image(65, 9, 8, 5), untied(rica, 4, {1, 8, 7})},
                              {image(9, 8, 11, 3), features},
                              {image(9, 6, 80, 40), untied(local, 4, {1, 2, 7})},  // positions together
                              {image(8, 5, 80, 40), untied(rica, 3, {1, 2, 8})},
                              {image(5, 200, 12, 40), untied(rica, 2, {1, 3, 7})},  // and lines
                              {line(2, 90, 8), untied(local, 6, {1, 1, 70})},       // few rows: some features at once
                              {image(3, 4, 40, 30), untied(rica, 3, {1, 3, 30})},   // and some of a feature's weights
                              {image(6, 4, 40, 30), untied(rica, 5, {1, 3, 30})},   // the same of more rows
                              {image(6, 13, 40, 30), untied(rica, 2, {1, 12, 30})},
                              {line(3, 12, 2), untied(rica, 6, {1, 1, 5}, Decoder::own)}};
  for (const auto& backend : backends())
    for (const UpdateCase& c : cases)
      for (const SgdStep& sgd : {SgdStep{0.1F, 0.9F, 0.01F}, SgdStep{0.3F, 0, 0}}) {
        INFO(backend->name(), " ", to_string(c.spec.kind), " ", to_string(c.in), " momentum ", sgd.momentum);
        const Update by_gradients = update_of(*backend, c, sgd, false), in_place = update_of(*backend, c, sgd, true);
        CHECK(in_place.params == by_gradients.params);
        CHECK(in_place.velocity == by_gradients.velocity);
        CHECK(in_place.dx == by_gradients.dx);
      }
}

TEST_CASE("updates in place: the same bits inside of another parallel region, where one thread has all parts") {
  const auto backend = make_cpu_backend(2);
  const UpdateCase cases[] = {{image(9, 8, 11, 3), untied(LayerKind::rica, 8, {1, 4, 4})},
                              {image(9, 6, 80, 40), untied(LayerKind::locally_connected, 4, {1, 2, 7})},
                              {line(2, 90, 8), untied(LayerKind::locally_connected, 6, {1, 1, 70})}};
  for (const UpdateCase& c : cases) {
    INFO(to_string(c.spec.kind), " ", to_string(c.in));
    const SgdStep sgd{0.1F, 0.9F, 0.01F};
    const Update outside = update_of(*backend, c, sgd, true);
    Update inside;
#pragma omp parallel num_threads(2)
#pragma omp single
    inside = update_of(*backend, c, sgd, true);
    CHECK(inside.params == outside.params);
    CHECK(inside.velocity == outside.velocity);
    CHECK(inside.dx == outside.dx);
  }
}

namespace {

/// Untied layers between others, all of which have a gradient.
ModelSettings mixed(bool in_place) {
  ModelSettings settings;
  settings.network.sample = {.n = 0, .spatial = {1, 1, 24}, .channels = 2, .axes = 1};
  settings.network.max_rows = 6;
  LayerSpec conv = layer(LayerKind::conv, 3);
  conv.window = {1, 1, 3};
  settings.network.layers = {conv,
                             untied(LayerKind::locally_connected, 4, {1, 1, 5}),
                             layer(LayerKind::tanh),
                             untied(LayerKind::locally_connected, 3, {1, 1, 2}),
                             layer(LayerKind::batch_norm),
                             layer(LayerKind::flatten),
                             layer(LayerKind::dense, 2)};
  name_layers(settings.network.layers);
  settings.in_place = in_place;
  return settings;
}

std::vector<float> trained(Backend& backend, bool in_place, double momentum) {
  OptimizerSettings optimizer;
  optimizer.name = OptimizerKind::sgd;
  optimizer.momentum = momentum;
  ModelState state(backend, mixed(in_place), optimizer, {1, 1, 1});
  const Shape in = state.model.input().with_rows(6), out = state.model.output().with_rows(6);
  for (int number = 0; number < 4; ++number) {
    const std::vector<float> x = random_values(in.count(), static_cast<std::uint64_t>(number) + 1);
    StepContext step{.training = true, .updates_done = static_cast<std::uint64_t>(number)};
    state.optimizer.advance(0.05, step);
    backend.begin(step);
    state.model.forward(step, {in, x});
    std::ranges::copy(random_values(out.count(), 77), state.model.output_gradient(6).begin());
    state.model.backward(step, {in, x});
    state.update(step);
  }
  return {state.model.params().begin(), state.model.params().end()};
}

}  // namespace

TEST_CASE("updates in place: a network's untied layers have no gradients, and the others' are as they were") {
  for (const auto& backend : {make_reference_backend(), make_cpu_backend(2)})
    for (const double momentum : {0.9, 0.0}) {
      INFO(backend->name(), " momentum ", momentum);
      CHECK(trained(*backend, true, momentum) == trained(*backend, false, momentum));
    }
  const auto backend = make_reference_backend();
  Model model(*backend, mixed(true));
  const Network& network = model.network();
  const Index untied = aligned(network.entry(1).params.count) + aligned(network.entry(3).params.count);
  CHECK(std::ssize(model.grads()) == std::ssize(model.params()) - untied);
  CHECK(model.layout().with_gradients().size() == 2);
}

TEST_CASE("updates in place: a rank takes four bytes a weight less, and four less again without momentum") {
  const auto backend = make_reference_backend();
  const auto memory = [&](bool in_place, double momentum) {
    TrainingConfig training;
    training.optimizer.name = OptimizerKind::sgd;
    training.optimizer.momentum = momentum;
    training.update_in_place = in_place;
    MemoryCount count(*backend, training, 0);
    return count.add(mixed(in_place).network).models;
  };
  const Network network(*backend, mixed(false).network);
  const Index untied = aligned(network.entry(1).params.count) + aligned(network.entry(3).params.count);
  CHECK(memory(false, 0.9) - memory(true, 0.9) == 4 * untied);
  CHECK(memory(true, 0.9) - memory(true, 0) == 4 * network.params_size());
}

}  // namespace mrmf::test
