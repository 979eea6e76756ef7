// `mrmf inspect`: what the model looks like at every resolution of the plan, before anything runs.
#pragma once

#include <string>

#include "src/config.hpp"

namespace mrmf {

/// "1600x3" as the shape of a sample: positions per axis, then channels. ConfigError when it is none.
Shape parse_sample(const std::string& text);

/// Per layer: output shape, parameters, forward FLOP, activation memory, group; and totals per resolution.
/// `sample` is the original sample's shape.
std::string inspect_text(const Config& config, const Shape& sample);

}  // namespace mrmf
