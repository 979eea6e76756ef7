// Every convolution of the two networks at every resolution at which they are trained, as cuDNN gets them.
#pragma once

#include <vector>

#include "kernels/cuda/conv_plan.hpp"

namespace mrmf::cuda {

/// Neuron Inverter and CosmoFlow in one precision: forward with bias, backward data where something below is trained,
/// backward weights. Each problem once.
std::vector<ConvProblem> network_problems(Precision precision);

}  // namespace mrmf::cuda
