#include "tests/unit/support/branches.hpp"

#include <algorithm>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {

LayerSpec named(LayerKind kind, const std::string& name, std::vector<std::string> from) {
  LayerSpec spec = layer(kind);
  spec.name = name;
  spec.from = std::move(from);
  if (kind == LayerKind::max_pool || kind == LayerKind::average_pool) {
    spec.window = spec.stride = {1, 1, 2};
    spec.one_for_all = {.window = true, .stride = true};
  }
  return spec;
}

LayerSpec named_conv(const std::string& name, Index filters, Index kernel, std::vector<std::string> from) {
  LayerSpec spec = named(LayerKind::conv, name, std::move(from));
  spec.units = filters;
  spec.window = {1, 1, kernel};
  spec.one_for_all.window = true;
  spec.same_padding = true;
  return spec;
}

std::vector<LayerSpec> residual_layers() {
  using enum LayerKind;
  LayerSpec dense_layer = named(dense, "dense");
  dense_layer.units = 3;
  return {named_conv("stem", 4, 3),
          named(relu, "r0"),
          named_conv("a1", 4, 3),
          named(batch_norm, "n1"),
          named(relu, "r1"),
          named_conv("a2", 4, 3),
          named(batch_norm, "n2"),
          named(add, "sum1", {"n2", "r0"}),
          named(relu, "r2"),
          named_conv("b1", 6, 3),
          named(batch_norm, "n3"),
          named(leaky_relu, "r3"),
          named_conv("b2", 6, 3),
          named_conv("shortcut", 6, 1, {"r2"}),
          named(add, "sum2", {"b2", "shortcut"}),
          named(tanh, "r4"),
          named(average_pool, "pool"),
          named(flatten, "flat"),
          dense_layer};
}

std::vector<LayerSpec> skip_layers() {
  using enum LayerKind;
  return {named_conv("c1", 4, 3),
          named(batch_norm, "n1"),
          named(relu, "r1"),
          named(max_pool, "p1"),
          named_conv("c2", 6, 3),
          named(relu, "r2"),
          named(average_pool, "skip1", {"r1"}),
          named_conv("c3", 5, 3, {"r2"}),
          named(max_pool, "shallow", {"input"}),
          named(concat, "cat", {"c3", "skip1", "shallow"}),
          named(batch_norm, "n2"),
          named(relu, "r3"),
          named_conv("out", 2, 1)};
}

std::vector<LayerSpec> random_layers(std::uint64_t key) {
  using enum LayerKind;
  Rng rng(key);
  struct Output {
    std::string name;
    Index positions, channels;
    bool read = false;
  };
  std::vector<Output> outputs{{kInput, 8, 2}};
  std::vector<LayerSpec> layers;
  const auto pick = [&] {
    return rng.below(2) == 0 ? outputs.size() - 1 : static_cast<std::size_t>(rng.below(outputs.size()));
  };
  const auto append = [&](LayerSpec spec, const std::vector<std::size_t>& from, Index positions, Index channels) {
    spec.name = "l" + std::to_string(layers.size());
    for (const std::size_t i : from) spec.from.push_back(outputs[i].name), outputs[i].read = true;
    outputs.push_back({spec.name, positions, channels});
    layers.push_back(spec);
  };
  const auto join = [&](LayerKind kind, std::vector<std::size_t> from) {
    Index channels = 0;
    for (const std::size_t i : from) channels += outputs[i].channels;
    const Output& first = outputs[from[0]];
    append(named(kind, ""), from, first.positions, kind == add ? first.channels : channels);
  };
  const std::size_t count = 4 + rng.below(10);
  while (layers.size() < count) {
    const std::size_t from = pick();
    const Output x = outputs[from];
    switch (rng.below(8)) {
      case 0:
      case 1: {
        const auto filters = static_cast<Index>(1 + rng.below(6));
        append(named_conv("", filters, 3), {from}, x.positions, filters);
        break;
      }
      case 2: append(named(batch_norm, ""), {from}, x.positions, x.channels); break;
      case 3: append(named(rng.below(2) == 0 ? relu : tanh, ""), {from}, x.positions, x.channels); break;
      case 4: {
        LayerSpec spec = named(dropout, "");
        spec.rate = 0.25F;
        append(spec, {from}, x.positions, x.channels);
        break;
      }
      case 5:
        if (x.positions > 2)
          append(named(rng.below(2) == 0 ? max_pool : average_pool, ""), {from}, x.positions / 2, x.channels);
        break;
      default: {
        const LayerKind kind = rng.below(2) == 0 ? add : concat;
        std::vector<std::size_t> inputs{from};
        for (std::size_t i = outputs.size(); i-- > 0;)
          if (i != from && inputs.size() < 4 && outputs[i].positions == x.positions &&
              (kind == concat || outputs[i].channels == x.channels) && rng.below(2) == 0)
            inputs.push_back(i);
        if (inputs.size() > 1) join(kind, inputs);
      }
    }
  }
  // What nobody reads yet is brought to two positions, and put together.
  std::vector<std::size_t> left;
  for (std::size_t i = 1; i < outputs.size(); ++i)
    if (!outputs[i].read) left.push_back(i);
  for (std::size_t& i : left)
    while (outputs[i].positions > 2) {
      append(named(average_pool, ""), {i}, outputs[i].positions / 2, outputs[i].channels);
      i = outputs.size() - 1;
    }
  if (left.size() > 1) join(concat, left);
  layers.push_back(named(flatten, "flat"));
  LayerSpec last = named(dense, "dense");
  last.units = 3;
  layers.push_back(last);
  return layers;
}

ModelSettings branch_model(const std::vector<LayerSpec>& layers, int axes, bool fuse) {
  ModelSettings settings;
  settings.network.sample = {.n = 0, .spatial = {1, 1, 1}, .channels = 2, .axes = axes};
  for (int axis = 3 - axes; axis < 3; ++axis) settings.network.sample.spatial[static_cast<std::size_t>(axis)] = 8;
  settings.network.max_rows = 4;
  settings.network.layers = layers;
  settings.seed = 9;
  settings.fuse = fuse;
  return settings;
}

StepByStep step_by_step(Backend& backend, Model& model, const StepContext& step, ConstTensor x, ConstSpan dy) {
  const Network& network = model.network();
  const Index rows = x.shape.n;
  std::vector<Arena> memory;
  const auto tensor = [&](const Shape& shape) -> Tensor {
    memory.push_back(backend.allocate(shape.with_rows(rows).count()));
    return {shape.with_rows(rows), memory.back().span()};
  };
  std::vector<Tensor> y{tensor(network.input())};
  std::ranges::copy(x.data, y[0].data.begin());
  std::vector<Arena> caches;
  StepByStep result;
  result.grads.assign(model.params().size(), 0.0F);
  std::vector<float> state(model.state().begin(), model.state().end());
  const auto buffers = [&](std::size_t i) -> LayerBuffers {
    const LayerEntry& entry = network.entry(i);
    return {step, span_at(model.params(), entry.params), span_at(result.grads, entry.params),
            span_at(state, entry.state), caches[i].span()};
  };
  const auto inputs = [&](std::size_t i) {
    std::vector<ConstTensor> list;
    for (const std::size_t number : network.wiring()[i]) list.emplace_back(y[number]);
    return list;
  };
  for (std::size_t i = 0; i < network.size(); ++i) {
    const LayerEntry& entry = network.entry(i);
    caches.push_back(backend.allocate(entry.footprint.cache));
    y.push_back(tensor(entry.output()));
    if (entry.join != nullptr)
      entry.join->join(inputs(i), y.back());
    else
      entry.layer->forward(buffers(i), inputs(i)[0], y.back());
  }
  result.y.assign(y.back().data.begin(), y.back().data.end());

  std::vector<std::vector<float>> gradient(network.size() + 1);
  gradient.back().assign(dy.begin(), dy.end());
  for (std::size_t i = network.size(); i-- > 0;) {
    const LayerEntry& entry = network.entry(i);
    std::vector<Tensor> dx;
    for (const std::size_t number : network.wiring()[i]) {
      dx.push_back(tensor(y[number].shape));
      if (number == 0) dx.back().data = {};
    }
    const ConstTensor of_y{y[i + 1].shape, gradient[i + 1]};
    if (entry.join != nullptr)
      entry.join->join_backward(of_y, dx);
    else
      entry.layer->backward(buffers(i), inputs(i)[0], y[i + 1], of_y, dx[0]);
    for (std::size_t k = 0; k < dx.size(); ++k) {
      std::vector<float>& sum = gradient[network.wiring()[i][k]];
      if (sum.empty())
        sum.assign(dx[k].data.begin(), dx[k].data.end());
      else
        for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += dx[k].data[j];
    }
  }
  return result;
}

}  // namespace mrmf::test
