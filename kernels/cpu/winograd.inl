// The convolution of three taps along the third axis by Winograd's F(4,3) along that axis. Six products give four
// outputs instead of twelve (A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks). Included once per
// instruction set, inside a namespace of its own.
//
// Over the other two axes each of the six transforms is a convolution of its own. Its positions are rows, so the direct
// kernels' products do the work.

#include "kernels/cpu/winograd_forms.inl"

// The outputs of a tile from its six products.
inline void column_outputs(const Vector p[transforms], Vector y[outputs]) {
  const Vector even = p[1] + p[2], odd = p[1] - p[2], fine_even = p[3] + p[4], fine_odd = p[3] - p[4];
  y[0] = p[0] + even + fine_even;
  y[1] = odd + 2 * fine_odd;
  y[2] = even + 4 * fine_even;
  y[3] = odd + 8 * fine_odd + p[5];
}

// Rows [first, first + count) of a tile.
struct Strip {
  long tile, first, count;
};
constexpr long most_rows = 32;  // rows of a strip, so few that their products stay in the L1 cache

// A tile's row of outputs, for a vector of channels, as far as positions and channels are there.
inline void store_row(const Geometry& g, const Vector v[outputs], float* to, long there, long channels) {
  for (long k = 0; k < there; ++k, to += g.out_channels)
    if (g.stream)
      stream(to, v[k]);
    else if (channels >= lanes)
      store(to, v[k]);
    else
      for (long c = 0; c < channels; ++c) to[c] = v[k][c];
}

template <long Block>
void store_outputs(const Geometry& g, const Strip& s, const float* products, long channel, float* y) {
  constexpr long channels = Block * lanes;
  const long column = s.tile * outputs, there = g.width - column < outputs ? g.width - column : outputs;
  for (long r = 0; r < s.count; ++r)
    for (long n = 0; n < channels && channel + n < g.out_channels; n += lanes) {
      Vector v[outputs], m[transforms];
      for (long t = 0; t < transforms; ++t) m[t] = load(products + (t * most_rows + r) * channels + n);
      column_outputs(m, v);
      store_row(g, v, y + ((s.first + r) * g.width + column) * g.out_channels + channel + n, there,
                g.out_channels - channel - n);
    }
}

template <long Block>
void forward_strip(const Geometry& g, const float* const* planes, const PackedWeights& w, const Strip& s, long channel,
                   float* y) {
  constexpr long channels = Block * lanes;
  const Tiles tiles(g);
  const Geometry of = of_transform(g, tiles, channels);
  alignas(64) float products[transforms * most_rows * channels];
  constexpr float zeros[channels] = {};
  for (long t = 0; t < transforms; ++t) {
    const float* packed = w.blocks + (channel * transforms + t * channels) * tiles.depth;
    const float* bias = t == 1 ? w.bias + channel : zeros;  // every output has this product exactly once
    for (long r = 0, rows = 0; r < s.count; r += rows) {
      rows = next_block(s.count - r, tile);
      float* to = products + (t * most_rows + r) * channels;
      with_constant<tile>(rows, [&](auto n) {
        forward_tile<Block, decltype(n)::value>(of, {planes, t * tiles.count + s.tile, s.first + r}, packed, bias, to);
      });
    }
  }
  store_outputs<Block>(g, s, products, channel, y);
}

void forward(const Geometry& g, const float* const* planes, const PackedWeights& w, float* y) {
  const Tiles tiles(g);
  for_blocks(g, [&](long channel, auto count) {
    for (long first = 0, rows = 0; first < g.rows; first += rows) {
      rows = next_block(g.rows - first, most_rows);
      for (long t = 0; t < tiles.count; ++t)
        forward_strip<decltype(count)::value>(g, planes, w, {t, first, rows}, channel, y);
    }
  });
  if (g.stream) fence();
}

// Transforms of dy for a few tiles' rows: (transform, tile, row, the block's channels).
constexpr long most_positions = 128;  // positions of a transform: with their channels, half of the L1 cache

// Of a tile's gradients.
inline void transform_outputs(const Vector d[outputs], Vector to[transforms]) {
  const Vector even = d[0] + d[2], odd = d[1] + d[3], wide_even = d[0] + 4 * d[2], wide_odd = 2 * d[1] + 8 * d[3];
  to[0] = d[0];
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = wide_even + wide_odd;
  to[4] = wide_even - wide_odd;
  to[5] = d[3];
}

template <long Block>
void transform_gradients(const Geometry& g, const Strip& s, const float* dy, float* to) {
  constexpr long channels = Block * lanes, step = most_positions * channels;
  const long column = s.tile * outputs, there = g.width - column < outputs ? g.width - column : outputs;
  for (long r = 0; r < s.count; ++r)
    for (long n = 0; n < channels; n += lanes) {
      const float* from = dy + ((s.first + r) * g.width + column) * g.out_channels + n;
      Vector d[outputs] = {}, all[transforms];
      for (long k = 0; k < there; ++k) d[k] = load(from + k * g.out_channels);
      transform_outputs(d, all);
      for (long t = 0; t < transforms; ++t) store(to + t * step + r * channels + n, all[t]);
    }
}

// A part of the weights' gradient for a block of channels: the positions in `count` rows from `first` on of some tiles.
struct Patch {
  long tile, tiles, first, count;
};
template <long Block>
void weights_patch(const Geometry& g, const float* const* planes, const float* dy, const Patch& p, float* gradient) {
  constexpr long channels = Block * lanes, step = most_positions * channels;
  alignas(64) float transformed[transforms * step];
  for (long t = 0; t < p.tiles; ++t)
    transform_gradients<Block>(g, {p.tile + t, p.first, p.count}, dy, transformed + t * p.count * channels);
  const Tiles tiles(g);
  Geometry of = of_transform(g, tiles, channels);
  of.width = p.count;
  const long at = (p.tile * tiles.rows + p.first) * g.in_channels;
  for (long t = 0; t < transforms; ++t)
    for (long i = 0; i < g.kernel[0]; ++i) {
      if (planes[i] == nullptr) continue;
      const float* x = planes[i] + t * tiles.transform + at;
      float* dw = gradient + (t * tiles.depth + i * of.row) * channels;
      for (long r = 0, floats = 0; r < of.row; r += floats) {
        floats = next_block(of.row - r, tile);
        with_constant<tile>(floats, [&](auto n) {
          weights_tile<Block, decltype(n)::value>(of, {x + r, transformed + t * step, p.tiles}, dw + r * channels);
        });
      }
    }
}

void weights(const Geometry& g, const float* const* planes, const float* dy, float* gradient) {
  const Tiles tiles(g);
  const long rows = g.rows < most_positions ? g.rows : most_positions, together = most_positions / rows;
  for_blocks(g, [&](long channel, auto count) {
    float* to = gradient + channel * transforms * tiles.depth;
    for (long first = 0; first < g.rows; first += rows)
      for (long t = 0; t < tiles.count; t += together) {
        const long now = tiles.count - t < together ? tiles.count - t : together;
        const long left = g.rows - first < rows ? g.rows - first : rows;
        weights_patch<decltype(count)::value>(g, planes, dy + channel, {t, now, first, left}, to);
      }
  });
  if (g.bias) add_bias(g, dy, g.rows * g.width, gradient + transforms * tiles.depth * g.out_channels);
}

const Kernels kernels{lanes, sizes, pack, pack_mirrored, copy, forward, weights, unpack};
