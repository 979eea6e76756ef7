// Every convolution of the two networks at every resolution at which they are trained, as cuDNN gets them.
#pragma once

#include <vector>

#include "kernels/cuda/conv_plan.hpp"

namespace mrmf::cuda {

/// Neuron Inverter and CosmoFlow in one precision: forward, backward data where something below is trained, backward
/// weights. Each problem once. None has a bias: batch norms take care of CosmoFlow's, and the Neuron Inverter's are
/// added by the kernel that pools and rectifies.
std::vector<ConvProblem> network_problems(Precision precision);

}  // namespace mrmf::cuda
