// Layers by their kinds and sizes.
#pragma once

#include "layers/spec.hpp"

namespace mrmf::test {

inline LayerSpec layer(LayerKind kind, Index units = 0) {
  LayerSpec spec;
  spec.kind = kind;
  spec.units = units;
  return spec;
}

inline LayerSpec conv(Index units, const Extent& window, const Extent& stride = {0, 0, 0}, bool same = false) {
  LayerSpec spec = layer(LayerKind::conv, units);
  spec.window = window;
  spec.stride = stride;
  spec.same_padding = same;
  return spec;
}

inline LayerSpec batch_norm(float momentum = 0.1F, float epsilon = 1e-5F) {
  LayerSpec spec = layer(LayerKind::batch_norm);
  spec.momentum = momentum;
  spec.epsilon = epsilon;
  return spec;
}

}  // namespace mrmf::test
