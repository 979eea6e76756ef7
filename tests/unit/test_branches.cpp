// Models whose layers read any earlier output: against their layers called one by one, against differences, and on
// every backend against the reference.
#include "tests/unit/support/branches.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "src/method/pipeline.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/layer_memory.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

/// Output and gradients of one training step on fixed data, with `rows` rows.
struct TrainedNetwork {
  std::vector<float> y, grads, state;

  TrainedNetwork(Backend& backend, Model& model, Index rows) {
    const Batch batch(model, rows, 21);
    const std::vector<float> target = random_values(model.network().output().with_rows(rows).count(), 22);
    const ConstTensor out = model.forward(batch.step(true), batch.x());
    y = copy(out.data);
    std::ranges::fill(model.grads(), NAN);
    loss_of(backend, LossKind::mse, out, {out.shape, target}, 1.0F, model.output_gradient(rows));
    dy = copy(model.output_gradient(rows));
    model.backward(batch.step(true), batch.x());
    CHECK(copy(out.data) == y);  // until the next forward
    for (const LayerEntry& entry : model.network().entries()) {
      const Span own = span_at(model.grads(), entry.params);
      grads.insert(grads.end(), own.begin(), own.end());
    }
    state = copy(model.state());
  }
  std::vector<float> dy;
};

std::vector<float> without_gaps(const Network& network, ConstSpan arena) {
  std::vector<float> values;
  for (const LayerEntry& entry : network.entries()) {
    const auto first = arena.begin() + entry.params.first;
    values.insert(values.end(), first, first + entry.params.count);
  }
  return values;
}

double loss_at(Backend& backend, Model& model, const Batch& batch, ConstSpan target) {
  const ConstTensor y = model.forward(batch.step(true), batch.x());
  return mrmf::test::loss_of(backend, LossKind::mse, y, {y.shape, target}, 1.0F, {});
}

// As in test_model.cpp: rounding of a loss of size 10 and kinks within the step; a branch that is left out or counted
// twice is off by tens of per cent.
void check_model_slopes(const ModelSettings& settings) {
  const auto backend = make_reference_backend();
  Model model(*backend, settings);
  const Batch batch(model, 4, 21);
  const std::vector<float> target = random_values(model.network().output().with_rows(4).count(), 22);
  const TrainedNetwork trained(*backend, model, 4);
  const std::vector<float> w = copy(model.params());
  std::vector<float> dw = copy(model.grads());
  for (float& value : dw)
    if (std::isnan(value)) value = 0.0F;  // between layers; all of a layer's are checked to be numbers
  CHECK(all_finite(trained.grads));
  for (std::uint64_t trial = 0; trial < 3; ++trial) {
    const std::vector<float> direction = random_values(std::ssize(w), 100 + trial);
    double norm = 0, expected = 0;
    for (const float d : direction) norm += static_cast<double>(d) * d;
    for (std::size_t i = 0; i < w.size(); ++i) expected += dw[i] * direction[i] / std::sqrt(norm);
    const auto moved = [&](double h) {
      for (std::size_t i = 0; i < w.size(); ++i)
        model.params()[i] = static_cast<float>(w[i] + h * direction[i] / std::sqrt(norm));
      return loss_at(*backend, model, batch, target);
    };
    const double h = 3e-4;
    CHECK((moved(h) - moved(-h)) / (2 * h) == doctest::Approx(expected).epsilon(2e-2));
  }
}

const auto networks = {residual_layers, skip_layers};

}  // namespace

TEST_CASE("branches: backward is the gradient of a residual network and of one with skips, on 1 to 3 axes") {
  for (const auto& layers : networks)
    for (const int axes : {1, 2, 3}) {
      CAPTURE(axes);
      check_model_slopes(branch_model(layers(), axes));
    }
}

// The oracle keeps every tensor in memory of its own and works in place nowhere, so equal bits mean that the plan of
// the arena loses nothing and adds all gradients up, in the order of the list from its end.
TEST_CASE("branches: a model computes what its layers compute one by one, to the bit, in random networks") {
  const auto backend = make_reference_backend();
  for (std::uint64_t key = 0; key < 60; ++key)
    for (const int axes : {1, 2}) {
      CAPTURE(key);
      CAPTURE(axes);
      Model model(*backend, branch_model(random_layers(key), axes, false));
      Model oracle(*backend, branch_model(random_layers(key), axes, false));
      for (const Index rows : {4, 2, 4}) {
        const Batch batch(model, rows, 21);
        std::ranges::copy(oracle.state(), model.state().begin());
        const TrainedNetwork got(*backend, model, rows);
        const StepByStep want = step_by_step(*backend, oracle, batch.step(true), batch.x(), got.dy);
        CHECK(got.y == want.y);
        CHECK(got.grads == without_gaps(oracle.network(), want.grads));
      }
    }
}

TEST_CASE("branches: every backend agrees with the reference, with fused layers and without") {
  const auto reference = make_reference_backend();
  const auto check = [&](const std::vector<LayerSpec>& layers, int axes) {
    Model oracle(*reference, branch_model(layers, axes, false));
    const TrainedNetwork want(*reference, oracle, 4);
    for (const auto& backend : backends())
      for (const bool fuse : {true, false}) {
        INFO(backend->name(), ", axes ", axes, ", fused ", fuse);
        Model model(*backend, branch_model(layers, axes, fuse));
        const TrainedNetwork got(*backend, model, 4);
        // Sums of up to a few hundred float32 terms in a handful of layers.
        CHECK(relative_distance(got.y, want.y) < 2e-5);
        CHECK(relative_distance(got.grads, want.grads) < 5e-5);
        CHECK(relative_distance(got.state, want.state) < 2e-5);
      }
  };
  for (const auto& layers : networks)
    for (const int axes : {1, 2, 3}) check(layers(), axes);
  for (std::uint64_t key = 0; key < 10; ++key) check(random_layers(key), 3);
  using enum LayerKind;
  LayerSpec groups = named(group_norm, "n");
  groups.groups = 2;
  for (const LayerSpec& norm : {groups, named(layer_norm, "n")})
    for (const auto kind : {relu, leaky_relu})
      for (const int axes : {1, 2, 3})  // a join's slice gets what the norm and the activation make
        check({named_conv("c", 8, 3), norm, named(kind, "r"), named(concat, "s", {"r", "c"}), named_conv("out", 2, 1)},
              axes);
}

TEST_CASE("branches: layers are fused only where nobody else reads what lies between them") {
  using enum LayerKind;
  const auto backend = make_cpu_backend(1);
  const auto units = [&](std::vector<LayerSpec> layers) {
    return Model(*backend, branch_model(layers, 1)).units().size();
  };
  const LayerSpec out = named_conv("out", 2, 1);
  LayerSpec valid = named_conv("c", 8, 3);
  valid.same_padding = false;
  const std::vector<LayerSpec> direct{valid, named(max_pool, "p"), named(relu, "r"), out};
  CHECK(units(direct) == 2);
  std::vector<LayerSpec> read = direct;
  read.insert(read.begin() + 3, named(add, "s", {"r", "p"}));
  CHECK(units(read) == 5);
  std::vector<LayerSpec> norm{named_conv("c", 8, 3), named(batch_norm, "n"), named(relu, "r"), out};
  CHECK(units(norm) == 2);  // with the convolution
  std::vector<LayerSpec> layers_norm = norm;
  layers_norm[1].kind = layer_norm;
  CHECK(units(layers_norm) == 3);
  layers_norm.insert(layers_norm.begin() + 3, named(concat, "s", {"r", "n"}));
  CHECK(units(layers_norm) == 5);
  norm.insert(norm.begin() + 3, named(concat, "s", {"r", "n"}));
  CHECK(units(norm) == 4);
  norm[3].from = {"r", "c"};  // what the run reads may be read by others
  CHECK(units(norm) == 4);
}

TEST_CASE("branches: sums are written over an input, a shortcut's gradient is not copied") {
  const auto backend = make_reference_backend();
  Model model(*backend, branch_model(residual_layers(), 2, false));
  const auto unit = [&](const std::string& name) -> const Unit& {
    for (const Unit& u : model.units())
      if (model.network().entry(u.first).name == name) return u;
    throw ConfigError("no unit " + name);
  };
  CHECK(unit("sum1").memory.in_place);
  CHECK(unit("sum1").memory.output.first == unit("n2").memory.output.first);
  CHECK(unit("sum2").memory.in_place);
  for (const InputGradient& dx : unit("sum1").memory.dx) CHECK(dx.dx.first == unit("sum1").memory.dy.first);
  // The first convolution of the block adds its own part to the shortcut's, in place.
  const InputGradient& joined = unit("a1").memory.dx[0];
  CHECK(joined.before.first == unit("sum1").memory.dy.first);
  CHECK(joined.sum.first == joined.before.first);
  // r0 is read by the shortcut, and its backward reads its output: nothing may be written over it.
  CHECK(!unit("a1").memory.in_place);
  CHECK(unit("r1").memory.in_place);
}

TEST_CASE("branches: training lowers the loss of a residual network and of one with skips") {
  const auto backend = make_cpu_backend(2);
  for (const auto& layers : networks) {
    Model model(*backend, branch_model(layers(), 2));
    const Batch batch(model, 4, 40);
    const std::vector<float> target = random_values(model.network().output().with_rows(4).count(), 41);
    const double before = loss_at(*backend, model, batch, target);
    Arena velocity = backend->allocate(model.network().params_size());
    for (int i = 0; i < 60; ++i) {
      const ConstTensor y = model.forward(batch.step(true), batch.x());
      loss_of(*backend, LossKind::mse, y, {y.shape, target}, 1.0F / 4, model.output_gradient(4));
      model.backward(batch.step(true), batch.x());
      StepContext update_step;
      update_step.sgd = {0.05F, 0.9F, 0.0F};
      backend->sgd(update_step, model.params(), model.grads(), velocity.span());
    }
    CHECK(loss_at(*backend, model, batch, target) < 0.8 * before);
  }
}

TEST_CASE("branches: a fusion transfers all of a network without flatten and dense layers") {
  const auto backend = make_cpu_backend(1);
  ModelSettings dense_settings = branch_model(skip_layers(), 1), coarse_settings = dense_settings;
  coarse_settings.network.sample.spatial = {1, 1, 4};
  coarse_settings.seed = 10;
  for (const MomentTransfer moments : {MomentTransfer::reset, MomentTransfer::carry}) {
    ModelState coarse(*backend, coarse_settings, OptimizerSettings{}, {1, 1, 2});
    ModelState dense(*backend, dense_settings, OptimizerSettings{}, {1, 1, 1});
    CHECK(coarse.model.top().empty());
    train_a_little(*backend, coarse.model, 50);
    for (int i = 0; i < 3; ++i) update(coarse.optimizer, 1e-3, coarse.model);
    const std::vector<float> params = copy(coarse.model.params()), state = copy(coarse.model.state());
    const std::vector<float> moment = copy(coarse.optimizer.moments()[0]);
    Fusion fusion;
    fusion.top = TopRule::interpolated;
    fusion.moments = moments;
    fuse(*backend, coarse, dense, fusion);
    CHECK(copy(dense.model.params()) == params);
    CHECK(copy(dense.model.state()) == state);
    if (moments == MomentTransfer::carry) CHECK(copy(dense.optimizer.moments()[0]) == moment);
    const Batch batch(dense.model, 4, 70);
    CHECK(std::isfinite(dense.model.forward(batch.step(false), batch.x()).data[0]));
  }
}

TEST_CASE("branches: a fusion of named layers, of those below a flatten and of all is what it is written out by hand") {
  struct Case {
    std::vector<LayerSpec> layers;
    BottomSettings bottom;
    std::vector<std::string> transferred;  // layers with parameters
  };
  const Case cases[] = {{skip_layers(), {}, {"c1", "n1", "c2", "c3", "n2", "out"}},
                        {skip_layers(), {"", {"c1", "n*"}}, {"c1", "n1", "n2"}},
                        {skip_layers(), {"", {"c*"}}, {"c1", "c2", "c3"}},
                        {residual_layers(), {}, {"stem", "a1", "n1", "a2", "n2", "b1", "n3", "b2", "shortcut"}}};
  const auto backend = make_reference_backend();
  for (const Case& c : cases) {
    CAPTURE(c.transferred.size());
    ModelSettings dense_settings = branch_model(c.layers, 1), coarse_settings = dense_settings;
    dense_settings.network.bottom = coarse_settings.network.bottom = c.bottom;
    coarse_settings.network.sample.spatial[2] /= 2;
    coarse_settings.seed = 10;
    ModelState coarse(*backend, coarse_settings, OptimizerSettings{}, {1, 1, 2});
    ModelState dense(*backend, dense_settings, OptimizerSettings{}, {1, 1, 1});
    train_a_little(*backend, coarse.model, 50);
    train_a_little(*backend, dense.model, 60);
    Model by_hand(*backend, dense_settings);
    const auto put = [&](const Model& from, std::size_t i) {
      const LayerEntry& source = from.network().entry(i);
      const LayerEntry& entry = by_hand.network().entry(i);
      for (Index k = 0; k < entry.params.count; ++k)
        by_hand.params()[entry.params.first + k] = from.params()[source.params.first + k];
      for (Index k = 0; k < entry.state.count; ++k)
        by_hand.state()[entry.state.first + k] = from.state()[source.state.first + k];
    };
    for (std::size_t i = 0; i < by_hand.network().size(); ++i)
      put(std::ranges::count(c.transferred, by_hand.network().entry(i).name) > 0 ? coarse.model : dense.model, i);
    fuse(*backend, coarse, dense, Fusion{.top = TopRule::dense});
    CHECK(without_gaps(dense.model.network(), dense.model.params()) ==
          without_gaps(by_hand.network(), by_hand.params()));
    const Batch batch(dense.model, 4, 70);
    CHECK(copy(dense.model.forward(batch.step(false), batch.x()).data) ==
          copy(by_hand.forward(batch.step(false), batch.x()).data));
  }
}

TEST_CASE("branches: an interpolated top follows each layer to its own flatten") {
  using enum LayerKind;
  LayerSpec halved = named_conv("s", 4, 3, {"c"});
  halved.stride = {1, 1, 2};
  LayerSpec d1 = named(dense, "d1", {"f1"}), d2 = named(dense, "d2", {"f2"});
  d1.units = d2.units = 3;
  const std::vector<LayerSpec> layers{named_conv("c", 2, 3),          halved, named(flatten, "f1", {"c"}),
                                      named(flatten, "f2", {"s"}),    d1,     d2,
                                      named(add, "sum", {"d1", "d2"})};
  const auto backend = make_reference_backend();
  ModelSettings dense_settings = branch_model(layers, 1), coarse_settings = dense_settings;
  coarse_settings.network.sample.spatial[2] /= 2;
  coarse_settings.seed = 10;
  ModelState coarse(*backend, coarse_settings, OptimizerSettings{}, {1, 1, 2});
  ModelState dense_model(*backend, dense_settings, OptimizerSettings{}, {1, 1, 1});
  fuse(*backend, coarse, dense_model, Fusion{.top = TopRule::interpolated});
  // The output that a sum of equal positions gives stays: weights are spread over twice the positions of 4 channels.
  const auto sums = [](const Model& model, Index channels) {
    const LayerEntry& entry = model.network().entry(5);
    const Index row = entry.input.per_sample();
    std::vector<double> sum(static_cast<std::size_t>(channels));
    for (Index i = 0; i < row; ++i)
      sum[static_cast<std::size_t>(i % channels)] += model.params()[static_cast<std::size_t>(entry.params.first + i)];
    return sum;
  };
  ModelState again(*backend, coarse_settings, OptimizerSettings{}, {1, 1, 2});  // its bottom was swapped, its top not
  const std::vector<double> before = sums(again.model, 4), after = sums(dense_model.model, 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(after[i] == doctest::Approx(before[i]).epsilon(1e-4));
  const std::vector<LayerSpec> nothing{named(relu, "r"), named(flatten, "f"), named(dense, "d")};
  NetworkSettings empty{dense_settings.network.sample, 1, nothing, {}};
  empty.layers[2].units = 2;
  const Network network(*backend, empty);
  CHECK_THROWS_WITH_AS(require_fusible(network, network, Fusion{}), doctest::Contains("transfers nothing"),
                       ConfigError);
}

TEST_CASE("branches: bottom and top, and cuts that divide a branch") {
  const std::vector<LayerSpec> residual = residual_layers();
  const Wiring wiring = connect(residual);
  const auto cut = [&](const std::string& name) -> std::string {
    try {
      return residual[find_cut(residual, wiring, name)].name;
    } catch (const ConfigError& e) {
      return e.what();
    }
  };
  CHECK(cut("") == "flat");
  for (const char* whole : {"r0", "a1", "r2", "b1", "r4", "pool", "flat", "dense"}) CHECK(cut(whole) == whole);
  CHECK(
      cut("n1") ==
      "model.cut = \"n1\" divides a branch: sum1 of the top reads r0 of the bottom, past the cut; set it to \"a1\" or "
      "\"r2\"");
  CHECK(cut("sum1") ==
        "model.cut = \"sum1\" divides a branch: sum1 of the top reads r0 of the bottom, past the cut; set it to \"a1\" "
        "or \"r2\"");
  CHECK(
      cut("shortcut") ==
      "model.cut = \"shortcut\" divides a branch: shortcut of the top reads r2 of the bottom, past the cut; set it to "
      "\"b1\" or \"r4\"");
  const std::vector<LayerSpec> skips = skip_layers();
  CHECK(find_cut(skips, connect(skips), "") == skips.size());
  // A default cut that would divide a branch moves towards the input.
  using enum LayerKind;
  LayerSpec last = named(dense, "d");
  last.units = 2;
  const std::vector<LayerSpec> flats{named_conv("c", 2, 3), named(flatten, "f1"), named(flatten, "f2", {"c"}),
                                     named(concat, "j", {"f1", "f2"}), last};
  CHECK(find_cut(flats, connect(flats), "") == 1);
  std::vector<LayerSpec> around = flats;
  around[2].from = {"input"};
  CHECK(find_cut(around, connect(around), "") == 0);
}

TEST_CASE("branches: names that cannot be read are errors that name the layer") {
  using enum LayerKind;
  const auto error = [](std::vector<LayerSpec> layers) -> std::string {
    try {
      connect(layers);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "none";
  };
  const std::vector<LayerSpec> good{named_conv("a", 2, 3), named_conv("b", 2, 3), named(add, "s", {"a", "b"})};
  CHECK(error(good) == "none");
  auto with = [&](std::size_t i, std::vector<std::string> from) {
    std::vector<LayerSpec> layers = good;
    layers[i].from = std::move(from);
    return error(layers);
  };
  CHECK(with(2, {"a", "c"}) == "s: from names \"c\", and no layer has that name");
  CHECK(with(1, {"s"}) == "b: from names \"s\", which comes later in the list; a layer reads earlier ones");
  CHECK(with(1, {"b"}) == "b: from names the layer itself; a layer reads earlier ones");
  CHECK(with(2, {"a", "b", "a"}) == "s: from names \"a\" twice");
  CHECK(with(2, {"a"}) == "s: add takes from = [\"...\", \"...\"], two or more earlier layers");
  CHECK(with(2, {}) == "s: add takes from = [\"...\", \"...\"], two or more earlier layers");
  CHECK(with(1, {"a", "input"}) == "b: from names 2 layers, and conv takes one; add or concat them first");
  CHECK(with(2, {"a", "input"}) == "b: no later layer reads its output; name it in a from, or remove the layer");
  std::vector<LayerSpec> named_input = good;
  named_input[0].name = "input";
  CHECK(error(named_input) == "input: this name stands for the network's input; give the layer another one");
  const auto backend = make_reference_backend();
  std::vector<LayerSpec> unequal = good;
  unequal[1].units = 3;
  CHECK_THROWS_WITH_AS(Model(*backend, branch_model(unequal, 2)),
                       "s: a gives 8x8x2 and b gives 8x8x3; only equal shapes are added", ConfigError);
}
