#include "layers/spec.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mrmf {
namespace {

void spread(Extent& sizes, int axes) { std::fill(sizes.end() - std::max(axes, 1), sizes.end(), sizes.back()); }

}  // namespace

void resolve_axes(std::vector<LayerSpec>& layers, int axes) {
  for (LayerSpec& spec : layers) {
    const OneForAll given = std::exchange(spec.one_for_all, {});
    if (given.window) spread(spec.window, axes);
    if (given.stride) spread(spec.stride, axes);
    if (given.dilation) spread(spec.dilation, axes);
    if (given.padding) spread(spec.pad_before, axes), spread(spec.pad_after, axes);
  }
}

namespace {

double bound_of(Initialiser initialiser, const Fan& fan) {
  const auto in = static_cast<double>(fan.in);
  switch (initialiser) {
    case Initialiser::pytorch: return std::sqrt(1.0 / in);
    case Initialiser::glorot: return std::sqrt(6.0 / (in + static_cast<double>(fan.out)));
    case Initialiser::he: return std::sqrt(6.0 / in);
  }
  return 0.0;
}

void draw(Rng& rng, double bound, Span values) {
  for (float& value : values) value = static_cast<float>(rng.uniform(-bound, bound));
}

}  // namespace

void initialise_weights(Initialiser initialiser, const Fan& fan, Rng& rng, Span weights, Span biases) {
  const double bound = bound_of(initialiser, fan);
  draw(rng, bound, weights);
  if (initialiser == Initialiser::pytorch)
    draw(rng, bound, biases);
  else
    std::fill(biases.begin(), biases.end(), 0.0F);
}

}  // namespace mrmf
