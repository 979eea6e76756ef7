// Convolutions of three taps along the second axis on AMX by Winograd's F(4,3) along it (winograd_tile.inl): half the
// products, for the transforms of six rows of input and of four rows of outputs. Included inside an anonymous
// namespace, inside a namespace of its own, behind the plain products of direct_kernels_amx.cpp, which do the work:
// each transform is a convolution of one tap along the second axis, on planes whose rows are the tiles.
//
// Copies of planes are (transform, a copy for plain products), where a pair of positions are two tiles, one below the
// other; weights (16 out channels, transform, weights for plain products) and their gradient (transform, out channel,
// tap of the first axis, run of input).

#include "kernels/cpu/winograd_tile.inl"

constexpr long outputs = 4, transforms = 6;

long tiles_of_plane(const Geometry& g) { return (g.rows + outputs - 1) / outputs; }

// The convolution of one transform.
Geometry of_transform(const Geometry& g) {
  Geometry t = g;
  t.rows = t.padded_rows = tiles_of_plane(g);
  t.kernel[1] = 1;
  return t;
}

// The same for the weight gradient, where planes that are taken together are one. A pair of numbers are two tiles, one
// below the other.
Geometry of_pairs(const Geometry& g) {
  Geometry t = of_transform(g);
  t.rows = t.padded_rows = (t.rows * g.together + 1) / 2;
  t.together = t.there = 1;
  return t;
}

// A tile, counted over all planes that are taken together: its plane, and its first row there.
struct Tile {
  long plane, row;
  Tile(const Geometry& g, long number) : plane(number / tiles_of_plane(g)), row(number % tiles_of_plane(g) * outputs) {}
};

// As many planes as have some positions: then the tiles of products are full, and each packed weight serves several.
// Tiles of planes lie below each other without padding between them.
long planes_together(const Geometry& g) {
  constexpr long positions = 512;
  const long together = positions / (g.rows * g.width);
  // Products read past a run that is not whole steps, with weights of zero: never another sample's input.
  return g.kernel[0] == 1 && together > 1 && g.row % deep == 0 ? together : 1;
}

template <long Parts>
Sizes sizes(const Geometry& g) {
  const Geometry of = of_transform(g);
  return {transforms * Parts * halves_for_forward(of) / 2, transforms * Parts * halves_for_weights(of_pairs(g)) / 2,
          transforms * direct::sizes<Parts>(of).packed, (transforms * of.kernel[0] * padded_run(g) + 1) * g.padded_out};
}

template <long Parts>
void pack(const Geometry& g, const Weights& w, long first, float* packed) {
  const Geometry of = of_transform(g);
  const long steps = steps_of_run(g), of_tap = steps * Parts * tile_halves;
  Half* const to = reinterpret_cast<Half*>(packed) + first / side * transforms * g.kernel[0] * of_tap;
  const auto transformed = [&](long i, long r, Vector(&all)[transforms]) {
    Vector taps[3] = {};
    for (long j = 0; r < g.row && j < 3; ++j)
      taps[j] = weights_at(g, w, first, (i * 3 + j) * g.kernel[2] + r / g.in_channels, r % g.in_channels);
    transform_taps(taps, all);
  };
  for (long i = 0; i < of.kernel[0]; ++i)
    for (long k = 0; k < steps; ++k)
      for (long pair = 0; pair < side; ++pair) {
        Vector low[transforms], high[transforms];
        transformed(i, k * deep + 2 * pair, low);
        transformed(i, k * deep + 2 * pair + 1, high);
        for (long t = 0; t < transforms; ++t)
          store_pairs<Parts>(low[t], high[t],
                             to + (t * of.kernel[0] + i) * of_tap + k * Parts * tile_halves + pair * deep, tile_halves);
      }
}

// The transforms of a tile's six rows for the vector that begins at float i of a row.
inline void input_transforms(const Geometry& g, const float* x, const Affine* map, const Tile& tile, long i,
                             Vector (&to)[transforms]) {
  Vector d[transforms] = {};
  const float* const plane = x + tile.plane * g.in_rows * g.in_width * g.in_channels;
  for (long k = 0; k < transforms; ++k)
    if (const long r = tile.row + k - g.rows_before; r >= 0 && r < g.in_rows && tile.plane < g.there)
      d[k] = input(plane + r * g.in_width * g.in_channels, map, i);
  transform_six(d, to);
}

template <long Parts>
void copy(const Geometry& g, const float* x, const Affine* map, float* plane) {
  const Geometry of = of_transform(g);
  const long width = g.in_width * g.in_channels, part = halves_for_forward(of);
  Half* to = reinterpret_cast<Half*>(plane) + g.columns_before * g.in_channels;
  for (long tile = 0; tile < g.there * of.rows; ++tile, to += g.padded_width * g.in_channels)
    for (long i = 0; i < width; i += deep) {
      const bool whole = i + lanes < width;
      Vector first[transforms], second[transforms];
      input_transforms(g, x, map, {g, tile}, i, first);
      if (whole) input_transforms(g, x, map, {g, tile}, i + lanes, second);
      for (long t = 0; t < transforms; ++t)
        store_line<Parts>(first[t], whole ? second[t] : Vector{}, whole, to + t * Parts * part + i, part);
    }
}

// products: (transform, 16 positions, Across vectors of out channels), `step` floats from transform to transform.
template <long Across>
void store_tiles(const Geometry& g, const float* products, long step, long first, long channel, float* y) {
  const Geometry of = of_transform(g);
  Place at(of, first);
  for (long p = 0; p < side; ++p, at.next(of), products += Across * lanes) {
    if (at.output(of) < 0) continue;
    const long row = at.row * outputs, there = g.rows - row < outputs ? g.rows - row : outputs;
    for (long n = 0; n < Across; ++n) {
      Vector q[transforms], v[outputs];
      for (long t = 0; t < transforms; ++t) q[t] = load(products + t * step + n * lanes);
      outputs_of_tile(q, q[transforms - 1], v);
      float* to = y + ((at.plane * g.rows + row) * g.width + at.column) * g.out_channels + channel + n * lanes;
      for (long r = 0; r < there; ++r, to += g.width * g.out_channels)
        store_output(g, v[r], to, g.out_channels - channel - n * lanes);
    }
  }
}

template <long Parts, long Down, long Across>
void forward_tiles(Sums<Parts, Down, Across> sums, const Geometry& g, const float* const* planes,
                   const PackedWeights& w, const long (&first)[Down], long channel, float* y) {
  constexpr long step = Down * side * Across * lanes;
  static constexpr float zeros[Across * lanes] = {};
  alignas(64) float products[transforms * step];
  const Geometry of = of_transform(g);
  const long of_transform = g.kernel[0] * steps_of_run(g) * Parts * tile_halves, pitch = transforms * of_transform;
  const Half* const weights = reinterpret_cast<const Half*>(w.blocks) + channel / side * pitch;
  for (long t = 0; t < transforms; ++t) {
    const float* const bias = t == 1 ? w.bias + channel : zeros;  // every output has this product exactly once
    sums.load([&](long, long n) { return bias + n * lanes; }, 0);
    add_taps(sums, of, {planes, t * Parts * halves_for_forward(of), weights + t * of_transform, pitch}, first);
    sums.store([&](long m, long n) { return products + t * step + (m * side * Across + n) * lanes; },
               Across * lanes * 4);
  }
  for (long m = 0; m < Down; ++m)
    store_tiles<Across>(g, products + m * side * Across * lanes, step, first[m], channel, y);
}

template <long Parts>
void forward(const Geometry& g, float* const* planes, const PackedWeights& w, float* y) {
  const Geometry of = of_transform(g);
  for_positions<Parts>(
      of, [&](auto sums, const auto& first, long channel) { forward_tiles(sums, g, planes, w, first, channel, y); });
  if (g.stream) fence();
}

template <long Parts>
void copy_for_weights(const Geometry& g, const float* x, const Affine* map, float* plane) {
  const Geometry of = of_pairs(g);
  const long width = g.in_width * g.in_channels, part = halves_for_weights(of);
  Half* to = reinterpret_cast<Half*>(plane) + 2 * (side + g.columns_before * g.in_channels);
  for (long row = 0; row < of.rows; ++row, to += 2 * g.padded_width * g.in_channels)
    for (long i = 0; i < width; i += lanes) {
      Vector first[transforms], second[transforms];
      input_transforms(g, x, map, {g, 2 * row}, i, first);
      input_transforms(g, x, map, {g, 2 * row + 1}, i, second);
      for (long t = 0; t < transforms; ++t)
        store_pairs<Parts>(first[t], second[t], to + t * Parts * part + 2 * i, part);
    }
}

// The transforms of dy for 16 positions of pairs from `first` on and 16 channels, exchanged: (transform, channel).
// number: of the pair.
inline void gradient_transforms(const Geometry& g, long first, long number, const float* dy,
                                Vector (&to)[transforms][side]) {
  long row = first / g.padded_width, column = first % g.padded_width;
  for (long p = 0; p < side; ++p) {
    Vector d[outputs] = {}, all[transforms];
    const Tile tile(g, 2 * row + number);
    for (long r = 0; r < outputs && column < g.width && tile.plane < g.there && tile.row + r < g.rows; ++r)
      d[r] = load(dy + ((tile.plane * g.rows + tile.row + r) * g.width + column) * g.out_channels);
    transform_outputs(d, all);
    for (long t = 0; t < transforms; ++t) to[t][p] = all[t];
    if (++column == g.padded_width) column = 0, ++row;
  }
  for (Vector(&of_transform)[side] : to) transpose(of_transform);
}

// What some steps add to the gradient of one or two vectors of out channels.
template <long Parts, long Down>
void weights_steps(TileRegisters& tiles, const Geometry& g, const Geometry& of, const float* const* planes,
                   const StepRange& steps, const float* dy, float* gradient) {
  constexpr long factor = Parts * tile_halves, of_transform = most_steps * Down * factor;
  alignas(64) Half left[transforms * of_transform];
  for (long k = 0; k < steps.count; ++k)
    for (long m = 0; m < Down; ++m) {
      Vector first[transforms][side], second[transforms][side];
      gradient_transforms(g, steps.first[k], 0, dy + m * lanes, first);
      gradient_transforms(g, steps.first[k], 1, dy + m * lanes, second);
      for (long t = 0; t < transforms; ++t)
        for (long c = 0; c < side; ++c)
          store_pairs<Parts>(first[t][c], second[t][c], left + t * of_transform + (k * Down + m) * factor + c * deep,
                             tile_halves);
    }
  for (long t = 0; t < transforms; ++t)
    weights_products<Parts, Down>(tiles, of, {planes, t * Parts * halves_for_weights(of), left + t * of_transform},
                                  steps, gradient + t * of.kernel[0] * padded_run(g) * g.padded_out);
}

template <long Parts>
void weights(const Geometry& g, float* const* planes, const float* dy, float* gradient) {
  const Geometry of = of_pairs(g);
  const long depth = g.kernel[0] * padded_run(g);
  TileRegisters tiles;
  for_steps(of, side, [&](const StepRange& steps, long channel, auto down) {
    weights_steps<Parts, down.value>(tiles, g, of, planes, steps, dy + channel, gradient + channel * depth);
  });
  if (g.bias) add_bias(g, dy, g.there * g.rows * g.width, gradient + transforms * depth * g.padded_out);
}

void unpack(const Geometry& g, const float* gradient, long first, float* dw, float* db) {
  const long run = padded_run(g), depth = g.kernel[0] * run;
  for (long o = first; o < first + lanes; ++o)
    for (long i = 0; i < g.kernel[0]; ++i)
      for (long r = 0; r < g.row; r += lanes) {
        Vector q[transforms], taps[3];
        for (long t = 0; t < transforms; ++t) q[t] = load(gradient + (t * g.padded_out + o) * depth + i * run + r);
        column_taps(q, taps);
        const long floats = g.row - r < lanes ? g.row - r : lanes;
        for (long j = 0; j < 3; ++j)
          __builtin_memcpy(dw + o * g.depth + (i * 3 + j) * g.row + r, &taps[j],
                           static_cast<unsigned long>(floats) * sizeof(float));
      }
  if (g.bias) store(db + first, load(gradient + transforms * depth * g.padded_out + first));
}

template <long Parts>
const Kernels kernels{lanes,          false,       planes_together,         sizes<Parts>,
                      pack<Parts>,    copy<Parts>, copy_for_weights<Parts>, forward<Parts>,
                      weights<Parts>, unpack};
