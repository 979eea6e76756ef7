// The products of a convolution's kernels, in registers. Included inside an anonymous namespace; the including
// file defines VECTOR_LANES and DIRECT_TILE.
//
// Their left operand, the runs of input under the positions, needs no im2col: DIRECT_TILE positions (or floats of the
// depth) times two vectors of output channels are accumulators. 6 times 2 of the 16 registers of AVX2 fill the two
// multiply-add units from 8 loads; AVX-512 has 32 registers, and 12 times 2 need 14 loads for twice as many products.

#include "kernels/cpu/vectors.inl"

constexpr long tile = DIRECT_TILE;  // broadcast floats: positions in forward, depth in the weight gradient
constexpr long block = 2;           // vectors of output channels

inline long one_plane(const Geometry&) { return 1; }

// Calls body(first output channel, Constant<vectors in the block>) for every block.
template <class Body>
inline void for_blocks(const Geometry& g, const Body& body) {
  for (long first = 0; first < g.padded_out; first += block * lanes)
    with_constant<block>((g.padded_out - first) / lanes, [&](auto count) { body(first, count); });
}

// The weights of a tap and an in channel for the vector of out channels from `first` on.
inline Vector weights_at(const Geometry& g, const Weights& w, long first, long tap, long in) {
  const float* from = w.first + first * w.out + w.taps[tap] + in * w.in;
  const long there = g.out_channels - first;
  if (w.out == 1 && there >= lanes) return load(from);
  Vector v{};
  for (long o = 0; o < lanes && o < there; ++o) v[o] = from[o * w.out];
  return v;
}

// Where the vector of out channels from `first` on lies in packed weights: in its block, whose rows are `row` floats
// apart. depth: of all products of a block.
struct PackedVector {
  float* to;
  long row;
  PackedVector(const Geometry& g, long first, long depth, float* packed) {
    constexpr long most = block * lanes;
    const long begin = first / most * most, left = g.padded_out - begin;
    row = left < most ? left : most;
    to = packed + begin * depth + first - begin;
  }
};

// The moments of a block's outputs, over a few positions in floats: as batch norm's loops sum (batch_norm.inl).
template <long Block>
struct BlockMoments {
  const Moments* to;
  long first, channels;  // the block's first channel, and all of the output's
  Vector shift[Block], sum[Block], squares[Block];

  BlockMoments(const Geometry& g, long channel) : to(g.moments), first(channel), channels(g.out_channels) {
    for (long n = 0; n < Block; ++n) {
      sum[n] = squares[n] = Vector{};
      shift[n] = to != nullptr ? load(to->shift + first + n * lanes) : Vector{};
    }
  }
  // An output of vector n.
  void add(long n, const Vector& v) {
    const Vector d = v - shift[n];
    sum[n] += d;
    squares[n] += d * d;
  }
  void flush() const {
    if (to == nullptr) return;
    for (long n = 0; n < Block; ++n)
      for (long c = 0; c < lanes; ++c) {
        to->sums[first + n * lanes + c] += static_cast<double>(sum[n][c]);
        to->sums[channels + first + n * lanes + c] += static_cast<double>(squares[n][c]);
      }
  }
};

// Calls body(Constant<step>) for distances that are usual, else with 0.
template <class Body>
inline void with_step(long step, const Body& body) {
  switch (step) {
    case 4: return body(Constant<4>{});
    case 16: return body(Constant<16>{});
    case 32: return body(Constant<32>{});
    case 64: return body(Constant<64>{});
    case 128: return body(Constant<128>{});
    default: return body(Constant<0>{});
  }
}

// Count neighbouring positions of an output row, Block vectors of output channels: `at` is where their input begins in
// the padded planes. Step: g.step where the compiler shall know it: else a position needs an address of its own.
struct TilePosition {
  const float* const* planes;
  long row, column;
};
template <long Block, long Count, long Step = 0>
inline void forward_tile(const Geometry& g, const TilePosition& at, const float* packed, const float* bias, float* y) {
  Vector sum[Count][Block];
#pragma GCC unroll 12
  for (long p = 0; p < Count; ++p)
    for (long n = 0; n < Block; ++n) sum[p][n] = load(bias + n * lanes);
  const long step = Step > 0 ? Step : g.step;
  for (long i = 0; i < g.kernel[0]; ++i) {
    for (long j = 0; j < g.kernel[1]; ++j, packed += g.row * Block * lanes) {
      const long row = at.row * g.row_stride + j + g.row_shift - g.rows_before;
      if (at.planes[i] == nullptr || row < 0 || row >= g.in_rows) continue;
      const float* x = at.planes[i] + (row * g.padded_width + at.column) * step + g.column_shift;
#pragma GCC unroll 4
      for (long r = 0; r < g.row; ++r) {
        Vector w[Block];
        for (long n = 0; n < Block; ++n) w[n] = load(packed + (r * Block + n) * lanes);
#pragma GCC unroll 12
        for (long p = 0; p < Count; ++p) {
          const Vector v = broadcast(x[p * step + r]);
          for (long n = 0; n < Block; ++n) sum[p][n] += v * w[n];
        }
      }
    }
  }
#pragma GCC unroll 12
  for (long p = 0; p < Count; ++p)
    for (long n = 0; n < Block; ++n) store(y + p * g.y_column + n * lanes, sum[p][n]);
}

// dw[r, first ...] += sum over the positions of these rows of x[position, r] * dy[position, first ...], Count of r.
struct Window {
  const float *x, *dy;
  long rows;
};
template <long Block, long Count>
inline void weights_tile(const Geometry& g, const Window& w, float* dw) {
  Vector sum[Count][Block];
#pragma GCC unroll 12
  for (long r = 0; r < Count; ++r)
    for (long n = 0; n < Block; ++n) sum[r][n] = load(dw + r * g.out_channels + n * lanes);
  for (long row = 0; row < w.rows; ++row) {
    const float* x = w.x + row * g.row_stride * g.padded_width * g.step;
    const float* dy = w.dy + row * g.width * g.out_channels;
    for (long p = 0; p < g.width; ++p, x += g.step, dy += g.out_channels) {
      Vector d[Block];
      for (long n = 0; n < Block; ++n) d[n] = load(dy + n * lanes);
#pragma GCC unroll 12
      for (long r = 0; r < Count; ++r) {
        const Vector v = broadcast(x[r]);
        for (long n = 0; n < Block; ++n) sum[r][n] += v * d[n];
      }
    }
  }
#pragma GCC unroll 12
  for (long r = 0; r < Count; ++r)
    for (long n = 0; n < Block; ++n) store(dw + r * g.out_channels + n * lanes, sum[r][n]);
}

void add_bias(const Geometry& g, const float* dy, long positions, float* db) {
  for (long first = 0; first < g.out_channels; first += lanes) {
    Vector sum = load(db + first);
    for (long p = 0; p < positions; ++p) sum += load(dy + p * g.out_channels + first);
    store(db + first, sum);
  }
}

// Whether any output row reads an input row.
inline bool is_read(const Geometry& g, long row) {
  return g.row_stride == 1 || (row + g.rows_before) % g.row_stride < g.kernel[1];
}

inline void copy_row(const float* x, long width, const Affine* map, float* to) {
  if (map == nullptr)
    __builtin_memcpy(to, x, static_cast<unsigned long>(width) * sizeof(float));
  else
    for (long i = 0; i < width; ++i) to[i] = (x[i] - map->mean[i]) * map->factor[i] + map->beta[i];
}
