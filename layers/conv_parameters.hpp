// What a convolution's parameters are, shared by the plain and the fused layer.
#pragma once

#include "layers/layer.hpp"
#include "layers/spec.hpp"

namespace mrmf {

/// "conv 3->30 k4 s1", "... s1 same", "... s1 p1+2" (zeros before + after). Same padding differs per input size.
std::string conv_signature(const ConvGeometry& geometry, int axes, bool same_padding);
/// weight (out, kernel per used axis, in), bias (out)
std::vector<Part> conv_parts(const ConvGeometry& geometry, int axes);
void initialise_conv(const ConvGeometry& geometry, Initialiser initialiser, Rng& rng, Span params);
double conv_flop(const ConvGeometry& geometry);

}  // namespace mrmf
