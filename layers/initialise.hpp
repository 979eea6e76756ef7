// How weights and biases start.
#pragma once

#include "kernels/random.hpp"
#include "kernels/tensor.hpp"
#include "layers/spec.hpp"

namespace mrmf {

/// Connections of one unit: inputs it reads and outputs it feeds, for a convolution times the kernel's positions.
struct Fan {
  Index in, out;
};

/// Uniform in +-bound, drawn in memory order, weights first:
///   pytorch  1/sqrt(fan.in) for weights and biases (torch.nn.Linear and Conv defaults)
///   glorot   sqrt(6/(fan.in + fan.out)), zero biases (Glorot & Bengio 2010, eq. 16; the Keras default)
///   he       sqrt(6/fan.in), zero biases (He et al. 2015)
void initialise_weights(Initialiser initialiser, const Fan& fan, Rng& rng, Span weights, Span biases);

}  // namespace mrmf
