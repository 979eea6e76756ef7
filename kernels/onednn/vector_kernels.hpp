// The interface between the fused convolution + max pool + ReLU (fused_conv_pool.cpp) and its kernels, which are
// compiled once per instruction set from fused_conv_pool.inl.
//
// Plain data and function pointers only, no functions and no library headers: an inline function instantiated in a
// file compiled for AVX-512 could be the copy the linker keeps for everybody.
#pragma once

namespace mrmf::fused {

/// One geometry: a 1-D convolution (stride 1, no padding) followed by max pooling with window = stride.
/// `row` is the contiguous run of channels-last input under one output position: kernel * in_channels.
struct Geometry {
  long in_channels, out_channels, kernel, pool;
  long in;       ///< input positions per sample
  long windows;  ///< pooled positions per sample
  long row;
  long padded_row;  ///< row rounded up to whole vectors
  long padded_out;  ///< out_channels rounded up to whole vectors
  long chunk;       ///< windows the backward takes at a time, so that the input it reads stays in the L1 cache
};

/// Scratch of one thread. Entries are the nonzero gradients of one chunk, grouped by position of the convolution's
/// output, and then once more by output channel.
struct Scratch {
  float* gradient;       ///< padded_out: one window's dy where ReLU was active, else 0
  int* code;             ///< padded_out: the winner, or -1 where there is no gradient
  int* group_begin;      ///< chunk * pool + 1
  float* value;          ///< chunk * padded_out + one vector
  int* channel;          ///< the same
  int* channel_count;    ///< out_channels
  float* channel_value;  ///< out_channels * chunk
  int* channel_offset;   ///< the same; offset of the input row inside the sample
  float* x;              ///< in * in_channels + one vector: a copy of the last sample, for reading past its end
  float* dx;             ///< the same; the data gradient is summed here
  float* candidates;     ///< chunk * row * 4 (first layer: the inputs that a window's winner chooses from)
  float* dw;             ///< out_channels * padded_row: this thread's sum over samples
  float* db;             ///< padded_out
};

/// One sample. winner may be null in forward; dx may be null in backward.
struct Forward {
  const float* packed;  ///< from pack_forward
  const float* x;
  float* y;
  unsigned char* winner;
};
struct Backward {
  const float* packed;  ///< from pack_backward; null when dx is
  const float* x;       ///< readable for one vector past its end
  const float* y;
  const float* dy;
  const unsigned char* winner;
  float* dx;
};

struct Kernels {
  long lanes;  ///< floats in a vector
  /// Weights in blocks of output channels, then the bias: padded_out * (row + 1) floats.
  void (*pack_forward)(const Geometry&, const float* w, const float* b, float* packed);
  /// Weights in chunks of the row: out_channels * padded_row floats.
  void (*pack_backward)(const Geometry&, const float* w, float* packed);
  void (*forward)(const Geometry&, const Forward&);
  void (*backward)(const Geometry&, const Backward&, const Scratch&);  ///< adds to scratch.dw and scratch.db
};

const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace mrmf::fused
