// The interface between batch norm (norm_sums.cpp, norm_relu_pool.cpp) and its loops, which are compiled once per
// instruction set from norm_loops.inl.
//
// Plain data and function pointers only, as in fused_conv_pool.hpp and for the same reason.
#pragma once

namespace mrmf::norm_loops {

/// Batch norm as y = (x - mean) * factor + beta, per channel.
struct Terms {
  const float *mean, *factor, *beta;
};

/// What dx = factor * (g - offset - (x - mean) * slope) needs beside Terms, per channel; g is the gradient of y.
struct DataTerms {
  const float *offset, *slope;
};

/// One line of input positions, channels-last, under activation and average pooling.
struct Line {
  long positions, channels;
  long window, pooled;  ///< along the line: positions in a window, and windows
  float share;          ///< 1 / positions in the whole window
  float slope;          ///< of the activation below 0
};

struct Kernels {
  /// Adds sums of x - shift, then of its squares, over (rows, channels) to sums[2 * channels].
  void (*moments)(long rows, long channels, const float* x, const float* shift, double* sums);
  /// A line of output: y = average of activation(batch norm(x)) over the windows of `count` input lines.
  void (*forward)(const Line&, const Terms&, const float* const* lines, long count, float* y);
  /// Adds the sums of g and of g * (x - mean) over an input line to sums[2 * channels]. dy: the output line's gradient.
  void (*gradients)(const Line&, const Terms&, const float* x, const float* dy, double* sums);
  /// dx of an input line; dy is null for a line that no window holds.
  void (*data)(const Line&, const Terms&, const DataTerms&, const float* x, const float* dy, float* dx);
};

const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace mrmf::norm_loops
