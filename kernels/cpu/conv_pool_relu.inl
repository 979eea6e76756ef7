// The fused convolution + max pool + ReLU for one sample, written with GCC's vector extensions and included once per
// instruction set. The including file includes its instructions_*.inl before; where forward is to multiply in bf16, it
// defines FUSED_BF16, and fused_round() and fused_products() in its own anonymous namespace. Everything here has
// internal linkage.
//
// Forward. In channels-last layout the inputs under an output position are contiguous runs of kernel * in_channels
// floats, one of each line that the kernel covers: a matrix product whose left operand needs no im2col. Four positions
// of one pooling window times several vectors of output channels are accumulated in registers, the maximum over the
// window is taken there, and only the pooled value and its position are stored.
//
// Backward. Only the winner of a window has a gradient, and ReLU silences about half of them, so the gradient is a
// list of (position, channel, value): an eighth of the dense work for a window of four.

namespace mrmf::cpu::fused {
namespace {

#include "kernels/cpu/vectors.inl"

typedef int Mask __attribute__((vector_size(sizeof(int) * lanes)));
typedef int MaskAnywhere __attribute__((vector_size(sizeof(int) * lanes), aligned(4), may_alias));

constexpr long tile_positions = 4;
// Registers: tile_positions * block accumulators, `block` weights, one broadcast input.
constexpr long max_block = (FUSED_REGISTERS - 1) / (tile_positions + 1);
// Registers: the chunk's accumulators and one broadcast value.
constexpr long max_chunk = FUSED_REGISTERS - 1 < 24 ? FUSED_REGISTERS - 1 : 24;

#ifdef FUSED_BF16
// Forward's products in bf16 where FUSED_BF16 is defined. An instruction
// multiplies pairs of neighbouring inputs by pairs of weights and adds both products to a float32 sum: twice as many
// products as a multiply-add of float32 has. Inputs and weights are rounded to the nearest bf16 before.
typedef unsigned short Input;
typedef Input Pair __attribute__((vector_size(4), aligned(2), may_alias));

// The sample in bf16, in f.scratch.
inline const Input* input_of(const Geometry& g, const Forward& f) {
  auto* const to = reinterpret_cast<Input*>(f.scratch);
  const long count = g.in_lines * g.line;
  long i = 0;
  for (; i + lanes <= count; i += lanes) fused_round(f.x + i, to + i);
  float end[lanes] = {};
  for (long rest = i; rest < count; ++rest) end[rest - i] = f.x[rest];
  fused_round(end, to + i);
  return to;
}

// Floats, each of which holds a pair of weights.
inline long packed_field(const Geometry& g) { return g.kernel_lines * ((g.run + 1) / 2); }

// A run's weights in pairs; the last of an odd run has a zero.
void pack_weights(const Geometry& g, const float* w, float* packed) {
  for (long first = 0, block = 0; first < vectors(g.out_channels); first += block) {
    block = next_block(vectors(g.out_channels) - first, max_block);
    for (long line = 0; line < g.kernel_lines; ++line)
      for (long i = 0; i < g.run; i += 2)
        for (long vector = 0; vector < block; ++vector, packed += lanes) {
          float one[lanes] = {}, other[lanes] = {};
          for (long lane = 0; lane < lanes; ++lane) {
            const long o = (first + vector) * lanes + lane, at = o * g.field + line * g.run + i;
            if (o >= g.out_channels) continue;
            one[lane] = w[at];
            if (i + 1 < g.run) other[lane] = w[at + 1];
          }
          Input rounded[2][lanes];
          fused_round(one, rounded[0]);
          fused_round(other, rounded[1]);
          for (long lane = 0; lane < lanes; ++lane)
            reinterpret_cast<Pair*>(packed)[lane] = Pair{rounded[0][lane], rounded[1][lane]};
        }
  }
}

template <long Block, long Positions>
inline __attribute__((always_inline)) const float* add_pairs(const Pair (&x)[Positions], const float* packed,
                                                             Vector (*sum)[Block]) {
  for (long n = 0; n < Block; ++n, packed += lanes) {
    const Vector w = *reinterpret_cast<const Vector*>(packed);
    for (long p = 0; p < Positions; ++p) sum[p][n] = fused_products(sum[p][n], x[p], w);
  }
  return packed;
}

template <long Block, long Positions>
inline __attribute__((always_inline)) const float* add_products(const Geometry& g, const Input* const* x,
                                                                const float* packed, Vector (*sum)[Block]) {
  long i = 0;
  for (; i + 2 <= g.run; i += 2) {
    Pair pairs[Positions];
    for (long p = 0; p < Positions; ++p) pairs[p] = *reinterpret_cast<const Pair*>(x[p] + i);
    packed = add_pairs<Block, Positions>(pairs, packed, sum);
  }
  if (i < g.run) {  // what lies behind the run may be NaN
    Pair pairs[Positions];
    for (long p = 0; p < Positions; ++p) pairs[p] = Pair{x[p][i], 0};
    packed = add_pairs<Block, Positions>(pairs, packed, sum);
  }
  return packed;
}
#else
// How forward reads a sample, packs weights and adds products to sums.
typedef float Input;

inline const Input* input_of(const Geometry&, const Forward& f) { return f.x; }

// Floats that a channel's weights take when they are packed.
inline long packed_field(const Geometry& g) { return g.field; }

void pack_weights(const Geometry& g, const float* w, float* packed) {
  for (long first = 0, block = 0; first < vectors(g.out_channels); first += block) {
    block = next_block(vectors(g.out_channels) - first, max_block);
    for (long i = 0; i < g.field; ++i)
      for (long lane = 0; lane < block * lanes; ++lane, ++packed) {
        const long o = first * lanes + lane;
        *packed = o < g.out_channels ? w[o * g.field + i] : 0.0F;
      }
  }
}

// Adds the products of runs of `x`, one under each of the positions, with one line's weights; returns where the next
// line's are.
template <long Block, long Positions>
inline __attribute__((always_inline)) const float* add_products(const Geometry& g, const Input* const* x,
                                                                const float* packed, Vector (*sum)[Block]) {
  for (long i = 0; i < g.run; ++i, packed += Block * lanes) {
    Vector w[Block];
    for (long n = 0; n < Block; ++n) w[n] = *reinterpret_cast<const Vector*>(packed + n * lanes);
    for (long p = 0; p < Positions; ++p) {
      const Vector v = broadcast(x[p][i]);
      for (long n = 0; n < Block; ++n) sum[p][n] += v * w[n];
    }
  }
  return packed;
}
#endif

void pack_forward(const Geometry& g, const float* w, const float* b, float* packed) {
  pack_weights(g, w, packed);
  float* const bias = packed + g.padded_out * g.field;
  for (long o = 0; o < g.padded_out; ++o) bias[o] = o < g.out_channels ? b[o] : 0.0F;
}

// Running maximum over a window, and where it was first met.
template <long Block>
struct Best {
  Vector value[Block];
  Mask position[Block];
};

inline __attribute__((always_inline)) void take_if_larger(Vector y, int position, Vector& value, Mask& winner) {
  const Mask larger = (y > value) | (y != y);  // NaN wins: it must not be lost
  value = larger ? y : value;
  winner = larger ? position - Mask{} : winner;
}

// Products of Positions inputs with one block of packed weights, taken into `best`; First starts a window.
template <long Block, long Positions, bool First>
inline __attribute__((always_inline)) void take_positions(const Geometry& g, const Input* window, const float* packed,
                                                          long position, Best<Block>& best) {
  Vector sum[Positions][Block] = {};
  const Input* x[Positions];
  for (long p = 0; p < Positions; ++p) x[p] = window + g.input_offset[position + p];
  for (long line = 0; line < g.kernel_lines; ++line) {
    packed = add_products<Block, Positions>(g, x, packed, sum);
    for (long p = 0; p < Positions; ++p) x[p] += g.line;
  }
  if constexpr (First)
    for (long n = 0; n < Block; ++n) {
      best.value[n] = sum[0][n];
      best.position[n] = Mask{};
    }
  for (long p = First ? 1 : 0; p < Positions; ++p)
    for (long n = 0; n < Block; ++n)
      take_if_larger(sum[p][n], static_cast<int>(position + p), best.value[n], best.position[n]);
}

template <long Block>
inline __attribute__((always_inline)) Best<Block> best_of_window(const Geometry& g, const Input* x,
                                                                 const float* packed) {
  Best<Block> best;
  const long count = g.positions;
  long p = 0;
  if (count >= tile_positions) {
    take_positions<Block, tile_positions, true>(g, x, packed, 0, best);
    for (p = tile_positions; p + tile_positions <= count; p += tile_positions)
      take_positions<Block, tile_positions, false>(g, x, packed, p, best);
  } else {
    take_positions<Block, 1, true>(g, x, packed, 0, best);
    p = 1;
  }
  for (; p < count; ++p) take_positions<Block, 1, false>(g, x, packed, p, best);
  return best;
}

// The first `count` of a vector's lanes, as bytes, in halves, quarters and so on.
inline void store_some_bytes(unsigned char* to, long count, Mask ints) {
  unsigned char all[lanes];
  store_bytes(all, ints);
  long at = 0;
#pragma GCC unroll 4
  for (long part = lanes / 2; part > 0; part /= 2)
    if (count & part) __builtin_memcpy(to + at, all + at, static_cast<unsigned long>(part)), at += part;
}

// ReLU of one window's maxima, from output channel `first` on.
inline __attribute__((always_inline)) void store_pooled(const Geometry& g, const Forward& f, Vector y, Mask position,
                                                        long window, long first) {
  y = y < 0 ? Vector{} : y;
  const long at = window * g.out_channels + first, count = g.out_channels - first;
  if (count >= lanes) {
    store(f.y + at, y);
    if (f.winner) store_bytes(f.winner + at, position);
  } else {
    store_some(f.y + at, count, y);
    if (f.winner) store_some_bytes(f.winner + at, count, position);
  }
}

// One row of windows: `x` is where its input begins, f.y and f.winner where it is stored.
template <long Block>
void forward_block(const Geometry& g, const Input* x, const Forward& f, const float* packed, long first) {
  const float* bias = f.packed + g.padded_out * g.field + first;
  for (long window = 0; window < g.windows; ++window) {
    const Best<Block> best = best_of_window<Block>(g, x + window * g.window * g.in_channels, packed);
    for (long n = 0; n < Block; ++n)
      store_pooled(g, f, best.value[n] + *reinterpret_cast<const Vector*>(bias + n * lanes), best.position[n], window,
                   first + n * lanes);
  }
}

void forward(const Geometry& g, const Forward& f) {
  const long count = vectors(g.out_channels);
  const Input* const sample = input_of(g, f);
  for (long row = 0; row < g.window_rows; ++row) {
    const long at = row * g.windows * g.out_channels;
    const Input* const x = sample + row * g.window_lines * g.line;
    const Forward now{f.packed, nullptr, f.y + at, f.winner ? f.winner + at : nullptr, nullptr};
    const float* packed = f.packed;
    for (long first = 0, block = 0; first < count; first += block) {
      block = next_block(count - first, max_block);
      with_constant<max_block>(
          block, [&](auto size) { forward_block<decltype(size)::value>(g, x, now, packed, first * lanes); });
      packed += block * lanes * packed_field(g);
    }
  }
}

#ifndef FUSED_BF16
#include "kernels/cpu/conv_pool_relu_backward.inl"

#include "kernels/cpu/conv_pool_relu_winograd.inl"

const Kernels kernels{lanes,          pack_forward,    pack_backward,   forward,       backward,
                      copy_positions, winograd_serves, winograd_floats, pack_winograd, forward_winograd};
#endif

}  // namespace

#ifdef FUSED_BF16
const Kernels* avx512bf16_kernels() {
  static const Kernels kernels = [] {
    Kernels all = *avx512_kernels();
    all.pack_forward = pack_forward, all.forward = forward;
    return all;
  }();
  return &kernels;
}
#endif

}  // namespace mrmf::cpu::fused
