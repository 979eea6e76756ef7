// The direct convolution, by GCC's vector extensions. Included once per instruction set, inside a namespace of its own.
//
// Both kernels are products of direct_tiles.inl over padded copies of the input planes, or over planes that need no
// padding.

#include "kernels/cpu/direct_tiles.inl"

Sizes sizes(const Geometry& g) {
  const long plane = g.in_rows * g.padded_width * g.step;
  return {plane, plane, g.depth * g.padded_out, (g.depth + 1) * g.out_channels};
}

void pack(const Geometry& g, const Weights& w, long first, float* packed) {
  const PackedVector at(g, first, g.depth, packed);
  float* to = at.to;
  for (long tap = 0; tap < g.depth / g.in_channels; ++tap)
    for (long in = 0; in < g.in_channels; ++in, to += at.row) store(to, weights_at(g, w, first, tap, in));
}

// The rows of an output plane for which kernel row k has an input row.
struct Rows {
  long begin, end;
};
inline Rows inside(const Geometry& g, long k) {
  const auto rows_until = [&g](long row) { return row > 0 ? (row + g.row_stride - 1) / g.row_stride : 0; };
  const long end = rows_until(g.in_rows + g.rows_before - k);
  return {rows_until(g.rows_before - k), end < g.rows ? end : g.rows};
}

// A last vector of channels that is not whole goes through a buffer.
template <long Block, long Count>
inline void forward_part(const Geometry& g, const TilePosition& at, const float* packed, const float* bias, float* y,
                         long channels) {
  float whole[Count * Block * lanes];
  Geometry dense = g;
  dense.y_column = Block * lanes;
  forward_tile<Block, Count>(dense, at, packed, bias, whole);
  for (long p = 0; p < Count; ++p)
    for (long c = 0; c < channels; ++c) y[p * g.y_column + c] = whole[p * Block * lanes + c];
}

// All output rows, for the block of channels from `first` on.
template <long Block, long Step>
void forward_rows(const Geometry& g, const float* const* planes, const PackedWeights& w, long first, float* y) {
  const float *const packed = w.blocks + first * g.depth, *const bias = w.bias + first;
  const long channels = g.out_channels - first;
  for (long row = 0; row < g.rows; ++row)
    for (long column = 0, positions = 0; column < g.width; column += positions) {
      positions = next_block(g.width - column, tile);
      float* to = y + row * g.y_row + column * g.y_column + first;
      with_constant<tile>(positions, [&](auto n) {
        constexpr long positions_now = decltype(n)::value;
        if (channels >= Block * lanes)
          forward_tile<Block, positions_now, Step>(g, {planes, row, column}, packed, bias, to);
        else
          forward_part<Block, positions_now>(g, {planes, row, column}, packed, bias, to, channels);
      });
    }
}

void forward(const Geometry& g, float* const* planes, const PackedWeights& w, float* y) {
  for_blocks(g, [&](long first, auto count) {
    with_step(g.step,
              [&](auto step) { forward_rows<decltype(count)::value, decltype(step)::value>(g, planes, w, first, y); });
  });
}

// Rows of an output plane with one kernel row of one input plane.
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

// Takes only so many rows at a time that dy stays in the L1 cache while the whole kernel passes over it.
void weights(const Geometry& g, float* const* planes, const float* dy, float* gradient) {
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
        const float* x = planes[i] + (begin * g.row_stride + j - g.rows_before) * g.padded_width * g.step;
        weights_rows(g, {x, dy + begin * g.width * g.out_channels, end - begin},
                     gradient + (i * g.kernel[1] + j) * g.row * g.out_channels);
      }
    }
    if (g.bias)
      add_bias(g, dy + first * g.width * g.out_channels, (last - first) * g.width, gradient + g.depth * g.out_channels);
  }
}

void copy(const Geometry& g, const float* x, const Affine* map, float* plane) {
  const long width = g.in_width * g.in_channels;
  float* to = plane + g.columns_before * g.in_channels;
  for (long r = 0; r < g.in_rows; ++r, x += width, to += g.padded_width * g.step)
    if (is_read(g, r)) copy_row(x, width, map, to);
}

void unpack(const Geometry& g, const float* gradient, long first, float* dw, float* db) {
  for (long o = first; o < first + lanes; ++o) {
    for (long r = 0; r < g.depth; ++r) dw[o * g.depth + r] = gradient[r * g.out_channels + o];
    if (g.bias) db[o] = gradient[g.depth * g.out_channels + o];
  }
}

// Rows without padding are as long as those of a copy, which then is the plane itself: rows outside it are not read.
bool reads_input(const Geometry& g) { return g.padded_width * g.step == g.in_width * g.in_channels; }

const Kernels kernels{lanes, false, one_plane, sizes, pack, copy, copy, forward, weights, unpack, reads_input};
