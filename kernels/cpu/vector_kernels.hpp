// Interfaces between operations and those of their kernels that are compiled for one instruction set:
//
//   fused       convolution + max pool + ReLU (conv_pool_relu.cpp); kernels for every set, and for AVX512-BF16, from
//               conv_pool_relu.inl
//   direct      convolution (direct_conv.cpp); kernels for every set from direct_conv.inl, winograd.inl
//               and winograd_planes.inl, and for AMX from direct_kernels_amx.cpp
//   norm_loops  batch norm (batch_norm_local_contrast_norm.cpp) and group norm (group_norm.cpp); loops for every set
//               from batch_norm.inl
//   local       locally connected layers (locally_connected.cpp); products for every set from locally_connected.inl
//   sparse      gradients of dense layers (skipping_dense.cpp); products for every set from sparse_products.inl
//   fma         how fast a core multiplies and adds (instruction_set.cpp); a loop for every set from fma_loop.inl
//
// Only plain data and function pointers, no functions and no library headers: the linker might keep, for everybody, the
// copy of an inline function that was compiled for AVX-512.
#pragma once

namespace mrmf::cpu::fused {

/// Floats under an output position of a first layer for which backward has loops of its own: its accumulators fit 16
/// registers.
constexpr long max_first_field = 12;

/// One geometry: a convolution of one or two axes (stride 1) followed by max pooling with window = stride. Lines are
/// runs of input positions along the last axis; padding is in them already.
struct Geometry {
  long in_channels, out_channels;
  long kernel_lines, kernel;  ///< positions along both axes
  long window_lines, window;  ///< positions of a pooling window along both axes
  long in_lines, in;          ///< input positions, padding included
  long window_rows, windows;  ///< pooled positions: rows, and windows in a row
  long line;                  ///< floats of an input line: in * in_channels
  long run;                   ///< contiguous floats of a line under one output position: kernel * in_channels
  long padded_run;            ///< run rounded up to whole vectors
  long padded_out;            ///< out_channels rounded up to whole vectors
  long chunk;                 ///< windows that backward takes at a time, so that their input stays in the L1 cache
  long positions;             ///< positions of a window, at most 255
  long input_offset[255];     ///< by position of a window: where its input lies, from the window's own
  long field;                 ///< floats under one output position: kernel_lines * run
  long padded_field;          ///< kernel_lines * padded_run
};

struct ChannelEntry {
  float value;
  int offset;  ///< where the position's input is, from that of the row of windows
};

/// Scratch of one thread. Entries are the nonzero gradients of one chunk of a row of windows, grouped by position of
/// the convolution's output and then again by output channel.
struct Scratch {
  float* gradient;              ///< padded_out: one window's dy where ReLU was active, else 0
  int* code;                    ///< padded_out: the winner, or -1 where there is no gradient
  int* group_begin;             ///< chunk * positions + 1
  float* value;                 ///< chunk * padded_out + one vector
  int* channel;                 ///< chunk * padded_out + one vector
  int* offset;                  ///< chunk * padded_out + one vector: where an entry's input is, as ChannelEntry::offset
  int* channel_end;             ///< out_channels: where a channel's entries end
  ChannelEntry* channel_entry;  ///< out_channels * chunk
  float* x;           ///< in_lines * line + one vector: a sample with its padding, or so that reads may pass its end
  float* dx;          ///< as x or winograd_floats: the data gradient is summed here; forward's scratch
  float* candidates;  ///< chunk * field * 4 (first layer: the inputs that a window's winner chooses from)
  float* dw;          ///< out_channels * padded_field: the sum over this part's samples
  float* db;          ///< padded_out
};

/// One sample. winner may be null in forward.
struct Forward {
  const float* packed;  ///< from pack_forward or pack_winograd
  const float* x;
  float* y;
  unsigned char* winner;
  float*
      scratch;  ///< kernels that multiply in bf16: the sample so, as large as Scratch::x; Winograd's: winograd_floats
};
struct Backward {
  const float* packed;  ///< from pack_backward; null without dx
  const float* x;       ///< readable for one vector past its end
  const float* y;
  const float* dy;
  const unsigned char* winner;
  bool with_dx;  ///< whether scratch.dx is to be computed
};

struct Kernels {
  long lanes;  ///< floats in a vector
  /// Weights in blocks of output channels, for which padded_out * field floats are kept, then the bias: padded_out.
  void (*pack_forward)(const Geometry&, const float* w, const float* b, float* packed);
  /// Weights in chunks of the runs: out_channels * padded_field floats.
  void (*pack_backward)(const Geometry&, const float* w, float* packed);
  void (*forward)(const Geometry&, const Forward&);
  void (*backward)(const Geometry&, const Backward&, const Scratch&);  ///< adds to scratch.dw and .db
  /// Copies positions with their channels. from_step and to_step: floats from one position to the next.
  void (*copy_positions)(long count, long channels, const float* from, long from_step, float* to, long to_step);
  /// Forward by Winograd's algorithm: whether it serves, the scratch that it needs, the weights, for which padded_out *
  /// ((kernel + 3) * in_channels + 1) floats are kept, and forward itself.
  bool (*winograd_serves)(const Geometry&);
  long (*winograd_floats)(const Geometry&);
  void (*pack_winograd)(const Geometry&, const float* w, const float* b, float* packed);
  void (*forward_winograd)(const Geometry&, const Forward&);
};

const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
const Kernels* avx512bf16_kernels();  ///< forward multiplies in bf16; the rest as avx512_kernels()

}  // namespace mrmf::cpu::fused

namespace mrmf::cpu::direct {

/// Moments of outputs, which are added as these are stored: sums of y - shift and then of its squares go to
/// sums[2 * out_channels].
struct Moments {
  const float* shift;
  double* sums;
};

/// A convolution as the kernels see it: a product of the weights with runs of channels-last input. The kernels read
/// copies of the input planes in their own form, padded along the third axis, or along the second as well; or the
/// planes themselves (Kernels::reads_input). Winograd's are for strides of one, no shifts, and outputs side by side.
struct Geometry {
  long in_channels, out_channels;
  long kernel[3];
  long rows, width;                  ///< output positions along the second and third axis: a plane
  long in_rows, in_width;            ///< input positions along the second and third axis
  long rows_before, columns_before;  ///< positions of padding before them
  long row_stride;                   ///< input rows from one output row to the next
  long step;                         ///< floats of input from one output position to the next along the third axis
  long row_shift, column_shift;      ///< where the first tap lies behind the first of the padded plane: rows; floats
  long padded_rows;   ///< rows of a copy, padding included, that lie below each other: of each remainder by row_stride
  long padded_width;  ///< steps in a row of a copy, padding included
  long row;           ///< floats under one output position: kernel along the third axis * in_channels
  long depth;         ///< depth of the whole product: kernel[0] * kernel[1] * row
  long padded_out;    ///< out_channels rounded up to whole vectors
  bool bias;          ///< whether anybody wants the bias's gradient
  bool stream;        ///< write outputs past the caches, where the kernels can (all but the plain ones); requires
                      ///< out_channels % lanes == 0
  long y_row, y_column;    ///< floats of y from one output row to the next, and from one position to the next
  long together;           ///< planes that the kernels take as one: for more than one, kernel[0] is 1
  long there;              ///< how many of these there are: the first ones
  const Moments* moments;  ///< null: not wanted; requires Kernels::adds_moments and out_channels % lanes == 0
};

/// Sizes in floats of the caller's memory for the kernels.
struct Sizes {
  long plane;              ///< the copy of an input plane; zeros before the first copy
  long plane_for_weights;  ///< the same for the weight gradient
  long packed;             ///< weights
  long gradient;           ///< gradient of weights and bias
};

/// Replacement of the input: (x - mean) * factor + beta. Each array is as long as a row of the input plane and repeats
/// the channels' values for every position.
struct Affine {
  const float *mean, *factor, *beta;
};

/// Weights as a pass sees them: w(o, t, i), of out channel o, tap t and in channel i, is first[o * out + taps[t] + i *
/// in]. A data gradient sees the taps mirrored, and the channels exchanged.
struct Weights {
  const float* first;
  long out;
  const long* taps;
  long in;
};

/// Weights in blocks of output channels.
struct PackedWeights {
  const float* blocks;
  const float* bias;  ///< padded_out floats
};

struct Kernels {
  long lanes;         ///< floats in a vector
  bool adds_moments;  ///< whether `forward` can add the moments of its outputs
  /// How many planes it pays to take together: those of few positions leave the registers half empty.
  long (*together)(const Geometry&);
  Sizes (*sizes)(const Geometry&);
  /// Packs the weights of one vector of output channels, from `first` on. Those that are not there get zeros.
  void (*pack)(const Geometry&, const Weights&, long first, float* packed);
  /// Copies an input plane, or those that are taken together, one behind the other in x; map may be null. Without it a
  /// copy may say where the plane is: x stays as it is while the copy is used.
  void (*copy)(const Geometry&, const float* x, const Affine* map, float* plane);
  /// The same in the form that `weights` reads; equal to `copy` where both read one form.
  void (*copy_for_weights)(const Geometry&, const float* x, const Affine* map, float* plane);
  /// Makes one output plane, or those that are taken together, one behind the other in y. planes: kernel[0] copies of
  /// input planes, null for those in the padding. `forward` and `weights` may change scratch of their own in a copy.
  void (*forward)(const Geometry&, float* const* planes, const PackedWeights&, float* y);
  /// Adds the part of one plane, or of those taken together, to the gradient, which has the kernels' own form.
  void (*weights)(const Geometry&, float* const* planes, const float* dy, float* gradient);
  /// Unpacks one vector of output channels, from `first` on: from the parts' summed gradient into dw (out channels,
  /// depth) and, with a bias, db.
  void (*unpack)(const Geometry&, const float* gradient, long first, float* dw, float* db);
  /// Whether `forward` and `weights` take an input plane itself for its copy, and do not write there; null: never.
  bool (*reads_input)(const Geometry&) = nullptr;
};

/// The kernels of one instruction set.
struct KernelSet {
  const Kernels& plain;
  /// For three taps along the third axis, and less padding than taps along the second and third. Half the arithmetic,
  /// about twice the rounding error.
  const Kernels& winograd;
  /// For three by three taps along the second and third axis, with no more padding than `winograd` takes. A third of
  /// the arithmetic; what it gains over one axis is lost again where depth and channels are small.
  const Kernels& winograd_planes;
  /// The same by larger tiles, of four rows: a quarter of the arithmetic, and two to three times the rounding error of
  /// `winograd_planes`. What it gains over those is lost again where few rows are no multiple of four.
  const Kernels& winograd_squares;
};
const KernelSet& generic_kernels();
const KernelSet& avx2_kernels();
const KernelSet& avx512_kernels();

/// Kernels for AMX, of 16 lanes: for rows of multiples of 16 floats of input, and less padding than taps along the
/// second and third axis. fp32: as exact as plain products in float32; winograd: the same for three taps along the
/// second axis, with half of the products and about twice the rounding error; bf16: both factors rounded.
struct AmxKernels {
  const Kernels &fp32, &winograd, &bf16;
};
const AmxKernels& amx_kernels();
/// False in the test that runs the kernels of 16 lanes by AVX2 (tests/unit/support/sixteen_lanes.cpp).
extern const bool sixteen_lanes_need_avx512;

}  // namespace mrmf::cpu::direct

namespace mrmf::cpu::norm_loops {

/// A norm as y = (x - mean) * factor + beta, per channel.
struct Terms {
  const float *mean, *factor, *beta;
};

/// The further terms of dx = scale * (gain * g - offset - (x - mean) * slope), per channel; g is the gradient of y.
struct DataTerms {
  const float *scale, *gain, *offset, *slope;
};

/// One line of input positions, channels-last, under activation and average pooling.
struct Line {
  long positions, channels;
  long window, pooled;  ///< along the line: positions per window, and windows
  float share;          ///< 1 / positions in the whole window
  float slope;          ///< the activation's slope below 0
  long y_stride;        ///< floats from one position of the output line to the next
  bool stream;          ///< write y or dx past the caches; requires channels % lanes == 0
};

struct Kernels {
  /// Adds sums of x - shift and then of its squares, over (rows, channels), to sums[2 * channels].
  void (*moments)(long rows, long channels, const float* x, const float* shift, double* sums);
  /// Makes an output line: y = average of activation(batch norm(x)) over the windows of `count` input lines.
  void (*forward)(const Line&, const Terms&, const float* const* lines, long count, float* y);
  /// The same with pooling, and keeps for each output what its window adds to the sums of gradients for a dy of 1: the
  /// sum of the activation's slopes, and that of their products with x - mean, (window, 2, channels).
  void (*forward_keeping)(const Line&, const Terms&, const float* const* lines, long count, float* y, float* kept);
  /// What gradients() adds over so many windows, of what was kept. share: 1 / positions in a window.
  void (*kept_gradients)(long windows, long channels, float share, const float* kept, const float* dy, double* sums);
  /// Adds the sums of g and of g * (x - mean) over an input line to sums[2 * channels]. dy: the output line's gradient.
  void (*gradients)(const Line&, const Terms&, const float* x, const float* dy, double* sums);
  /// Without pooling, of a norm to whose output a shortcut is added before the activation: y = activation(batch norm(x)
  /// + shortcut). y may be over the shortcut.
  void (*forward_adding)(const Line&, const Terms&, const float* x, const float* shortcut, float* y);
  /// Makes the gradient g of that sum, and adds its sums as gradients() does. g may be over dy.
  void (*gradients_adding)(const Line&, const Terms&, const float* x, const float* y, const float* dy, float* g,
                           double* sums);
  /// Makes dx of an input line. dy is null when no window holds the line.
  void (*data)(const Line&, const Terms&, const DataTerms&, const float* x, const float* dy, float* dx);
};

const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace mrmf::cpu::norm_loops

namespace mrmf::cpu::sparse {

constexpr int group_rows = 4;
constexpr int group_sets = 1 << group_rows;
constexpr long most_depth = 512;  ///< columns of a group: rows of B in a panel, which stays in the L2 cache

/// Four rows of a matrix A with many zeros: for each set of these rows but the empty one (row r is in set s where s has
/// bit r), the columns of A in which exactly the rows of the set are not zero; and for each row of the set what it has
/// there, one list behind the other, each with a vector's room behind it.
struct Group {
  int begin[group_sets];  ///< the columns of set s are [begin[s - 1], begin[s])
  const int* column;
  const float* value;
};

struct Kernels {
  long lanes;    ///< floats in a vector
  long columns;  ///< of a panel: columns of B, and of C = A B
  /// Lists `depth` columns of four rows, most_depth floats from one to the next. Up to a whole vector, columns behind
  /// them are zeros. Takes depth + lanes columns and group_rows * depth + 2 * group_sets * lanes values.
  void (*list)(long depth, const float* rows, int* column, float* value, Group&);
  /// Copies `columns` columns, at most a panel's, of `depth` rows of B, and zeros for those that are not there. b and
  /// pitch: the first, and floats from one row to the next.
  void (*pack)(long depth, long columns, const float* b, long pitch, float* panel);
  /// c(4, columns of a panel) = A's group times the panel, or adds that to c. pitch: floats from one row of c to the
  /// next.
  void (*multiply)(const Group&, const float* panel, bool add, float* c, long pitch);
};

const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace mrmf::cpu::sparse

namespace mrmf::cpu::local {

/// The products of one output position of a locally connected layer, on a part of its field.
struct Product {
  long rows, features;
  long depth;             ///< floats of the part
  long w_pitch;           ///< floats from one feature's weights to the next's
  long x_pitch;           ///< from one row's x or dx to the next's
  long y_pitch;           ///< from one row's y or dy to the next's: `features`, or more where these are some of them
  bool readable = false;  ///< whether memory may be read for a vector behind the last feature's weights
  /// Weights (features, next_pitch) that are needed soon and asked for meanwhile; null: none. They lie in many short
  /// runs, whose beginnings the processor does not foresee.
  const float* next = nullptr;
  long next_pitch = 0;
};

/// Runs of floats of every row.
struct Runs {
  long rows, count;
  long floats;             ///< floats of a run
  const long* begins;      ///< where each run begins in a row
  long x_pitch, to_pitch;  ///< from one row to the next
};

/// The same products on rows that lie in panels (locally_connected.inl).
struct PanelProduct {
  long rows, features, depth;
  long w_pitch;
  long x_first, x_length;  ///< the first value of x or dx that is meant, and how many values its panels have
  const float* next = nullptr;
  long next_pitch = 0;
};

/// Some floats of every row, and the panels that have them all.
struct PanelRun {
  long rows, floats;
  long x_pitch;  ///< from one row to the next
};

/// What becomes of a gradient: dw = scale * sum, or dw += scale * sum.
struct Target {
  float scale;
  bool add;
};

struct Kernels {
  long lanes;  ///< floats in a vector
  /// y(rows, y_pitch) += x w^T. Nothing behind `depth` is read, so a NaN there reaches no sum.
  void (*outputs)(const Product&, const float* w, const float* x, float* y);
  /// dx(rows, x_pitch) += dy w
  void (*inputs)(const Product&, const float* w, const float* dy, float* dx);
  /// dw(features, w_pitch) from dy^T x. Vectors of x may be read as far as they go.
  void (*weights)(const Product&, const Target&, const float* x, const float* dy, float* dw);
  /// Copies runs of every row, one behind the other, and writes zeros behind them as far as the last vector goes.
  void (*copy)(const Runs&, const float* x, float* to);
  /// The first two with x or dx (x_length values) and y or dy (`features` values) in panels, and the ways between rows
  /// and panels: panels = x, x = panels and x += panels. Panels take memory for whole vectors of rows.
  void (*panel_outputs)(const PanelProduct&, const float* w, const float* x, float* y);
  void (*panel_inputs)(const PanelProduct&, const float* w, const float* dy, float* dx);
  void (*to_panels)(const PanelRun&, const float* x, float* panels);
  void (*from_panels)(const PanelRun&, const float* panels, float* x);
  void (*add_panels)(const PanelRun&, const float* panels, float* x);
};

const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();

}  // namespace mrmf::cpu::local

namespace mrmf::cpu::fma {

struct Loop {
  long values;  ///< floats that run() needs: where the sums begin, a factor and a term
  long flop;    ///< operations of a round
  void (*run)(long rounds, float* values);
};

const Loop* generic_loop();
const Loop* avx2_loop();
const Loop* avx512_loop();

}  // namespace mrmf::cpu::fma
