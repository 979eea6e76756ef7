// `mrmf inspect`: what the model looks like at every resolution of the plan, before anything runs.
#pragma once

#include <string>

#include "src/config/config.hpp"
#include "src/training/memory_estimate.hpp"

namespace mrmf {

/// "1600x3" as the shape of a sample: positions per axis, then channels. ConfigError when it is none.
Shape parse_sample(const std::string& text);

/// Per layer: output shape, parameters, forward FLOP, activation memory, group; totals per resolution; and the memory
/// of a rank in training with this backend. `sample` is the original sample's shape; `held` is not there when the data
/// is not. `ranks`: of the run.
std::string inspect_text(Backend& backend, const Config& config, const Shape& sample,
                         const std::optional<HeldData>& held, int ranks);

}  // namespace mrmf
