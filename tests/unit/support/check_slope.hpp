// Gradients against central differences along random directions.
#pragma once

#include "layers/spec.hpp"
#include "tests/unit/support/layer_memory.hpp"

namespace mrmf::test {

/// How y depends on x, and on the parameters, each alone; it decides the length of a difference step.
enum class Curvature { linear, kinked, smooth, smooth_kinked };
Curvature curvature_of(LayerKind kind);

struct SlopeCheck {
  Layer& layer;
  const StepContext& step;
  Curvature curvature;
};

/// Checks dx and the parameter gradients of b's layer at b's x and parameters.
void check_slope(const SlopeCheck& check, LayerMemory& b);

}  // namespace mrmf::test
