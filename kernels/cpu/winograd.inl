// The convolution of three taps along the third axis by Winograd's F(4,3) along that axis: the transforms of inputs,
// weights and gradients, and the products between them. Included once per instruction set, inside a namespace of its
// own.

#include "kernels/cpu/direct_tiles.inl"
#include "kernels/cpu/winograd_tile.inl"

// The forms of input planes, weights and their gradient: of each its six transforms.
//
// A tile is four neighbouring outputs along the third axis, six inputs. The copy of an input plane is
// (transform, tile, padded row, in channel); the weights and their gradient (block of out channels, transform, depth of
// one transform's product, out channel of the block).

constexpr long outputs = 4, transforms = 6;

struct Tiles {
  long count, rows;  // rows: of an input plane, padding included
  long transform;    // floats of one transform of a plane
  long depth;        // depth of one transform's product
  explicit Tiles(const Geometry& g)
      : count((g.width + outputs - 1) / outputs),
        rows(g.rows + g.kernel[1] - 1),
        transform(count * rows * g.in_channels),
        depth(g.kernel[0] * g.kernel[1] * g.in_channels) {}
};

// A convolution of one transform as the direct kernels' products see it: its rows are the tiles of all transforms, its
// columns are rows.
Geometry of_transform(const Geometry& g, const Tiles& tiles, long channels) {
  Geometry t{};
  t.in_channels = t.step = g.in_channels;
  t.out_channels = t.y_column = channels;
  t.row_stride = 1;
  t.kernel[0] = g.kernel[0];
  t.kernel[1] = t.kernel[2] = 1;
  t.in_rows = transforms * tiles.count;
  t.width = g.rows;
  t.padded_width = tiles.rows;
  t.row = g.kernel[1] * g.in_channels;
  return t;
}

long padded_row(const Geometry& g, const Tiles& tiles) {
  return (tiles.count * outputs + transforms - outputs) * g.in_channels;
}

Sizes sizes(const Geometry& g) {
  const Tiles tiles(g);  // behind a plane's transforms lies room for a row of it
  const long plane = transforms * tiles.transform + padded_row(g, tiles), depth = transforms * tiles.depth;
  return {plane, plane, depth * g.padded_out, (depth + 1) * g.padded_out};
}

void pack(const Geometry& g, const Weights& w, long first, float* packed) {
  const long depth = Tiles(g).depth;
  const PackedVector at(g, first, transforms * depth, packed);
  for (long r = 0; r < depth; ++r) {
    const long tap = r / g.in_channels * 3, in = r % g.in_channels;
    const Vector taps[3] = {weights_at(g, w, first, tap, in), weights_at(g, w, first, tap + 1, in),
                            weights_at(g, w, first, tap + 2, in)};
    Vector all[transforms];
    transform_taps(taps, all);
    for (long t = 0; t < transforms; ++t) store(at.to + (t * depth + r) * at.row, all[t]);
  }
}

// Floats as V, a vector or a single one.
template <class V>
inline V get(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
inline void put(float* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

// Whether a tile's first or last position of input is padding, which is not there.
enum class Edge { none, first, last, both };
constexpr bool is_padding(Edge at, long t) {
  return (t == 0 && (at == Edge::first || at == Edge::both)) ||
         (t == transforms - 1 && (at == Edge::last || at == Edge::both));
}
// Whether only the outermost positions of tiles are padding, so that tiles can be transformed from the input itself.
inline bool reads_input(const Geometry& g) {
  return g.in_channels % lanes == 0 && g.columns_before == 1 && g.in_width == g.width && g.width % outputs == 0;
}

// The transforms of a tile of input, `step` floats apart.
template <Edge At, class V>
inline void transform_tile(const float* x, long channels, float* to, long step) {
  for (long c = 0; c < channels; c += sizeof(V) / sizeof(float)) {
    V d[transforms], transformed[transforms];
    for (long t = 0; t < transforms; ++t) d[t] = is_padding(At, t) ? V{} : get<V>(x + t * channels + c);
    transform_six(d, transformed);
    for (long t = 0; t < transforms; ++t) put(to + t * step + c, transformed[t]);
  }
}

// Those of a padded row; the tiles' lie `tile_step` floats apart.
template <class V>
void transform_row(const float* row, long channels, long tiles, float* to, long step, long tile_step) {
  for (long t = 0; t < tiles; ++t, row += outputs * channels, to += tile_step)
    transform_tile<Edge::none, V>(row, channels, to, step);
}
// Those of a row that is not padded.
void transform_input_row(const float* row, long channels, long tiles, float* to, long step, long tile_step) {
  row -= channels;
  if (tiles == 1) return transform_tile<Edge::both, Vector>(row, channels, to, step);
  transform_tile<Edge::first, Vector>(row, channels, to, step);
  transform_row<Vector>(row + outputs * channels, channels, tiles - 2, to + tile_step, step, tile_step);
  row += (tiles - 1) * outputs * channels, to += (tiles - 1) * tile_step;
  transform_tile<Edge::last, Vector>(row, channels, to, step);
}

void copy(const Geometry& g, const float* x, const Affine* map, float* plane) {
  typedef float Quad __attribute__((vector_size(16)));
  const Tiles tiles(g);
  const long width = g.in_width * g.in_channels, tile_step = tiles.rows * g.in_channels;
  const bool from_input = map == nullptr && reads_input(g);
  float *row = plane + transforms * tiles.transform, *inner = row + g.columns_before * g.in_channels;
  const auto transform = from_input                   ? transform_input_row
                         : g.in_channels % lanes == 0 ? transform_row<Vector>
                         : g.in_channels % 4 == 0     ? transform_row<Quad>
                                                      : transform_row<float>;
  for (long r = 0; r < g.in_rows; ++r, x += width) {
    if (!from_input) copy_row(x, width, map, inner);
    transform(from_input ? x : row, g.in_channels, tiles.count, plane + (r + g.rows_before) * g.in_channels,
              tiles.transform, tile_step);
  }
}

void unpack(const Geometry& g, const float* gradient, long first, float* dw, float* db) {
  const long depth = Tiles(g).depth;
  for_blocks(g, [&](long begin, auto count) {
    constexpr long channels = decltype(count)::value * lanes;
    if (first < begin || first >= begin + channels) return;
    const float* from = gradient + begin * transforms * depth + first - begin;
    for (long r = 0; r < depth; ++r) {
      Vector q[transforms];
      for (long t = 0; t < transforms; ++t) q[t] = load(from + (t * depth + r) * channels);
      Vector taps[3];
      column_taps(q, taps);
      float* to = dw + first * g.depth + r / g.in_channels * g.row + r % g.in_channels;
      for (long k = 0; k < 3; ++k)
        for (long o = 0; o < lanes; ++o) to[o * g.depth + k * g.in_channels] = taps[k][o];
    }
  });
  if (g.bias) store(db + first, load(gradient + transforms * depth * g.out_channels + first));
}

// The convolution. Six products give four outputs instead of twelve (A. Lavin, S. Gray, Fast Algorithms for
// Convolutional Neural Networks).
//
// Over the other two axes each of the six transforms is a convolution of its own. Its positions are rows, so the direct
// kernels' products do the work.

// The outputs of a tile from its six products.
inline void column_outputs(const Vector p[transforms], Vector y[outputs]) { outputs_of_tile(p, p[transforms - 1], y); }

// Rows [first, first + count) of a tile.
struct Strip {
  long tile, first, count;
};
constexpr long most_rows = 32;  // rows of a strip, so few that their products stay in the L1 cache

// A row of a tile: outputs or gradients, of a vector of channels. Where some of them are not there it is handled by
// value: what is reached by a running index lies in memory, which would slow whole tiles, too.
struct TileRow {
  Vector v[outputs];
};

// Stores rows of outputs. By value: compilers read what is behind a reference again after every store.
struct RowStore {
  long out_channels;
  bool past_caches;
  explicit RowStore(const Geometry& g) : out_channels(g.out_channels), past_caches(g.stream) {}
  void operator()(const TileRow& row, float* to) const {
    if (past_caches)
      for (long k = 0; k < outputs; ++k) stream(to + k * out_channels, row.v[k]);
    else
      for (long k = 0; k < outputs; ++k) store(to + k * out_channels, row.v[k]);
  }
  // As far as positions and channels are there.
  void part(const TileRow& row, float* to, long there, long channels) const {
    part_of(row.v[0], row.v[1], row.v[2], row.v[3], to, there, channels);
  }

 private:
  // Its vectors in registers: a row as a whole would be passed in memory.
  __attribute__((noinline)) void part_of(Vector first, Vector second, Vector third, Vector fourth, float* to,
                                         long there, long channels) const {
    const TileRow row{{first, second, third, fourth}};
    for (long k = 0; k < there; ++k)
      if (channels < lanes)
        for (long c = 0; c < channels; ++c) to[k * out_channels + c] = row.v[k][c];
      else if (past_caches)
        stream(to + k * out_channels, row.v[k]);
      else
        store(to + k * out_channels, row.v[k]);
  }
};
// Adds a row to the moments, if these are wanted.
template <class MomentsOfBlock>
inline void add_moments(MomentsOfBlock& moments, long n, const TileRow& row, long there) {
  if (moments.to == nullptr) return;
  if (there == outputs) {
    for (long k = 0; k < outputs; ++k) moments.add(n, row.v[k]);
  } else {
    const TileRow some = row;
    for (long k = 0; k < there; ++k) moments.add(n, some.v[k]);
  }
}

// A row of gradients, zero where they are not there.
__attribute__((noinline)) TileRow load_part(const float* from, long step, long there) {
  TileRow row{};
  for (long k = 0; k < there; ++k) row.v[k] = load(from + k * step);
  return row;
}
inline TileRow load_row(const float* from, long step, long there) {
  if (there < outputs) return load_part(from, step, there);
  TileRow row;
  for (long k = 0; k < outputs; ++k) row.v[k] = load(from + k * step);
  return row;
}

template <long Block>
void store_outputs(const Geometry& g, const Strip& s, const float* products, long channel, float* y) {
  constexpr long channels = Block * lanes;
  const long column = s.tile * outputs, there = g.width - column < outputs ? g.width - column : outputs;
  const long left = g.out_channels - channel, row = g.width * g.out_channels;
  const RowStore store_row(g);
  y += (s.first * g.width + column) * g.out_channels + channel;
  BlockMoments<Block> moments(g, channel);
  for (long r = 0; r < s.count; ++r, y += row) {
#pragma GCC unroll 2
    for (long n = 0; n < Block; ++n) {
      if (n * lanes >= left) break;
      Vector m[transforms];
      for (long t = 0; t < transforms; ++t) m[t] = load(products + (t * most_rows + r) * channels + n * lanes);
      TileRow of;
      column_outputs(m, of.v);
      if (there == outputs && left >= (n + 1) * lanes)
        store_row(of, y + n * lanes);
      else
        store_row.part(of, y + n * lanes, there, left - n * lanes);
      add_moments(moments, n, of, there);
    }
  }
  moments.flush();
}

template <long Block, long Step>
void forward_strip(const Geometry& g, const float* const* planes, const PackedWeights& w, const Strip& s, long channel,
                   float* y) {
  constexpr long channels = Block * lanes;
  const Tiles tiles(g);
  const Geometry of = of_transform(g, tiles, channels);
  alignas(64) float products[transforms * most_rows * channels];
  constexpr float zeros[channels] = {};
  const EvenBlocks blocks(s.count, tile);
  for (long t = 0; t < transforms; ++t) {
    const float* packed = w.blocks + (channel * transforms + t * channels) * tiles.depth;
    const float* bias = t == 1 ? w.bias + channel : zeros;  // every output has this product exactly once
    for (long i = 0, r = 0, rows = 0; i < blocks.count; ++i, r += rows) {
      rows = blocks[i];
      float* to = products + (t * most_rows + r) * channels;
      with_constant<tile>(rows, [&](auto n) {
        const TilePosition at{planes, t * tiles.count + s.tile, s.first + r};
        forward_tile<Block, decltype(n)::value, Step>(of, at, packed, bias, to);
      });
    }
  }
  store_outputs<Block>(g, s, products, channel, y);
}

void forward(const Geometry& g, float* const* planes, const PackedWeights& w, float* y) {
  const Tiles tiles(g);
  for_blocks(g, [&](long channel, auto count) {
    with_step(g.in_channels, [&](auto step) {
      for (long first = 0, rows = 0; first < g.rows; first += rows) {
        rows = next_block(g.rows - first, most_rows);
        for (long t = 0; t < tiles.count; ++t)
          forward_strip<decltype(count)::value, decltype(step)::value>(g, planes, w, {t, first, rows}, channel, y);
      }
    });
  });
  if (g.stream) fence();
}

// Transforms of dy for a few tiles' rows: (transform, tile, row, the block's channels).
constexpr long most_positions = 128;  // positions of a transform: with their channels, half of the L1 cache

template <long Block>
void transform_gradients(const Geometry& g, const Strip& s, const float* dy, float* to) {
  constexpr long channels = Block * lanes, step = most_positions * channels;
  const long column = s.tile * outputs, there = g.width - column < outputs ? g.width - column : outputs;
  for (long r = 0; r < s.count; ++r)
    for (long n = 0; n < channels; n += lanes) {
      const float* from = dy + ((s.first + r) * g.width + column) * g.out_channels + n;
      const TileRow d = load_row(from, g.out_channels, there);
      Vector all[transforms];
      transform_outputs(d.v, all);
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
  const EvenBlocks blocks(of.row, tile);
  for (long t = 0; t < transforms; ++t)
    for (long i = 0; i < g.kernel[0]; ++i) {
      if (planes[i] == nullptr) continue;
      const float* x = planes[i] + t * tiles.transform + at;
      float* dw = gradient + (t * tiles.depth + i * of.row) * channels;
      for (long b = 0, r = 0, floats = 0; b < blocks.count; ++b, r += floats) {
        floats = blocks[b];
        with_constant<tile>(floats, [&](auto n) {
          weights_tile<Block, decltype(n)::value>(of, {x + r, transformed + t * step, p.tiles}, dw + r * channels);
        });
      }
    }
}

void weights(const Geometry& g, float* const* planes, const float* dy, float* gradient) {
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

const Kernels kernels{lanes, true, one_plane, sizes, pack, copy, copy, forward, weights, unpack};
