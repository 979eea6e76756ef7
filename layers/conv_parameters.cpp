#include "layers/conv_parameters.hpp"

#include <fmt/format.h>

#include "layers/geometry.hpp"
#include "layers/initialise.hpp"

namespace mrmf {

std::string conv_signature(const ConvGeometry& g, int axes, bool same_padding) {
  std::string padding;
  if (same_padding)
    padding = " same";
  else if (g.pad_before != Extent{} || g.pad_after != Extent{})
    padding = fmt::format(" p{}+{}", to_string(g.pad_before, axes), to_string(g.pad_after, axes));
  return fmt::format("conv {}->{} k{} s{}{}", g.in_channels, g.out_channels, to_string(g.kernel, axes),
                     to_string(g.stride, axes), padding);
}

std::vector<Part> conv_parts(const ConvGeometry& g, int axes) {
  std::vector<Index> shape{g.out_channels};
  shape.insert(shape.end(), g.kernel.end() - axes, g.kernel.end());
  shape.push_back(g.in_channels);
  return {{"weight", shape}, {"bias", {g.out_channels}}};
}

void initialise_conv(const ConvGeometry& g, Initialiser initialiser, Rng& rng, Span params) {
  const Fan fan{product(g.kernel) * g.in_channels, product(g.kernel) * g.out_channels};
  const auto weights = static_cast<std::size_t>(g.weights());
  initialise_weights(initialiser, fan, rng, params.first(weights), params.subspan(weights));
}

double conv_flop(const ConvGeometry& g) {
  return 2.0 * static_cast<double>(product(g.out())) * static_cast<double>(g.weights());
}

}  // namespace mrmf
