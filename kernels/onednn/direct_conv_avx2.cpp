// The direct convolution for AVX2 with FMA, by GCC's vector extensions.
//
// Both kernels are products whose left operand, the runs of input under the positions, needs no im2col: 6 positions (or
// 6 floats of the depth) times two vectors of output channels are 12 accumulators, which fill the two multiply-add
// units from 8 loads.
#include "kernels/onednn/direct_conv.hpp"

#define VECTOR_LANES 8

namespace mrmf::direct {
namespace {

#include "kernels/onednn/vectors.inl"

constexpr long tile = 6;   // broadcast floats: positions in forward, depth in the weight gradient
constexpr long block = 2;  // vectors of output channels

// Calls body(first output channel, Constant<vectors in the block>) for every block.
template <class Body>
inline void for_blocks(const Geometry& g, const Body& body) {
  for (long first = 0; first < g.padded_out; first += block * lanes)
    with_constant<block>((g.padded_out - first) / lanes, [&](auto count) { body(first, count); });
}

void pack(const Geometry& g, const float* w, float* packed) {
  for_blocks(g, [&](long first, auto count) {
    for (long r = 0; r < g.depth; ++r)
      for (long o = first; o < first + decltype(count)::value * lanes; ++o)
        *packed++ = o < g.out_channels ? w[o * g.depth + r] : 0.0F;
  });
}

void pack_mirrored(const Geometry& g, const float* w, float* packed) {
  const long taps = g.depth / g.in_channels;
  for_blocks(g, [&](long first, auto count) {
    for (long t = taps - 1; t >= 0; --t)
      for (long i = 0; i < g.in_channels; ++i)
        for (long o = first; o < first + decltype(count)::value * lanes; ++o)
          *packed++ = o < g.out_channels ? w[(i * taps + t) * g.out_channels + o] : 0.0F;
  });
}

// The part of an output plane's rows for which the input row under kernel row k is there.
struct Rows {
  long begin, end;
};
inline Rows inside(const Geometry& g, long k) {
  const long begin = g.rows_before - k, end = g.in_rows + g.rows_before - k;
  return {begin > 0 ? begin : 0, end < g.rows ? end : g.rows};
}

// One row of output at `at` floats into the padded input rows: Count positions, Block vectors of output channels.
struct Place {
  const float* const* planes;
  long row, column;
};
template <long Block, long Count>
inline void forward_tile(const Geometry& g, const Place& at, const float* packed, const float* bias, float* y) {
  Vector sum[Count][Block];
  for (long p = 0; p < Count; ++p)
    for (long n = 0; n < Block; ++n) sum[p][n] = load(bias + n * lanes);
  for (long i = 0; i < g.kernel[0]; ++i) {
    for (long j = 0; j < g.kernel[1]; ++j, packed += g.row * Block * lanes) {
      const long row = at.row + j - g.rows_before;
      if (at.planes[i] == nullptr || row < 0 || row >= g.in_rows) continue;
      const float* x = at.planes[i] + (row * g.padded_width + at.column) * g.in_channels;
      for (long r = 0; r < g.row; ++r) {
        Vector w[Block];
        for (long n = 0; n < Block; ++n) w[n] = load(packed + (r * Block + n) * lanes);
        for (long p = 0; p < Count; ++p) {
          const Vector v = broadcast(x[p * g.in_channels + r]);
          for (long n = 0; n < Block; ++n) sum[p][n] += v * w[n];
        }
      }
    }
  }
  const long channels = g.out_channels;
  for (long p = 0; p < Count; ++p)
    for (long n = 0; n < Block; ++n) store(y + p * channels + n * lanes, sum[p][n]);
}

// The last vector of channels may not be whole: its tile goes through a buffer.
template <long Block, long Count>
inline void forward_part(const Geometry& g, const Place& at, const float* packed, const float* bias, float* y,
                         long channels) {
  float whole[Count * Block * lanes];
  Geometry dense = g;
  dense.out_channels = Block * lanes;
  forward_tile<Block, Count>(dense, at, packed, bias, whole);
  for (long p = 0; p < Count; ++p)
    for (long c = 0; c < channels; ++c) y[p * g.out_channels + c] = whole[p * Block * lanes + c];
}

void forward(const Geometry& g, const float* const* planes, const PackedWeights& w, float* y) {
  for_blocks(g, [&](long first, auto count) {
    constexpr long size = decltype(count)::value;
    const float* packed = w.blocks + first * g.depth;
    const long channels = g.out_channels - first;
    for (long row = 0; row < g.rows; ++row)
      for (long column = 0, positions = 0; column < g.width; column += positions) {
        positions = next_block(g.width - column, tile);
        float* to = y + (row * g.width + column) * g.out_channels + first;
        with_constant<tile>(positions, [&](auto n) {
          constexpr long positions_now = decltype(n)::value;
          if (channels >= size * lanes)
            forward_tile<size, positions_now>(g, {planes, row, column}, packed, w.bias + first, to);
          else
            forward_part<size, positions_now>(g, {planes, row, column}, packed, w.bias + first, to, channels);
        });
      }
  });
}

// dw[r, first ...] += sum over the positions of these rows of x[position, r] * dy[position, first ...], Count of r.
struct Window {
  const float *x, *dy;
  long rows;
};
template <long Block, long Count>
inline void weights_tile(const Geometry& g, const Window& w, float* dw) {
  Vector sum[Count][Block];
  for (long r = 0; r < Count; ++r)
    for (long n = 0; n < Block; ++n) sum[r][n] = load(dw + r * g.out_channels + n * lanes);
  for (long row = 0; row < w.rows; ++row) {
    const float* x = w.x + row * g.padded_width * g.in_channels;
    const float* dy = w.dy + row * g.width * g.out_channels;
    for (long p = 0; p < g.width; ++p, x += g.in_channels, dy += g.out_channels) {
      Vector d[Block];
      for (long n = 0; n < Block; ++n) d[n] = load(dy + n * lanes);
      for (long r = 0; r < Count; ++r) {
        const Vector v = broadcast(x[r]);
        for (long n = 0; n < Block; ++n) sum[r][n] += v * d[n];
      }
    }
  }
  for (long r = 0; r < Count; ++r)
    for (long n = 0; n < Block; ++n) store(dw + r * g.out_channels + n * lanes, sum[r][n]);
}

// The rows [begin, end) of an output plane against one kernel row of one input plane.
void weights_rows(const Geometry& g, const Window& w, float* dw) {
  for_blocks(g, [&](long first, auto count) {
    constexpr long size = decltype(count)::value;
    for (long r = 0, floats = 0; r < g.row; r += floats) {
      floats = next_block(g.row - r, tile);
      with_constant<tile>(floats, [&](auto n) {
        weights_tile<size, decltype(n)::value>(g, {w.x + r, w.dy + first, w.rows}, dw + r * g.out_channels + first);
      });
    }
  });
}

void bias_rows(const Geometry& g, const float* dy, long positions, float* db) {
  for (long first = 0; first < g.out_channels; first += lanes) {
    Vector sum = load(db + first);
    for (long p = 0; p < positions; ++p) sum += load(dy + p * g.out_channels + first);
    store(db + first, sum);
  }
}

// Takes so many rows at a time that dy stays in the L1 cache while all of the kernel passes over it.
void weights(const Geometry& g, const float* const* planes, const float* dy, float* dw, float* db) {
  constexpr long dy_floats = 16 * 1024 / sizeof(float);
  const long most = dy_floats / (g.width * g.out_channels), step = most < 1 ? 1 : most;
  for (long first = 0; first < g.rows; first += step) {
    const long last = first + step < g.rows ? first + step : g.rows;
    for (long i = 0; i < g.kernel[0]; ++i) {
      if (planes[i] == nullptr) continue;
      for (long j = 0; j < g.kernel[1]; ++j) {
        const Rows there = inside(g, j);
        const long begin = first > there.begin ? first : there.begin, end = last < there.end ? last : there.end;
        if (begin >= end) continue;
        const float* x = planes[i] + (begin + j - g.rows_before) * g.padded_width * g.in_channels;
        weights_rows(g, {x, dy + begin * g.width * g.out_channels, end - begin},
                     dw + (i * g.kernel[1] + j) * g.row * g.out_channels);
      }
    }
    bias_rows(g, dy + first * g.width * g.out_channels, (last - first) * g.width, db);
  }
}

const Kernels kernels{lanes, pack, pack_mirrored, forward, weights};

}  // namespace

const Kernels* avx2_kernels() { return &kernels; }

}  // namespace mrmf::direct
