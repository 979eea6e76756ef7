// The cuDNN operation graph of a convolution problem, and how memory is bound to its tensors.
#pragma once

#include "kernels/cuda/conv_plan.hpp"

namespace mrmf::cuda {

/// forward: y = conv(x, w) [+ bias]; backward data: dx; backward weights: dw, all in the storage type.
Descriptor make_conv_graph(const ConvProblem& problem, const DeviceModel& device);

/// The pointers of a pass by the ids that make_conv_graph gave the tensors.
ExecutionPlan::Binding bind_conv(ConvPass pass, bool bias, const ConvPointers& pointers);

}  // namespace mrmf::cuda
