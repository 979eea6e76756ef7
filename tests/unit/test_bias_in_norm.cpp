// A convolution whose only reader is a batch norm leaves its bias to that: against layers run one by one, each
// convolution with its bias.
#include <doctest/doctest.h>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/branches.hpp"
#include "tests/unit/support/layer_memory.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {
namespace {

struct BiasCase {
  std::string title;
  Shape in;
  std::vector<LayerSpec> layers;
};

LayerSpec windowed(LayerKind kind, Index units, const Extent& window, const Extent& stride, const Extent& pad = {}) {
  LayerSpec spec = layer(kind, units);
  spec.window = window, spec.stride = stride, spec.pad_before = spec.pad_after = pad;
  return spec;
}

std::vector<BiasCase> bias_cases() {
  const LayerSpec norm = layer(LayerKind::batch_norm), relu = layer(LayerKind::relu);
  const Extent one{1, 1, 1}, two{2, 2, 2}, three{3, 3, 3};
  std::vector<BiasCase> list{
      {"1-D, stride 2", line(7, 23, 3), {windowed(LayerKind::conv, 5, {1, 1, 4}, {1, 1, 2}, {0, 0, 1}), norm}},
      {"2-D, the direct kernels, ReLU and a pool behind the norm",
       image(3, 12, 14, 5),
       {windowed(LayerKind::conv, 16, {1, 3, 3}, one, {0, 1, 1}), norm, relu,
        windowed(LayerKind::average_pool, 0, {1, 2, 2}, {1, 2, 2})}},
      {"3-D, a norm of the input before it",
       volume(3, {6, 9, 8}, 4),
       {norm, windowed(LayerKind::conv, 16, three, one, one), norm, relu}},
      {"3-D, few positions", volume(2, {2, 2, 2}, 6), {windowed(LayerKind::conv, 9, three, one, one), norm, relu}},
      {"3-D, fewer positions than channels",
       volume(6, {4, 4, 4}, 3),
       {windowed(LayerKind::conv, 24, three, two, one), norm, relu}},
      {"two of them, and one that adds its own bias",
       line(8, 19, 2),
       {windowed(LayerKind::conv, 6, {1, 1, 3}, one), norm, relu, windowed(LayerKind::conv, 8, {1, 1, 3}, one), norm,
        windowed(LayerKind::conv, 4, {1, 1, 2}, one)}},
  };
  for (BiasCase& c : list) name_layers(c.layers);
  return list;
}

/// Layers in memory of their own, made one by one: none knows what is behind it.
class OneByOne {
 public:
  OneByOne(Backend& backend, Model& model, Index rows) : model_(model) {
    Shape shape = model.network().input();
    for (const LayerEntry& entry : model.network().entries()) {
      LayerSpec spec = entry.spec;
      spec.bias_in_norm = false;
      layers_.push_back(make_layer(backend, shape, spec, layers_.size()));
      memory_.emplace_back(*layers_.back(), shape, rows);
      memory_.back().params.set(span_at(model.params(), entry.params));
      memory_.back().state.set(span_at(model.state(), entry.state));
      shape = layers_.back()->output();
    }
  }

  std::vector<float> forward(const StepContext& step, ConstSpan x) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      memory_[i].x.set(i == 0 ? x : ConstSpan(memory_[i - 1].y.span()));
      memory_[i].forward(*layers_[i], step);
    }
    return memory_.back().y.values();
  }
  void backward(const StepContext& step, ConstSpan dy) {
    for (std::size_t i = layers_.size(); i-- > 0;) {
      memory_[i].dy.set(i + 1 == layers_.size() ? dy : ConstSpan(memory_[i + 1].dx.span()));
      memory_[i].backward(*layers_[i], step);
    }
  }

  // Sums of up to some thousand terms, a few layers below the norm that centres them.
  void check_gradients() const {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const LayerEntry& entry = model_.network().entry(i);
      INFO(entry.name);
      ConstSpan got = span_at(model_.grads(), entry.params), wanted = memory_[i].grads.span();
      if (entry.spec.bias_in_norm) {
        const auto weights = got.size() - static_cast<std::size_t>(entry.spec.units);
        for (const float value : got.subspan(weights)) CHECK(value == 0.0F);
        for (const float value : wanted.subspan(weights)) CHECK(std::abs(value) < 1e-3);
        got = got.first(weights), wanted = wanted.first(weights);
      }
      CHECK(relative_distance(got, wanted) < 5e-5);
    }
  }
  void check_state() const {
    for (std::size_t i = 0; i < layers_.size(); ++i)
      CHECK(relative_distance(span_at(model_.state(), model_.network().entry(i).state), memory_[i].state.span()) <
            5e-6);
  }

 private:
  Model& model_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<LayerMemory> memory_;
};

/// Biases that nobody overlooks, and running statistics that are not a fresh network's.
void move_parameters(Model& model) {
  Rng rng(17);
  for (const LayerEntry& entry : model.network().entries()) {
    for (float& value : span_at(model.params(), entry.params)) value += static_cast<float>(rng.uniform(-0.3, 0.3));
    for (float& value : span_at(model.state(), entry.state)) value += static_cast<float>(rng.uniform(0.0, 0.5));
    if (entry.kind == LayerKind::conv)
      for (float& value : span_at(model.params(), entry.params).last(static_cast<std::size_t>(entry.spec.units)))
        value = static_cast<float>(rng.uniform(-3, 3));
  }
}

void check_biases(Backend& backend, const BiasCase& c, bool fuse) {
  ModelSettings settings;
  settings.network = {c.in, c.in.n, c.layers, ""};
  settings.fuse = fuse;
  Model model(backend, settings);
  move_parameters(model);
  const auto reference = make_reference_backend();
  for (const Index rows : {c.in.n, c.in.n - 1}) {
    const Batch batch(model, rows, 5);
    OneByOne plain(*reference, model, rows);
    const StepContext evaluation = batch.step(false);
    CHECK(relative_distance(model.forward(evaluation, batch.x()).data, plain.forward(evaluation, batch.values)) < 5e-6);

    const StepContext step = batch.step(true);
    backend.begin(step);
    CHECK(relative_distance(model.forward(step, batch.x()).data, plain.forward(step, batch.values)) < 1e-5);
    plain.check_state();
    const std::vector<float> dy = random_values(model.output().with_rows(rows).count(), 7);
    std::ranges::copy(dy, model.output_gradient(rows).begin());
    std::ranges::fill(model.grads(), NAN);
    model.backward(step, batch.x());
    plain.backward(step, dy);
    plain.check_gradients();
  }
}

std::vector<bool> left_to_norms(const std::vector<LayerSpec>& layers) {
  const auto backend = make_reference_backend();
  const Network network(*backend, {line(1, 16, 3), 1, layers, {}});
  std::vector<bool> left;
  for (const LayerEntry& entry : network.entries()) left.push_back(entry.spec.bias_in_norm);
  return left;
}

}  // namespace

TEST_CASE("batch norm: the bias of the convolution in front counts in the running mean alone, and has no gradient") {
  for (const auto& backend : backends())
    for (const BiasCase& c : bias_cases())
      for (const bool fuse : {true, false}) {
        INFO(backend->name(), ": ", c.title, fuse ? ", fused" : "");
        check_biases(*backend, c, fuse);
      }
}

TEST_CASE("wiring: a convolution leaves its bias only to a batch norm that reads it as it is, and alone") {
  using enum LayerKind;
  const LayerSpec first = named_conv("c", 3, 1);
  const auto alone = [&](std::vector<LayerSpec> behind) -> bool {
    behind.insert(behind.begin(), first);
    return left_to_norms(behind)[0];
  };
  CHECK(alone({named(batch_norm, "n")}));
  CHECK(alone({named(batch_norm, "n"), named(relu, "r"), named(add, "a", {"n", "r"})}));
  CHECK(alone({named_conv("other", 3, 1, {"input"}), named(batch_norm, "n", {"c"}), named(add, "a", {"n", "other"})}));
  CHECK(!alone({}));
  CHECK(!alone({named(relu, "r"), named(batch_norm, "n")}));
  CHECK(!alone({named(flatten, "f"), named(batch_norm, "n")}));
  CHECK(!alone({named(layer_norm, "n")}));
  CHECK(!alone({named(batch_norm, "n"), named(add, "a", {"n", "c"})}));
  CHECK(!alone({named(batch_norm, "n"), named(batch_norm, "m", {"c"}), named(add, "a", {"n", "m"})}));
}

}  // namespace mrmf::test
