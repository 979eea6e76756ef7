// The convolution of three by three taps along the second and third axis by Winograd's algorithm along both (A. Lavin,
// S. Gray, Fast Algorithms for Convolutional Neural Networks): F(4,3) along the third, and along the second what OfRows
// says. By F(2,3) there 24 products give eight outputs instead of 72, by F(4,3) 36 give 16 instead of 144. Included
// once per instruction set and OfRows, inside a namespace of its own.
//
// Along the first axis each of the transforms is a convolution of its own, of the tiles of a plane: a tile is two or
// four rows of four outputs, which read four or six rows of six inputs. The direct kernels' products do the work. Tiles
// lie row by row, those of planes that are taken together plane by plane.
//
// The copy of input planes has transforms of tiles, (transform, run of in channels, tile, in channel of the run), and
// behind them the padded planes. These stay empty where tiles can be transformed from the input itself. Where several
// output planes read a plane, its tiles are transformed as it is copied; else group by group as they are wanted, so
// that the transforms stay in the nearest caches. Weights and their gradient are (block of out channels, transform,
// depth of one transform's product, out channel of the block). The t-th transform of columns and the s-th of rows is
// transform across * t + s.

// Comes after winograd.inl, whose transforms along the third axis it uses.

#include "kernels/cpu/direct_tiles.inl"

using winograd::add_moments;
using winograd::column_outputs;
using winograd::column_taps;
using winograd::Edge;
using winograd::get;
using winograd::is_padding;
using winograd::load_row;
using winograd::put;
using winograd::reads_input;
using winograd::RowStore;
using winograd::TileRow;
using winograd::transform_outputs;
using winograd::transform_six;
using winograd::transform_taps;

constexpr long wide = 4, high = OfRows::high;       // outputs of a tile along the third and second axis
constexpr long along = 6, across = OfRows::across;  // transforms of columns and rows
constexpr long transforms = along * across;

constexpr long most_held = 48;  // tiles that are transformed at a time, when they are wanted
constexpr long most_run = 16;   // in channels of a run: tiles lie at one distance, which the compiler knows

struct PlaneTiles {
  bool at_once;           // whether all tiles are transformed as the plane is copied
  long of_row, of_plane;  // tiles
  long count;             // tiles that are there, in all planes that are taken together
  long row, padded;       // floats of a row of an input plane, and of the plane, with their padding
  long held;              // tiles whose transforms the copy holds; of one run, so few that the L1 cache does, too
  long run, runs;         // in channels side by side, and how many of those
  long transform;  // floats from one transform to the next: an odd number of lines, or all would meet in the caches
  long depth;      // depth of one transform's product
  long place;      // floats in front of a Place
  explicit PlaneTiles(const Geometry& g)
      : at_once(g.kernel[0] > 1),
        of_row((g.width + wide - 1) / wide),
        of_plane((g.rows + high - 1) / high * of_row),
        count(of_plane * g.there),
        row((of_row * wide + along - wide) * g.in_channels),
        padded((of_plane / of_row * high + across - high) * row),
        held(at_once ? of_plane : most_held / (g.in_channels > most_run ? 1 : 2)),
        run(g.in_channels % most_run == 0 ? most_run : g.in_channels),
        runs(g.in_channels / run),
        transform((held * g.in_channels + 31) / 32 * 32 + 16),
        depth(g.kernel[0] * g.in_channels),
        place(transforms * transform + g.together * padded) {}
};

// Where a copy's planes are: their first row that is there, and in every row the first position. Behind it lie zeros
// for a tile's row of input.
struct Place {
  const float* x;
  long row, plane;  // floats from one row to the next, and from one plane to the next
  bool padded;      // whether there are positions of padding around them
};
constexpr long place_floats = 16;  // a line
inline long zeros_of(const Geometry& g) { return (along * g.in_channels + 15) / 16 * 16; }

// A tile, and then the next ones: the first of its outputs as a position counted over all planes, and how many rows and
// columns of them are there.
class PlaneTile {
 public:
  long position, rows, width;
  PlaneTile(const Geometry& g, const PlaneTiles& tiles, long number)
      : of_row_(tiles.of_row),
        of_column_(tiles.of_plane / tiles.of_row),
        plane_rows_(g.rows),
        plane_width_(g.width),
        column_(number % of_row_),
        row_(number / of_row_ % of_column_),
        plane_(number / tiles.of_plane) {
    place();
  }
  void next() {
    if (++column_ == of_row_) {
      column_ = 0;
      if (++row_ == of_column_) row_ = 0, ++plane_;
    }
    place();
  }
  long column() const { return column_ * wide; }
  long row() const { return row_ * high; }
  long plane() const { return plane_; }
  bool is_last() const { return column_ + 1 == of_row_; }  // of its row

 private:
  void place() {
    const long x = column_ * wide, y = row_ * high;
    position = (plane_ * plane_rows_ + y) * plane_width_ + x;
    rows = plane_rows_ - y < high ? plane_rows_ - y : high;
    width = plane_width_ - x < wide ? plane_width_ - x : wide;
  }
  long of_row_, of_column_, plane_rows_, plane_width_;
  long column_, row_, plane_;  // of the tile
};

// A convolution of one transform as the direct kernels' products see it: its columns are tiles, its rows runs of
// channels.
Geometry of_transform(const Geometry& g, const PlaneTiles& tiles, long channels) {
  Geometry t{};
  t.in_channels = t.row = t.step = tiles.run;
  t.out_channels = t.y_column = channels;
  t.row_stride = 1;
  t.kernel[0] = g.kernel[0];
  t.kernel[1] = t.in_rows = tiles.runs;
  t.kernel[2] = 1;
  t.padded_width = tiles.held;
  return t;
}

// Behind the transforms lie the padded planes, where they are, and zeros.
Sizes sizes(const Geometry& g) {
  const PlaneTiles tiles(g);
  const long plane = tiles.place + place_floats + zeros_of(g);
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
      Vector all[across];
      OfRows::taps({rows[0][t], rows[1][t], rows[2][t]}, all);
      for (long s = 0; s < across; ++s) store(at.to + ((t * across + s) * depth + r) * at.row, all[s]);
    }
  }
}

// Tiles [first, first + count).
struct TileRange {
  long first, count;
};

// Two of a tile's transforms of columns, of all rows. No more at a time, so that they stay in registers.
template <long One, long Other, Edge At, class V>
inline void transform_pair(const float* const (&rows)[across], long first, long channels, float* to, long step) {
  V one[across], other[across], all[across];
#pragma GCC unroll 6
  for (long k = 0; k < across; ++k) {
    V d[along], six[along];
    for (long t = 0; t < along; ++t) d[t] = is_padding(At, t) ? V{} : get<V>(rows[k] + first + t * channels);
    transform_six(d, six);
    one[k] = six[One], other[k] = six[Other];
  }
  OfRows::inputs(one, all);
  for (long s = 0; s < across; ++s) put(to + (One * across + s) * step, all[s]);
  OfRows::inputs(other, all);
  for (long s = 0; s < across; ++s) put(to + (Other * across + s) * step, all[s]);
}

// All channels of a tile whose rows of input begin there.
template <Edge At, class V>
void transform_tile(const Geometry& g, const PlaneTiles& tiles, const float* const (&rows)[across], float* to) {
  const long channels = g.in_channels, step = tiles.transform, run = tiles.run;
  for (long c = 0; c < channels; c += sizeof(V) / sizeof(float)) {
    float* const at = to + c / run * tiles.held * run + c % run;
    transform_pair<1, 2, At, V>(rows, c, channels, at, step);
    transform_pair<3, 4, At, V>(rows, c, channels, at, step);
    transform_pair<0, 5, At, V>(rows, c, channels, at, step);
  }
}

// Transforms some tiles of a copy's planes.
template <class V>
void transform_as(const Geometry& g, const TileRange& s, float* plane) {
  const PlaneTiles tiles(g);
  Place place;
  __builtin_memcpy(&place, plane + tiles.place, sizeof place);
  const float* const zeros = plane + tiles.place + place_floats;
  PlaneTile at(g, tiles, s.first);
  for (long p = 0; p < s.count; ++p, at.next()) {
    const long row = at.row() - g.rows_before, column = at.column() - g.columns_before;
    const float* const from = place.x + at.plane() * place.plane + row * place.row + column * g.in_channels;
    const float* rows[across];
    for (long k = 0; k < across; ++k)
      rows[k] = place.padded || (row + k >= 0 && row + k < g.in_rows) ? from + k * place.row : zeros;
    float* const to = plane + p * tiles.run;
    if constexpr (sizeof(V) == sizeof(Vector)) {
      const bool first = !place.padded && column < 0, last = !place.padded && at.is_last();
      if (first && last) transform_tile<Edge::both, V>(g, tiles, rows, to);
      if (first && !last) transform_tile<Edge::first, V>(g, tiles, rows, to);
      if (last && !first) transform_tile<Edge::last, V>(g, tiles, rows, to);
      if (first || last) continue;
    }
    transform_tile<Edge::none, V>(g, tiles, rows, to);
  }
}

void transform_tiles(const Geometry& g, const TileRange& s, float* plane) {
  typedef float Quad __attribute__((vector_size(16)));
  const auto transform = g.in_channels % lanes == 0 ? transform_as<Vector>
                         : g.in_channels % 4 == 0   ? transform_as<Quad>
                                                    : transform_as<float>;
  transform(g, s, plane);
}

void copy(const Geometry& g, const float* x, const Affine* map, float* plane) {
  const PlaneTiles tiles(g);
  const long width = g.in_width * g.in_channels;
  float* const inner =
      plane + transforms * tiles.transform + g.rows_before * tiles.row + g.columns_before * g.in_channels;
  Place place{x, width, g.in_rows * width, false};
  if (map != nullptr || !reads_input(g)) {
    place = {inner, tiles.row, tiles.padded, true};
    for (long p = 0; p < g.there; ++p)
      for (long r = 0; r < g.in_rows; ++r, x += width)
        copy_row(x, width, map, inner + p * tiles.padded + r * tiles.row);
  }
  __builtin_memcpy(plane + tiles.place, &place, sizeof place);
  if (tiles.at_once) transform_tiles(g, {0, tiles.count}, plane);
}

// Calls body(range) for the tiles whose transforms the copy holds at a time.
template <class Body>
inline void for_held_tiles(const Geometry& g, float* const* planes, const Body& body) {
  const PlaneTiles tiles(g);
  if (tiles.at_once) return body(TileRange{0, tiles.count});
  for (long first = 0, count = 0; first < tiles.count; first += count) {
    count = next_block(tiles.count - first, tiles.held);
    if (planes[0] != nullptr) transform_tiles(g, {first, count}, planes[0]);  // a plane in the padding has none
    body(TileRange{first, count});
  }
}

constexpr long most_tiles = 24;  // tiles of a strip, so few that their products stay in the L2 cache

// The outputs of a tile from its products, which lie `step` floats apart.
inline void tile_outputs(const float* products, long step, TileRow (&y)[high]) {
  Vector rows[high][along];
  for (long t = 0; t < along; ++t, products += across * step) {
    Vector p[across], column[high];
    for (long s = 0; s < across; ++s) p[s] = load(products + s * step);
    OfRows::outputs(p, column);
    for (long h = 0; h < high; ++h) rows[h][t] = column[h];
  }
  for (long h = 0; h < high; ++h) column_outputs(rows[h], y[h].v);
}

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
  PlaneTile to(g, tiles, s.first);
  for (long p = 0; p < s.count; ++p, to.next()) {
    float* const first = y + to.position * column;
#pragma GCC unroll 2
    for (long v = 0; v < Block; ++v) {
      const long n = v * lanes;
      if (n >= left) break;
      TileRow rows[high];
      tile_outputs(products + p * channels + n, step, rows);
#pragma GCC unroll 4
      for (long h = 0; h < high; ++h) {
        if (h >= to.rows) break;
        if (together)
          for (long r = 0; r < wide; ++r) store(outputs + (h * wide + r) * channels + n, rows[h].v[r]);
        else if (to.width == wide && left >= n + lanes)
          store_row(rows[h], first + h * row + n);
        else
          store_row.part(rows[h], first + h * row + n, to.width, left - n);
        add_moments(moments, v, rows[h], to.width);
      }
    }
    for (long h = 0; together && h < to.rows; ++h)
      for (long r = 0; r < to.width; ++r)
        for (long n = 0; n < channels; n += lanes)
          stream(first + h * row + r * column + n, load(outputs + (h * wide + r) * channels + n));
  }
  moments.flush();
}

// held: the first tile whose transforms the copies hold.
template <long Block>
void forward_strip(const Geometry& g, const float* const* planes, const PackedWeights& w, const TileRange& s, long held,
                   long channel, float* y) {
  constexpr long channels = Block * lanes;
  const PlaneTiles tiles(g);
  Geometry of = of_transform(g, tiles, channels);
  alignas(64) float products[transforms * most_tiles * channels];
  constexpr float zeros[channels] = {};
  const EvenBlocks blocks(s.count, tile);
  for (long t = 0; t < transforms; ++t, of.column_shift += tiles.transform) {
    const float* packed = w.blocks + (channel * transforms + t * channels) * tiles.depth;
    const float* bias = t == across + 1 ? w.bias + channel : zeros;  // every output has this product exactly once
    for (long i = 0, p = 0, count = 0; i < blocks.count; ++i, p += count) {
      count = blocks[i];
      float* to = products + (t * most_tiles + p) * channels;
      with_constant<tile>(count, [&](auto n) {
        constexpr long size = decltype(n)::value;
        const TilePosition at{planes, 0, s.first - held + p};
        if (tiles.run == most_run)
          forward_tile<Block, size, most_run>(of, at, packed, bias, to);
        else
          forward_tile<Block, size>(of, at, packed, bias, to);
      });
    }
  }
  store_outputs<Block>(g, s, products, channel, y);
}

void forward(const Geometry& g, float* const* planes, const PackedWeights& w, float* y) {
  for_held_tiles(g, planes, [&](const TileRange& now) {
    for_blocks(g, [&](long channel, auto block_now) {
      for (long p = 0, count = 0; p < now.count; p += count) {
        count = next_block(now.count - p, most_tiles);
        forward_strip<decltype(block_now)::value>(g, planes, w, {now.first + p, count}, now.first, channel, y);
      }
    });
  });
  if (g.stream) fence();
}

// Transforms of dy for some tiles: (transform, tile, the block's channels). Not a power of two, or all transforms would
// meet in the same sets of the L1 cache.
constexpr long most_patch = most_held;

// As many planes as fill a strip of the gradient of many channels.
long planes_together(const Geometry& g) {
  const long tiles = PlaneTiles(g).of_plane;
  return g.kernel[0] == 1 && 2 * tiles <= most_patch ? most_patch / tiles : 1;
}

template <long Block>
void transform_gradients(const Geometry& g, const TileRange& s, const float* dy, float* to) {
  constexpr long channels = Block * lanes, step = most_patch * channels;
  const PlaneTiles tiles(g);
  PlaneTile at(g, tiles, s.first);
  for (long p = 0; p < s.count; ++p, at.next()) {
    for (long n = 0; n < channels; n += lanes) {
      const float* const from = dy + at.position * g.out_channels + n;
      Vector q[high][along];
#pragma GCC unroll 4
      for (long h = 0; h < high; ++h)
        transform_outputs(load_row(from + h * g.width * g.out_channels, g.out_channels, h < at.rows ? at.width : 0).v,
                          q[h]);
      float* all = to + p * channels + n;
      for (long t = 0; t < along; ++t, all += across * step) {
        Vector column[high], transformed[across];
        for (long h = 0; h < high; ++h) column[h] = q[h][t];
        OfRows::gradients(column, transformed);
        for (long a = 0; a < across; ++a) store(all + a * step, transformed[a]);
      }
    }
  }
}

template <long Block>
void weights_strip(const Geometry& g, const float* const* planes, const float* dy, const TileRange& s, long held,
                   float* gradient) {
  constexpr long channels = Block * lanes, step = most_patch * channels;
  alignas(64) float transformed[transforms * step];
  transform_gradients<Block>(g, s, dy, transformed);
  const PlaneTiles tiles(g);
  Geometry of = of_transform(g, tiles, channels);
  of.width = s.count;
  const EvenBlocks blocks(tiles.run, tile);
  for (long t = 0; t < transforms; ++t)
    for (long i = 0; i < g.kernel[0] * tiles.runs; ++i) {
      const float* const plane = planes[i / tiles.runs];
      if (plane == nullptr) continue;
      const float* x = plane + t * tiles.transform + (i % tiles.runs * tiles.held + s.first - held) * tiles.run;
      float* dw = gradient + (t * tiles.depth + i * tiles.run) * channels;
      for (long b = 0, r = 0, floats = 0; b < blocks.count; ++b, r += floats) {
        floats = blocks[b];
        with_constant<tile>(floats, [&](auto n) {
          weights_tile<Block, decltype(n)::value>(of, {x + r, transformed + t * step, 1}, dw + r * channels);
        });
      }
    }
}

void weights(const Geometry& g, float* const* planes, const float* dy, float* gradient) {
  const PlaneTiles tiles(g);
  for_held_tiles(g, planes, [&](const TileRange& now) {
    for_blocks(g, [&](long channel, auto block_now) {
      float* to = gradient + channel * transforms * tiles.depth;
      for (long p = 0, count = 0; p < now.count; p += count) {
        count = next_block(now.count - p, most_patch);
        weights_strip<decltype(block_now)::value>(g, planes, dy + channel, {now.first + p, count}, now.first, to);
      }
    });
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
        Vector column[across], taps[3];
        for (long s = 0; s < across; ++s) column[s] = by_row[s][k];
        OfRows::taps_of(column, taps);
        for (long j = 0; j < 3; ++j)
          for (long o = 0; o < lanes; ++o) to[o * g.depth + (j * 3 + k) * g.in_channels] = taps[j][o];
      }
    }
  });
  if (g.bias) store(db + first, load(gradient + transforms * depth * g.out_channels + first));
}

const Kernels kernels{lanes, true, planes_together, sizes, pack, copy, copy, forward, weights, unpack};
