#include "layers/spec.hpp"

#include <algorithm>
#include <utility>

namespace mrmf {
namespace {

void spread(Extent& sizes, int axes) { std::fill(sizes.end() - std::max(axes, 1), sizes.end(), sizes.back()); }

}  // namespace

std::string to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::conv: return "conv";
    case LayerKind::max_pool: return "max_pool";
    case LayerKind::average_pool: return "average_pool";
    case LayerKind::batch_norm: return "batch_norm";
    case LayerKind::flatten: return "flatten";
    case LayerKind::dense: return "dense";
    case LayerKind::relu: return "relu";
    case LayerKind::leaky_relu: return "leaky_relu";
    case LayerKind::tanh: return "tanh";
    case LayerKind::dropout: return "dropout";
  }
  return "unknown";
}

void settle_axes(std::vector<LayerSpec>& layers, int axes) {
  for (LayerSpec& spec : layers) {
    const OneForAll given = std::exchange(spec.one_for_all, {});
    if (given.window) spread(spec.window, axes);
    if (given.stride) spread(spec.stride, axes);
    if (given.padding) spread(spec.pad_before, axes), spread(spec.pad_after, axes);
  }
}

}  // namespace mrmf
