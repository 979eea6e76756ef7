// The convolution of three by three taps along the second and third axis by Winograd's F(2,3) along the second and
// F(4,3) along the third (A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks): 24 products give eight
// outputs instead of 72. Included once per instruction set, inside a namespace of its own.
//
// Along the first axis each of the 24 transforms is a convolution of its own, of the tiles of a plane: a tile is two
// rows of four outputs, four rows of six inputs. The direct kernels' products do the work. Tiles lie column by column.
//
// Planes that are taken together lie side by side, as columns of one plane, each with padding of its own.
//
// The copy of an input plane is (transform, tile, in channel); weights and their gradient are (block of out channels,
// transform, depth of one transform's product, out channel of the block). Transform 4 t + s is the t-th of columns and
// the s-th of rows.

// Comes after winograd.inl, whose transforms along the third axis it uses.

#include "kernels/cpu/direct_tiles.inl"

using winograd::column_outputs;
using winograd::column_taps;
using winograd::get;
using winograd::put;
using winograd::RowStore;
using winograd::transform_outputs;
using winograd::transform_row;
using winograd::transform_taps;

constexpr long wide = 4, high = 2;     // outputs of a tile along the third and second axis
constexpr long along = 6, across = 4;  // transforms of columns and rows
constexpr long transforms = along * across;

struct PlaneTiles {
  long of_plane;       // columns of tiles in a plane
  long columns, rows;  // tiles along both axes, in all planes that are taken together
  long count;          // tiles that are there
  long padded_rows;    // rows of an input plane, with its padding
  long transform;      // floats of one transform of a plane
  long depth;          // depth of one transform's product
  explicit PlaneTiles(const Geometry& g)
      : of_plane((g.width + wide - 1) / wide),
        columns(of_plane * g.together),
        rows((g.rows + high - 1) / high),
        count(of_plane * g.there * rows),
        padded_rows(rows * high + across - high),
        transform(columns * rows * g.in_channels),
        depth(g.kernel[0] * g.in_channels) {}
};

// The outputs of a tile, and then of the next ones: the first of them, as a position counted over all planes, and how
// many there are.
class TileOutputs {
 public:
  long position, rows, width;
  TileOutputs(const Geometry& g, const PlaneTiles& tiles, long number)
      : of_plane_(tiles.of_plane),
        of_column_(tiles.rows),
        plane_rows_(g.rows),
        plane_width_(g.width),
        row_(number % of_column_),
        column_(number / of_column_ % of_plane_),
        plane_(number / of_column_ / of_plane_) {
    place();
  }
  void next() {
    if (++row_ == of_column_) {
      row_ = 0;
      if (++column_ == of_plane_) column_ = 0, ++plane_;
    }
    place();
  }

 private:
  void place() {
    const long x = column_ * wide, y = row_ * high;
    position = (plane_ * plane_rows_ + y) * plane_width_ + x;
    rows = plane_rows_ - y < high ? plane_rows_ - y : high;
    width = plane_width_ - x < wide ? plane_width_ - x : wide;
  }
  long of_plane_, of_column_, plane_rows_, plane_width_;  // tiles; positions
  long row_, column_, plane_;                             // of the tile
};

// A convolution of one transform as the direct kernels' products see it: one row, its columns are the tiles of all
// transforms.
Geometry of_transform(const Geometry& g, long channels) {
  Geometry t{};
  t.in_channels = t.row = t.step = g.in_channels;
  t.out_channels = t.y_column = channels;
  t.row_stride = 1;
  t.kernel[0] = g.kernel[0];
  t.kernel[1] = t.kernel[2] = t.in_rows = 1;
  return t;
}

long transformed_columns(const Geometry& g, const PlaneTiles& tiles) {
  return along * tiles.columns * tiles.padded_rows * g.in_channels;
}

// Behind a plane's transforms lies room for those of its columns alone, and for a row of it.
Sizes sizes(const Geometry& g) {
  const PlaneTiles tiles(g);
  const long row = (tiles.of_plane * wide + along - wide) * g.in_channels;
  const long plane = transforms * tiles.transform + transformed_columns(g, tiles) + row;
  return {plane, plane, transforms * tiles.depth * g.padded_out, (transforms * tiles.depth + 1) * g.padded_out};
}

void pack(const Geometry& g, const Weights& w, long first, float* packed) {
  const long depth = PlaneTiles(g).depth;
  const PackedVector at(g, first, transforms * depth, packed);
  for (long r = 0; r < depth; ++r) {
    const long tap = r / g.in_channels * 9, in = r % g.in_channels;
    Vector rows[3][along];
    for (long j = 0; j < 3; ++j) {
      const Vector taps[3] = {weights_at(g, w, first, tap + 3 * j, in), weights_at(g, w, first, tap + 3 * j + 1, in),
                              weights_at(g, w, first, tap + 3 * j + 2, in)};
      transform_taps(taps, rows[j]);
    }
    for (long t = 0; t < along; ++t) {
      const Vector outer = (rows[0][t] + rows[2][t]) / 2, middle = rows[1][t] / 2;
      const Vector all[across] = {rows[0][t], outer + middle, outer - middle, rows[2][t]};
      for (long s = 0; s < across; ++s) store(at.to + ((t * across + s) * depth + r) * at.row, all[s]);
    }
  }
}

// The transforms of rows of one tile column, whose columns are transformed. Those of a tile lie `step` floats apart.
template <class V>
inline void transform_column(const float* from, long rows, long channels, float* to, long step) {
  for (long q = 0; q < rows; ++q, from += high * channels, to += channels)
    for (long c = 0; c < channels; c += sizeof(V) / sizeof(float)) {
      V d[across];
      for (long k = 0; k < across; ++k) d[k] = get<V>(from + k * channels + c);
      put(to + c, d[0] - d[2]);
      put(to + step + c, d[1] + d[2]);
      put(to + 2 * step + c, d[2] - d[1]);
      put(to + 3 * step + c, d[1] - d[3]);
    }
}

template <class V>
void copy_as(const Geometry& g, const float* x, const Affine* map, float* plane) {
  const PlaneTiles tiles(g);
  const long width = g.in_width * g.in_channels, column = tiles.padded_rows * g.in_channels;
  float* const columns = plane + transforms * tiles.transform;
  float *const row = columns + transformed_columns(g, tiles), *const inner = row + g.columns_before * g.in_channels;
  for (long p = 0; p < g.there; ++p)
    for (long r = 0; r < g.in_rows; ++r, x += width) {
      copy_row(x, width, map, inner);
      transform_row<V>(row, g.in_channels, tiles.of_plane,
                       columns + p * tiles.of_plane * column + (r + g.rows_before) * g.in_channels,
                       tiles.columns * column, column);
    }
  for (long t = 0; t < along; ++t)
    for (long k = 0; k < tiles.of_plane * g.there; ++k)
      transform_column<V>(columns + (t * tiles.columns + k) * column, tiles.rows, g.in_channels,
                          plane + t * across * tiles.transform + k * tiles.rows * g.in_channels, tiles.transform);
}

void copy(const Geometry& g, const float* x, const Affine* map, float* plane) {
  typedef float Quad __attribute__((vector_size(16)));
  const auto copy_by = g.in_channels % lanes == 0 ? copy_as<Vector>
                       : g.in_channels % 4 == 0   ? copy_as<Quad>
                                                  : copy_as<float>;
  copy_by(g, x, map, plane);
}

// Tiles [first, first + count).
struct TileRange {
  long first, count;
};
constexpr long most_tiles = 24;  // tiles of a strip, so few that their products stay in the L2 cache

template <long Block>
void store_outputs(const Geometry& g, const TileRange& s, const float* products, long channel, float* y) {
  constexpr long channels = Block * lanes, step = most_tiles * channels;
  const PlaneTiles tiles(g);
  const bool together = g.stream && lines_of_vectors;
  const long left = g.out_channels - channel, row = g.width * g.out_channels, column = g.out_channels;
  const RowStore store_row(g);
  y += channel;
  alignas(64) float outputs[high * wide * channels];
  BlockMoments<Block> moments(g, channel);
  TileOutputs to(g, tiles, s.first);
  for (long p = 0; p < s.count; ++p, to.next()) {
    float* const first = y + to.position * column;
    for (long n = 0; n < channels && n < left; n += lanes) {
      const float* m = products + p * channels + n;
      Vector rows[high][along];
      for (long t = 0; t < along; ++t, m += across * step) {
        const Vector second = load(m + step), third = load(m + 2 * step);
        rows[0][t] = load(m) + second + third;
        rows[1][t] = second - third - load(m + 3 * step);
      }
      for (long h = 0; h < to.rows; ++h) {
        Vector v[wide];
        column_outputs(rows[h], v);
        moments.add(n / lanes, v, to.width);
        if (together)
          for (long r = 0; r < wide; ++r) store(outputs + (h * wide + r) * channels + n, v[r]);
        else
          store_row(v, first + h * row + n, to.width, left - n);
      }
    }
    for (long h = 0; together && h < to.rows; ++h)
      for (long r = 0; r < to.width; ++r)
        for (long n = 0; n < channels; n += lanes)
          stream(first + h * row + r * column + n, load(outputs + (h * wide + r) * channels + n));
  }
  moments.flush();
}

template <long Block>
void forward_strip(const Geometry& g, const float* const* planes, const PackedWeights& w, const TileRange& s,
                   long channel, float* y) {
  constexpr long channels = Block * lanes;
  const PlaneTiles tiles(g);
  const Geometry of = of_transform(g, channels);
  alignas(64) float products[transforms * most_tiles * channels];
  constexpr float zeros[channels] = {};
  const EvenBlocks blocks(s.count, tile);
  for (long t = 0; t < transforms; ++t) {
    const float* packed = w.blocks + (channel * transforms + t * channels) * tiles.depth;
    const long first = t * tiles.columns * tiles.rows + s.first;
    const float* bias = t == across + 1 ? w.bias + channel : zeros;  // every output has this product exactly once
    for (long i = 0, p = 0, count = 0; i < blocks.count; ++i, p += count) {
      count = blocks[i];
      float* to = products + (t * most_tiles + p) * channels;
      with_constant<tile>(count, [&](auto n) {
        forward_tile<Block, decltype(n)::value>(of, {planes, 0, first + p}, packed, bias, to);
      });
    }
  }
  store_outputs<Block>(g, s, products, channel, y);
}

void forward(const Geometry& g, const float* const* planes, const PackedWeights& w, float* y) {
  const PlaneTiles tiles(g);
  for_blocks(g, [&](long channel, auto block_now) {
    for (long first = 0, count = 0; first < tiles.count; first += count) {
      count = next_block(tiles.count - first, most_tiles);
      forward_strip<decltype(block_now)::value>(g, planes, w, {first, count}, channel, y);
    }
  });
  if (g.stream) fence();
}

// Transforms of dy for some tiles: (transform, tile, the block's channels). Not a power of two, or all transforms would
// meet in the same sets of the L1 cache.
constexpr long most_patch = 48;

// As many planes as fill a strip of the gradient.
long planes_together(const Geometry& g) {
  const long tiles = PlaneTiles(g).count;
  return g.kernel[0] == 1 && 2 * tiles <= most_patch ? most_patch / tiles : 1;
}

template <long Block>
void transform_gradients(const Geometry& g, const TileRange& s, const float* dy, float* to) {
  constexpr long channels = Block * lanes, step = most_patch * channels;
  const PlaneTiles tiles(g);
  TileOutputs at(g, tiles, s.first);
  for (long p = 0; p < s.count; ++p, at.next()) {
    for (long n = 0; n < channels; n += lanes) {
      Vector q[high][along] = {};
      for (long h = 0; h < at.rows; ++h) {
        const float* from = dy + (at.position + h * g.width) * g.out_channels + n;
        Vector d[wide] = {};
        for (long k = 0; k < at.width; ++k) d[k] = load(from + k * g.out_channels);
        transform_outputs(d, q[h]);
      }
      float* all = to + p * channels + n;
      for (long t = 0; t < along; ++t, all += across * step) {
        store(all, q[0][t]);
        store(all + step, q[0][t] + q[1][t]);
        store(all + 2 * step, q[0][t] - q[1][t]);
        store(all + 3 * step, -q[1][t]);
      }
    }
  }
}

template <long Block>
void weights_strip(const Geometry& g, const float* const* planes, const float* dy, const TileRange& s,
                   float* gradient) {
  constexpr long channels = Block * lanes, step = most_patch * channels;
  alignas(64) float transformed[transforms * step];
  transform_gradients<Block>(g, s, dy, transformed);
  const PlaneTiles tiles(g);
  Geometry of = of_transform(g, channels);
  of.width = s.count;
  const EvenBlocks blocks(of.row, tile);
  for (long t = 0; t < transforms; ++t)
    for (long i = 0; i < g.kernel[0]; ++i) {
      if (planes[i] == nullptr) continue;
      const float* x = planes[i] + t * tiles.transform + s.first * g.in_channels;
      float* dw = gradient + (t * tiles.depth + i * g.in_channels) * channels;
      for (long b = 0, r = 0, floats = 0; b < blocks.count; ++b, r += floats) {
        floats = blocks[b];
        with_constant<tile>(floats, [&](auto n) {
          weights_tile<Block, decltype(n)::value>(of, {x + r, transformed + t * step, 1}, dw + r * channels);
        });
      }
    }
}

void weights(const Geometry& g, const float* const* planes, const float* dy, float* gradient) {
  const PlaneTiles tiles(g);
  for_blocks(g, [&](long channel, auto block_now) {
    float* to = gradient + channel * transforms * tiles.depth;
    for (long first = 0, count = 0; first < tiles.count; first += count) {
      count = next_block(tiles.count - first, most_patch);
      weights_strip<decltype(block_now)::value>(g, planes, dy + channel, {first, count}, to);
    }
  });
  if (g.bias) add_bias(g, dy, g.there * g.rows * g.width, gradient + transforms * tiles.depth * g.out_channels);
}

void unpack(const Geometry& g, const float* gradient, long first, float* dw, float* db) {
  const long depth = PlaneTiles(g).depth;
  for_blocks(g, [&](long begin, auto count) {
    constexpr long channels = decltype(count)::value * lanes;
    if (first < begin || first >= begin + channels) return;
    const float* from = gradient + begin * transforms * depth + first - begin;
    for (long r = 0; r < depth; ++r) {
      Vector by_row[across][3];
      for (long s = 0; s < across; ++s) {
        Vector q[along];
        for (long t = 0; t < along; ++t) q[t] = load(from + ((t * across + s) * depth + r) * channels);
        column_taps(q, by_row[s]);
      }
      float* to = dw + first * g.depth + r / g.in_channels * g.kernel[1] * g.row + r % g.in_channels;
      for (long k = 0; k < 3; ++k) {
        const Vector even = (by_row[1][k] + by_row[2][k]) / 2, odd = (by_row[1][k] - by_row[2][k]) / 2;
        const Vector taps[3] = {by_row[0][k] + even, odd, even + by_row[3][k]};
        for (long j = 0; j < 3; ++j)
          for (long o = 0; o < lanes; ++o) to[o * g.depth + (j * 3 + k) * g.in_channels] = taps[j][o];
      }
    }
  });
  if (g.bias) store(db + first, load(gradient + transforms * depth * g.out_channels + first));
}

const Kernels kernels{lanes, true, planes_together, sizes, pack, copy, copy, forward, weights, unpack};
