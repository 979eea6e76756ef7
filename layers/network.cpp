#include "layers/network.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "layers/geometry_and_reach.hpp"
#include "layers/layer.hpp"
#include "layers/loss_terms_and_shared_weights.hpp"

namespace mrmf {
namespace {

// The output that a name stands for, as layer `reader` sees it.
std::size_t output_named(const std::string& name, const std::vector<LayerSpec>& layers, std::size_t reader) {
  const LayerSpec& spec = layers[reader];
  if (name == kInput) return 0;
  const auto found = std::ranges::find_if(layers, [&](const LayerSpec& layer) { return layer.name == name; });
  const auto at = static_cast<std::size_t>(found - layers.begin());
  require(found != layers.end(), spec, fmt::format("from names \"{}\", and no layer has that name", name));
  require(at != reader, spec, "from names the layer itself; a layer reads earlier ones");
  require(at < reader, spec,
          fmt::format("from names \"{}\", which comes later in the list; a layer reads earlier ones", name));
  return at + 1;
}

std::vector<std::size_t> reads_of(const std::vector<LayerSpec>& layers, std::size_t i) {
  const LayerSpec& spec = layers[i];
  require(spec.name != kInput, spec, "this name stands for the network's input; give the layer another one");
  require(!is_join(spec.kind) || spec.from.size() >= 2, spec,
          fmt::format("{} takes from = [\"...\", \"...\"], two or more earlier layers", to_string(spec.kind)));
  require(is_join(spec.kind) || spec.from.size() <= 1, spec,
          fmt::format("from names {} layers, and {} takes one; add or concat them first", spec.from.size(),
                      to_string(spec.kind)));
  if (is_source(spec.kind)) {
    require(spec.from.empty(), spec, to_string(spec.kind) + " reads no layer; remove from");
    return {0};  // whose shape says how many rows there are
  }
  if (spec.from.empty()) return {i};  // the layer before, or the input
  std::vector<std::size_t> reads;
  for (const std::string& name : spec.from) {
    reads.push_back(output_named(name, layers, i));
    require(std::ranges::count(reads, reads.back()) == 1, spec, fmt::format("from names \"{}\" twice", name));
  }
  return reads;
}

// A layer of the top that reads past the cut: the layer, and the output.
struct Divided {
  std::size_t reader, output;
};
std::optional<Divided> divided_by(const Wiring& wiring, std::size_t cut) {
  for (std::size_t i = cut; i < wiring.size(); ++i)
    for (const std::size_t output : wiring[i])
      if (output < cut) return Divided{i, output};
  return std::nullopt;
}

// The nearest cuts before and after that divide no branch and leave something on both sides.
std::string whole_cuts(const std::vector<LayerSpec>& layers, const Wiring& wiring, std::size_t cut) {
  std::string names;
  std::size_t before = cut, after = cut;
  while (before > 0 && divided_by(wiring, before)) --before;
  while (after < layers.size() && divided_by(wiring, after)) ++after;
  if (before > 0) names = "\"" + layers[before].name + "\"";
  if (after < layers.size()) names += (names.empty() ? "\"" : " or \"") + layers[after].name + "\"";
  return names.empty() ? "no cut of this model divides none" : "set it to " + names;
}

}  // namespace

Wiring connect(const std::vector<LayerSpec>& layers, const std::vector<LossTerm>& terms) {
  Wiring wiring;
  std::vector<bool> read(layers.size() + 1, false);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    wiring.push_back(reads_of(layers, i));
    for (const std::size_t output : wiring.back()) read[output] = true;
  }
  for (const TermInputs& inputs : inputs_of(terms, layers)) {
    read[inputs.output] = true;
    if (inputs.target) read[*inputs.target] = true;
  }
  for (std::size_t i = 0; i + 1 < layers.size(); ++i)
    require(read[i + 1], layers[i], "no later layer reads its output; name it in a from, or remove the layer");
  return wiring;
}

void leave_biases_to_norms(std::vector<LayerSpec>& layers, const Wiring& wiring, const std::vector<TermInputs>& terms) {
  std::vector<int> readers(layers.size() + 1), norms(readers.size());
  for (std::size_t i = 0; i < wiring.size(); ++i)
    for (const std::size_t output : wiring[i]) {
      ++readers[output];
      if (layers[i].kind == LayerKind::batch_norm) ++norms[output];
    }
  for (const TermInputs& inputs : terms) {
    ++readers[inputs.output];
    if (inputs.target) ++readers[*inputs.target];
  }
  for (std::size_t i = 0; i < layers.size(); ++i)
    layers[i].bias_in_norm = layers[i].kind == LayerKind::conv && readers[i + 1] == 1 && norms[i + 1] == 1;
}

std::size_t find_cut(const std::vector<LayerSpec>& layers, const Wiring& wiring, const std::string& name) {
  const auto first = [&](auto is) {
    return static_cast<std::size_t>(std::ranges::find_if(layers, is) - layers.begin());
  };
  std::size_t cut =
      first([&](const LayerSpec& l) { return name.empty() ? l.kind == LayerKind::flatten : l.name == name; });
  if (name.empty()) {
    if (cut == layers.size()) cut = first([](const LayerSpec& l) { return l.kind == LayerKind::dense; });
    while (cut > 0 && divided_by(wiring, cut)) --cut;
    return cut;
  }
  if (cut == layers.size())
    throw ConfigError("model.cut = \"" + name +
                      "\" names no layer of the model; the layers are listed by mrmf inspect");
  if (const auto divided = divided_by(wiring, cut))
    throw ConfigError(
        fmt::format("model.cut = \"{}\" divides a branch: {} of the top reads {} of the bottom, past the cut; {}", name,
                    layers[divided->reader].name, divided->output == 0 ? "the input" : layers[divided->output - 1].name,
                    whole_cuts(layers, wiring, cut)));
  return cut;
}

bool names_layer(const std::string& name, const LayerSpec& layer) {
  const auto names = [&](const std::string& own) {
    return name.ends_with('*') ? own.starts_with(name.substr(0, name.size() - 1)) : own == name;
  };
  const bool shares = !layer.weights_of.empty() && layer.every == 0;
  return names(layer.name) || (shares && names(layer.weights_of));
}

std::vector<bool> top_layers(const std::vector<LayerSpec>& layers, const Wiring& wiring, const BottomSettings& bottom) {
  std::vector<bool> top(layers.size(), true);
  if (bottom.layers.empty()) {
    std::fill_n(top.begin(), find_cut(layers, wiring, bottom.cut), false);
    return top;
  }
  for (const std::string& name : bottom.layers) {
    bool found = false;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!names_layer(name, layers[i])) continue;
      top[i] = false;
      found = true;
    }
    if (!found)
      throw ConfigError("model.bottom names \"" + name +
                        "\", which stands for no layer of the model; the layers are listed by mrmf inspect");
  }
  return top;
}

namespace {

Index total(const std::vector<NamedTensor>& parts) {
  Index sum = 0;
  for (const NamedTensor& part : parts) sum += part.count();
  return sum;
}

// Checks sizes from configuration and data before any computation: their product may not fit an Index.
void require_countable(const Shape& in, const LayerSpec& spec) {
  constexpr double most = 0x1p48;
  const auto units = static_cast<double>(std::max<Index>(spec.units, 1)), channels = static_cast<double>(in.channels);
  double window = 1, positions = static_cast<double>(in.n);
  for (std::size_t a = 0; a < 3; ++a) {
    window *= static_cast<double>(spec.window[a]);
    const bool transposed = spec.kind == LayerKind::conv_transpose;
    const auto stride = static_cast<double>(transposed ? std::max<Index>(spec.stride[a], 1) : 1);
    positions *= stride * static_cast<double>(in.spatial[a]) + static_cast<double>(spec.pad_before[a]) +
                 static_cast<double>(spec.pad_after[a]);
    if (transposed) positions += static_cast<double>(spec.window[a]) * static_cast<double>(spec.dilation[a]);
  }
  const double largest = std::max(std::max(units, window) * channels * positions, units * channels * window);
  require(largest <= most, spec,
          fmt::format("on an input of {} rows of {} it comes to {:.3g} numbers, which no machine holds; use a smaller "
                      "batch or sample, or fewer units",
                      in.n, to_string(in), largest));
}

}  // namespace

Network::Network(Backend& backend, const NetworkSettings& settings)
    : input_(settings.sample.with_rows(settings.max_rows)) {
  if (settings.layers.empty()) throw ConfigError("the model has no layers; set model.preset or [[model.layers]]");
  std::vector<LayerSpec> layers = settings.layers;
  resolve_axes(layers, input_.axes);
  parts_ = settings.parts;
  wiring_ = connect(layers, parts_.terms);
  term_inputs_ = inputs_of(parts_.terms, layers);
  leave_biases_to_norms(layers, wiring_, term_inputs_);
  for (const LayerSpec& spec : layers) add(backend, spec);
  require_copies(*this);
  require_terms(*this);
  const std::vector<bool> top = top_layers(layers, wiring_, settings.bottom);
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].top = top[i];
}

void Network::add(Backend& backend, const LayerSpec& spec) {
  std::vector<Shape> in;
  for (const std::size_t number : wiring_[entries_.size()]) in.push_back(output_numbered(number));
  for (const Shape& shape : in) require_countable(shape, spec);
  LayerEntry entry;
  entry.name = spec.name;
  entry.kind = spec.kind;
  entry.spec = spec;
  entry.input = in[0];
  if (in.size() > 1) {
    std::unique_ptr<Join> join = make_join(backend, in, spec);
    entry.join = join.get();
    entry.layer = std::move(join);
  } else {
    entry.layer = make_layer(backend, in[0], spec, entries_.size());
  }
  entry.footprint = entry.layer->footprint();
  entry.params = {params_size_, total(entry.footprint.params)};
  entry.state = {state_size_, total(entry.footprint.state)};
  params_size_ = aligned(entry.params.end());
  state_size_ = aligned(entry.state.end());
  entries_.push_back(std::move(entry));
}

Index Network::trainable() const {
  Index sum = 0;
  for (const LayerEntry& entry : entries_)
    if (entry.spec.weights_of.empty()) sum += entry.params.count;
  return sum;
}

std::vector<bool> Network::serving() const {
  std::vector<bool> serves(size(), false);
  serves.back() = true;
  for (std::size_t i = size(); i-- > 0;)
    for (const std::size_t number : wiring_[i])
      if (serves[i] && number > 0 && !is_source(entries_[i].kind)) serves[number - 1] = true;
  return serves;
}

double Network::flop() const {
  double sum = 0;
  for (const LayerEntry& entry : entries_) sum += entry.layer->flop();
  return sum;
}

Index Network::flat_features() const {
  const auto flat = std::ranges::find_if(entries_, [](const LayerEntry& e) { return e.kind == LayerKind::flatten; });
  return flat == entries_.end() ? 0 : flat->output().per_sample();
}

}  // namespace mrmf
