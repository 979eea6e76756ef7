#include "layers/stem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/errors.hpp"
#include "layers/layer.hpp"
#include "layers/network.hpp"

namespace mrmf {
namespace {

// Several readers would each need to know what to do with the differences.
void require_one_reader(const std::vector<LayerSpec>& layers, const Wiring& wiring, std::size_t output) {
  std::vector<std::string> readers;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (std::ranges::count(wiring[i], output) > 0) readers.push_back(layers[i].name);
  if (readers.size() < 2) return;
  throw ConfigError(fmt::format(
      "{} reads {}, and so does {}: behind a stem it has other channels, and up to the first "
      "convolution each output may have one reader",
      readers[0], output == 0 ? "the network's input" : "what " + layers[output - 1].name + " makes", readers[1]));
}

// The value of basis vector `number` at a position of the window; both count row by row.
double basis(const Extent& ratio, Index number, Index position) {
  double value = 1;
  for (std::size_t axis = ratio.size(); axis-- > 0;) {
    const Index f = ratio[axis], k = number % f, t = position % f;
    const double wave =
        std::cos(std::numbers::pi * (static_cast<double>(t) + 0.5) * static_cast<double>(k) / static_cast<double>(f));
    value *= (k == 0 ? 1.0 : std::numbers::sqrt2) * wave / static_cast<double>(f);
    number /= f;
    position /= f;
  }
  return value;
}

// Rows of `from` channels into rows of `to` or more channels.
void widen(const NamedTensor& from, const NamedTensor& to, ConstSpan x, Span y) {
  const bool one = from.name == "gamma" || from.name == "running_variance";
  const auto in = static_cast<std::size_t>(from.shape.back()), out = static_cast<std::size_t>(to.shape.back());
  MRMF_CHECK(x.size() / in * out == y.size(), "a layer behind a stem with other sizes than before");
  std::ranges::fill(y, one ? 1.0F : 0.0F);
  for (std::size_t row = 0; row < x.size() / in; ++row)
    std::ranges::copy(x.subspan(row * in, in), y.subspan(row * out, in).begin());
}

void give(const StemNetworks& networks, std::vector<NamedTensor> Footprint::*parts, ArenaSpan LayerEntry::*span,
          ConstSpan coarse, Span finer) {
  MRMF_CHECK(networks.finer.size() == networks.coarse.size() + 1, "a network that is not the coarse one and a stem");
  for (std::size_t i = 0; i < networks.coarse.size(); ++i) {
    const LayerEntry &from = networks.coarse.entry(i), &to = networks.finer.entry(i + 1);
    auto x = coarse.subspan(static_cast<std::size_t>((from.*span).first));
    auto y = finer.subspan(static_cast<std::size_t>((to.*span).first));
    for (std::size_t p = 0; p < (from.footprint.*parts).size(); ++p) {
      const NamedTensor &a = (from.footprint.*parts)[p], &b = (to.footprint.*parts)[p];
      const auto count = static_cast<std::size_t>(a.count()), wide = static_cast<std::size_t>(b.count());
      widen(a, b, x.first(count), y.first(wide));
      x = x.subspan(count);
      y = y.subspan(wide);
    }
  }
}

}  // namespace

std::size_t convolution_behind_stem(const std::vector<LayerSpec>& layers) {
  const Wiring wiring = connect(layers);
  for (const LayerSpec& layer : layers)
    if (layer.name == kStemLayer)
      throw ConfigError(
          fmt::format("a layer of the model is called \"{}\", as the one that is put before it; give it "
                      "another name",
                      kStemLayer));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    require_one_reader(layers, wiring, i);
    const LayerKind kind = layers[i].kind;
    if (kind == LayerKind::conv) return i;
    if (kind != LayerKind::batch_norm && !activation_of(kind))
      throw ConfigError(
          fmt::format("{} ({}) comes before the first convolution, where only batch_norm and activations "
                      "treat every channel by itself",
                      layers[i].name, to_string(kind)));
  }
  throw ConfigError("the model has no convolution");
}

std::vector<LayerSpec> behind_stem(std::vector<LayerSpec> layers, const StemWindow& window) {
  convolution_behind_stem(layers);
  LayerSpec stem;
  stem.kind = LayerKind::conv;
  stem.name = kStemLayer;
  stem.units = window.filters();
  stem.window = stem.stride = window.ratio;
  layers.front().from.clear();  // it may have named the input, and reads the stem now
  layers.insert(layers.begin(), stem);
  return layers;
}

BottomSettings new_layers(const std::vector<LayerSpec>& layers) {
  BottomSettings found{.layers = {kStemLayer}};
  const std::size_t conv = convolution_behind_stem(layers);
  for (std::size_t i = 0; i <= conv; ++i) found.layers.push_back(layers[i].name);
  return found;
}

std::vector<float> stem_weights(const StemWindow& window) {
  const Index positions = product(window.ratio), channels = window.channels;
  std::vector<float> weights(static_cast<std::size_t>(window.filters() * positions * channels));
  for (Index number = 0; number < positions; ++number)
    for (Index c = 0; c < channels; ++c)
      for (Index t = 0; t < positions; ++t) {
        const Index filter = number * channels + c;
        weights[static_cast<std::size_t>((filter * positions + t) * channels + c)] =
            static_cast<float>(basis(window.ratio, number, t));
      }
  return weights;
}

void give_params_behind_stem(const StemNetworks& networks, ConstSpan coarse, Span finer) {
  const LayerEntry& stem = networks.finer.entry(0);
  MRMF_CHECK(stem.name == kStemLayer, "a network without a stem");
  const std::vector<float> weights = stem_weights({stem.spec.window, stem.input.channels});
  const Span own = span_at(finer, stem.params);
  std::ranges::fill(own, 0.0F);
  std::ranges::copy(weights, own.begin());
  give(networks, &Footprint::params, &LayerEntry::params, coarse, finer);
}

void give_state_behind_stem(const StemNetworks& networks, ConstSpan coarse, Span finer) {
  give(networks, &Footprint::state, &LayerEntry::state, coarse, finer);
}

void give_moments_behind_stem(const StemNetworks& networks, ConstSpan coarse, Span finer) {
  MRMF_CHECK(!networks.finer.entry(0).top, "the stem is not of the bottom, which begins anew");
  give(networks, &Footprint::params, &LayerEntry::params, coarse, finer);
  for (const LayerEntry& entry : networks.finer.entries())
    if (!entry.top) std::ranges::fill(span_at(finer, entry.params), 0.0F);
}

}  // namespace mrmf
