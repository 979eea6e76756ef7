// The direct kernels for AMX: a core multiplies tiles of 16 rows of 32 numbers in bf16 at sixteen times the rate of its
// multiply-adds in float32.
//
// A float is the sum of three numbers in bf16, of 8 bits each. Of the nine products of two such sums, the six that
// reach the last bit of a float are added, in float32: so the outputs are as exact as those of plain products in
// float32 (tests/unit/test_conv_exactness.cpp), at six sixteenths of their time. With run.precision = "bf16" the first
// part of each is multiplied alone.
//
// The copy of an input plane for forward is (part, position of the padded plane, in channel), so that the rows of a
// left factor are neighbouring positions, and its columns the run of input under them: no im2col. Weights are (16 out
// channels, taps of the first two axes, 32 numbers of a run, part, pair of numbers, out channel, number of the pair):
// the form of a right factor, whose rows are pairs of what is summed over.
//
// The weight gradient sums over positions, 32 at a time. Pairs of them lie 16 positions apart: then its right factors,
// input, can be copied as (part, position, in channel, number of the pair) and begin at any position, as taps do; and
// its left ones, dy (out channel, pair), need no exchange of numbers within lanes. The gradient lies as dw does, with
// runs of whole tiles.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 16
#define DIRECT_TILE 12

namespace mrmf::cpu::direct {
namespace {

#include "kernels/cpu/amx_tiles.inl"

// Planes that are taken together lie below each other, each with its padding.
long all_rows(const Geometry& g) { return g.together * g.row_stride * g.padded_rows; }
// Where a row of the padded plane lies in its copy: those under one tap lie below each other, as their outputs do.
inline long row_of_copy(const Geometry& g, long row) {
  return g.row_stride == 1 ? row : row % g.row_stride * g.padded_rows + row / g.row_stride;
}

// What is made, or summed over, at once, so many neighbouring positions: of one row where rows are whole numbers of
// them, or else counted through the padded planes, whose padding then has outputs that nobody wants.
struct Positions {
  long length, in_row, count;  // in_row: of a row, or 0
  Positions(const Geometry& g, long at_once)
      : length(at_once),
        in_row(g.width % length == 0 ? g.width / length : 0),
        count(in_row > 0
                  ? in_row * g.rows * g.there
                  : (((g.there - 1) * g.padded_rows + g.rows - 1) * g.padded_width + g.width + length - 1) / length) {}
  long first(const Geometry& g, long number) const {
    if (in_row == 0) return number * length;
    const long row = number / in_row;
    return (row / g.rows * g.padded_rows + row % g.rows) * g.padded_width + number % in_row * length;
  }
};

// A position of the padded planes, and where its outputs begin; -1: nowhere.
struct Place {
  long plane, row, column;
  Place(const Geometry& g, long position) {
    const long all = position / g.padded_width;
    plane = all / g.padded_rows, row = all % g.padded_rows, column = position % g.padded_width;
  }
  void next(const Geometry& g) {
    if (++column < g.padded_width) return;
    column = 0;
    if (++row == g.padded_rows) row = 0, ++plane;
  }
  long output(const Geometry& g) const {
    const bool there = plane < g.there && row < g.rows && column < g.width;
    return there ? (plane * g.rows + row) * g.y_row + column * g.y_column : -1;
  }
};

// The numbers of a part of a plane's copy for forward, in whole lines of the caches. A tile may read past the last
// position, and past a run.
long halves_for_forward(const Geometry& g) {
  return ((all_rows(g) * g.padded_width + side) * g.step + 2 * deep - 1) / deep * deep;
}
long steps_of_run(const Geometry& g) { return (g.row + deep - 1) / deep; }

// The numbers of a part of a plane's copy for the weight gradient. The last step may read past the last position, and
// past a run; some lie before the first position.
long halves_for_weights(const Geometry& g) { return 2 * ((all_rows(g) * g.padded_width + deep) * g.step + 2 * side); }
// The floats of a run in the weight gradient, where it is whole tiles.
long padded_run(const Geometry& g) { return (g.row + side - 1) / side * side; }

template <long Parts>
Sizes sizes(const Geometry& g) {
  return {Parts * halves_for_forward(g) / 2, Parts * halves_for_weights(g) / 2,
          g.kernel[0] * g.kernel[1] * steps_of_run(g) * Parts * side * g.padded_out,
          (g.kernel[0] * g.kernel[1] * padded_run(g) + 1) * g.padded_out};
}

// The vector that begins at float i of an input row.
inline Vector input(const float* x, const Affine* map, long i) {
  const Vector v = load(x + i);
  return map == nullptr ? v : (v - load(map->mean + i)) * load(map->factor + i) + load(map->beta + i);
}

// Where an input row begins in the padded plane.
inline long first_float(const Geometry& g, long row) {
  return row_of_copy(g, row + g.rows_before) * g.padded_width * g.step + g.columns_before * g.in_channels;
}

template <long Parts>
void copy(const Geometry& g, const float* x, const Affine* map, float* plane) {
  const long width = g.in_width * g.in_channels, part = halves_for_forward(g);
  for (long r = 0; r < g.in_rows; ++r, x += width) {
    if (!is_read(g, r)) continue;
    Half* const to = reinterpret_cast<Half*>(plane) + first_float(g, r);
    for (long i = 0; i < width; i += deep) {
      const bool whole = i + lanes < width;
      store_line<Parts>(input(x, map, i), whole ? input(x, map, i + lanes) : Vector{}, whole, to + i, part);
    }
  }
}

// Each number of input is the first one of a pair, and the second one of the pair 16 positions before.
template <long Parts>
void copy_for_weights(const Geometry& g, const float* x, const Affine* map, float* plane) {
  const long width = g.in_width * g.in_channels, part = halves_for_weights(g), before = side * g.step;
  for (long r = 0; r < g.in_rows; ++r, x += width) {
    if (!is_read(g, r)) continue;
    for (long i = 0, at = first_float(g, r); i < width; i += lanes, at += lanes) {
      Bits parts[Parts];
      split(input(x, map, i), parts);
      Half* to = reinterpret_cast<Half*>(plane) + 2 * (side + at);  // a pair may begin before the first position
      for (long s = 0; s < Parts; ++s, to += part) {
        const Bits first = parts[s] >> 16;
        __builtin_memcpy(to, &first, sizeof first);
        if (at <= before - side) continue;
        Bits pair;
        __builtin_memcpy(&pair, to - 2 * before, sizeof pair);
        pair = pairs(pair << 16, parts[s]);
        __builtin_memcpy(to - 2 * before, &pair, sizeof pair);
      }
    }
  }
}

template <long Parts>
void pack(const Geometry& g, const Weights& w, long first, float* packed) {
  const long taps = g.kernel[0] * g.kernel[1], steps = steps_of_run(g);
  Half* to = reinterpret_cast<Half*>(packed) + first / side * taps * steps * Parts * tile_halves;
  const auto at = [&](long tap, long r) {
    return r < g.row ? weights_at(g, w, first, tap * g.kernel[2] + r / g.in_channels, r % g.in_channels) : Vector{};
  };
  for (long tap = 0; tap < taps; ++tap)
    for (long k = 0; k < steps; ++k, to += Parts * tile_halves)
      for (long pair = 0; pair < side; ++pair)
        store_pairs<Parts>(at(tap, k * deep + 2 * pair), at(tap, k * deep + 2 * pair + 1), to + pair * deep,
                           tile_halves);
}

// Calls body(first, Constant<how many>) for groups of `count` tiles of sums in a line, of which each has `Beside`
// beside it in the other direction.
template <long Parts, long Beside, class Body>
inline void for_groups(long count, const Body& body) {
  constexpr long most = Beside > 1 ? 2 : Parts > 1 ? 3 : 4;
  for (long first = 0, now = 0; first < count; first += now) {
    now = next_block(count - first, most);
    with_constant<most>(now, [&](auto group) { body(first, group); });
  }
}

// A vector of outputs, of which so many channels are there.
inline void store_output(const Geometry& g, Vector v, float* to, long channels) {
  if (channels < lanes)
    __builtin_memcpy(to, &v, static_cast<unsigned long>(channels) * sizeof(float));
  else if (g.stream)
    stream(to, v);
  else
    store(to, v);
}

// The outputs of 16 positions from `first` on, of which those that are there go to y.
template <long Across>
void store_outputs(const Geometry& g, const float* sums, long first, long channel, float* y) {
  Place at(g, first);
  for (long p = 0; p < side; ++p, at.next(g), sums += Across * lanes) {
    const long output = at.output(g);
    float* const to = y + output + channel;
    for (long n = 0; n < Across && output >= 0; ++n)
      store_output(g, load(sums + n * lanes), to + n * lanes, g.out_channels - channel - n * lanes);
  }
}

// Where the numbers of a product lie: in the planes' copies, and of the first of Across vectors of out channels in the
// packed weights, whose vectors are `pitch` numbers apart.
struct Numbers {
  const float* const* planes;
  long of_plane;  // from a plane's beginning
  const Half* weights;
  long pitch;
};

template <long Parts, long Down, long Across>
void add_taps(Sums<Parts, Down, Across> sums, const Geometry& g, const Numbers& of, const long (&first)[Down]) {
  const long steps = steps_of_run(g), run = steps * Parts * tile_halves;
  for (long i = 0; i < g.kernel[0]; ++i) {
    if (of.planes[i] == nullptr) continue;
    const Half* const plane = reinterpret_cast<const Half*>(of.planes[i]) + of.of_plane;
    for (long j = 0; j < g.kernel[1]; ++j) {
      Factors left{{}, halves_for_forward(g), g.step * static_cast<long>(sizeof(Half))};
      Factors right{{}, tile_halves, 64};
      const Half* const tap = plane + row_of_copy(g, j + g.row_shift) * g.padded_width * g.step + g.column_shift;
      for (long m = 0; m < Down; ++m) left.at[m] = tap + first[m] * g.step;
      for (long n = 0; n < Across; ++n) right.at[n] = of.weights + n * of.pitch + (i * g.kernel[1] + j) * run;
      for (long k = 0; k < steps; ++k) {
        sums.add(left, right);
        for (long m = 0; m < Down; ++m) left.at[m] += deep;
        for (long n = 0; n < Across; ++n) right.at[n] += Parts * tile_halves;
      }
    }
  }
}

template <long Parts, long Down, long Across>
void forward_group(Sums<Parts, Down, Across> sums, const Geometry& g, const float* const* planes,
                   const PackedWeights& w, const long (&first)[Down], long channel, float* y) {
  const long pitch = g.kernel[0] * g.kernel[1] * steps_of_run(g) * Parts * tile_halves;
  sums.load([&](long, long n) { return w.bias + channel + n * lanes; }, 0);
  add_taps(sums, g, {planes, 0, reinterpret_cast<const Half*>(w.blocks) + channel / side * pitch, pitch}, first);
  if (g.width % side == 0 && g.out_channels % lanes == 0 && !g.stream) {  // all 16 are there, side by side
    const auto at = [&](long m, long n) { return y + Place(g, first[m]).output(g) + channel + n * lanes; };
    return sums.store(at, g.y_column * 4);
  }
  alignas(64) float outputs[Down * side * Across * lanes];
  sums.store([&](long m, long n) { return outputs + (m * side * Across + n) * lanes; }, Across * lanes * 4);
  for (long m = 0; m < Down; ++m) store_outputs<Across>(g, outputs + m * side * Across * lanes, first[m], channel, y);
}

// Calls body(sums, the first positions of the tiles below each other, first out channel) for all outputs.
template <long Parts, class Body>
void for_positions(const Geometry& g, const Body& body) {
  const Positions positions(g, side);
  TileRegisters tiles;
  for_blocks(g, [&](long channel, auto across) {
    for_groups<Parts, across.value>(positions.count, [&](long number, auto down) {
      long first[down.value];
      for (long m = 0; m < down.value; ++m) first[m] = positions.first(g, number + m);
      body(Sums<Parts, down.value, across.value>{tiles}, first, channel);
    });
  });
}

template <long Parts>
void forward(const Geometry& g, float* const* planes, const PackedWeights& w, float* y) {
  for_positions<Parts>(
      g, [&](auto sums, const auto& first, long channel) { forward_group(sums, g, planes, w, first, channel, y); });
  if (g.stream) fence();
}

// Steps of the sum over positions for which dy is split at a time.
constexpr long most_steps = 4;

// dy of 16 positions from `first` on, for 16 channels. Positions of the padding have zeros.
inline void gradients_of(const Geometry& g, long first, const float* dy, Vector (&to)[side]) {
  Place at(g, first);
  for (Vector& v : to) {
    const long output = at.output(g);
    v = output >= 0 ? load(dy + output) : Vector{};
    at.next(g);
  }
}

// The same of 32 positions as left factors: (part, out channel, pair).
template <long Parts>
void split_gradients(const Geometry& g, long first, const float* dy, Half* to) {
  Vector of[2][side];
  for (long h = 0; h < 2; ++h) {
    gradients_of(g, first + h * side, dy, of[h]);
    transpose(of[h]);
  }
  for (long c = 0; c < side; ++c) store_pairs<Parts>(of[0][c], of[1][c], to + c * deep, tile_halves);
}

// The positions at which some steps begin.
struct StepRange {
  long count = 0, first[most_steps] = {};
};

// Calls body(steps, first out channel, Constant<vectors of them>) for all of the sum.
template <class Body>
void for_steps(const Geometry& g, long of_step, const Body& body) {
  const Positions all(g, of_step);
  for_blocks(g, [&](long channel, auto down) {
    StepRange steps;
    for (long first = 0; first < all.count; first += steps.count) {
      steps.count = next_block(all.count - first, most_steps);
      for (long k = 0; k < steps.count; ++k) steps.first[k] = all.first(g, first + k);
      body(steps, channel, down);
    }
  });
}

// Where the numbers of the weight gradient's products lie: in the planes' copies, and dy (step, 16 out channels, left
// factor).
struct GradientNumbers {
  const float* const* planes;
  long of_plane;  // from a plane's beginning
  const Half* dy;
};

// Adds to Across tiles of a plane from number `first` on, and Down below each other. A tile is 16 floats of a run, of
// 16 out channels.
template <long Parts, long Down, long Across>
void weights_group(Sums<Parts, Down, Across> sums, const Geometry& g, const StepRange& steps, const Half* plane,
                   const Half* dy, long first, float* gradient) {
  const long in_run = padded_run(g) / side, depth = g.kernel[0] * g.kernel[1] * padded_run(g);
  const auto at = [&](long m, long n) { return gradient + m * lanes * depth + (first + n) * side; };
  const Half* x[Across];
  for (long n = 0; n < Across; ++n) {
    const long tap = (first + n) / in_run, floats = (first + n) % in_run * side;
    x[n] = plane + 2 * (side + row_of_copy(g, tap) * g.padded_width * g.step + floats);
  }
  Factors left{{}, tile_halves, 64}, right{{}, halves_for_weights(g), g.step * 4};
  sums.load(at, depth * 4);
  for (long k = 0; k < steps.count; ++k) {
    for (long m = 0; m < Down; ++m) left.at[m] = dy + (k * Down + m) * Parts * tile_halves;
    for (long n = 0; n < Across; ++n) right.at[n] = x[n] + 2 * steps.first[k] * g.step;
    sums.add(left, right);
  }
  sums.store(at, depth * 4);
}

// What some steps add to the gradient of one or two vectors of out channels.
template <long Parts, long Down>
void weights_products(TileRegisters& tiles, const Geometry& g, const GradientNumbers& of, const StepRange& steps,
                      float* gradient) {
  const long of_plane = g.kernel[1] * padded_run(g);
  for (long i = 0; i < g.kernel[0]; ++i) {
    if (of.planes[i] == nullptr) continue;
    const Half* const plane = reinterpret_cast<const Half*>(of.planes[i]) + of.of_plane;
    for_groups<Parts, Down>(of_plane / side, [&](long first, auto across) {
      weights_group<Parts, Down, across.value>({tiles}, g, steps, plane, of.dy, first, gradient + i * of_plane);
    });
  }
}

template <long Parts>
void weights(const Geometry& g, float* const* planes, const float* dy, float* gradient) {
  const long depth = g.kernel[0] * g.kernel[1] * padded_run(g);
  TileRegisters tiles;
  for_steps(g, deep, [&](const StepRange& steps, long channel, auto down) {
    alignas(64) Half left[most_steps * down.value * Parts * tile_halves];
    Half* to = left;
    for (long k = 0; k < steps.count; ++k)
      for (long m = 0; m < down.value; ++m, to += Parts * tile_halves)
        split_gradients<Parts>(g, steps.first[k], dy + channel + m * lanes, to);
    weights_products<Parts, down.value>(tiles, g, {planes, 0, left}, steps, gradient + channel * depth);
  });
  if (g.bias) add_bias(g, dy, g.there * g.rows * g.width, gradient + depth * g.padded_out);
}

void unpack(const Geometry& g, const float* gradient, long first, float* dw, float* db) {
  const long runs = g.kernel[0] * g.kernel[1];
  for (long r = first * runs; r < (first + lanes) * runs; ++r)
    __builtin_memcpy(dw + r * g.row, gradient + r * padded_run(g), static_cast<unsigned long>(g.row) * sizeof(float));
  if (g.bias) store(db + first, load(gradient + runs * padded_run(g) * g.padded_out + first));
}

namespace rows {
#include "kernels/cpu/amx_winograd.inl"
}

template <long Parts>
const Kernels kernels{
    lanes,          false,          one_plane, sizes<Parts>, pack<Parts>, copy<Parts>, copy_for_weights<Parts>,
    forward<Parts>, weights<Parts>, unpack};

const AmxKernels all{kernels<3>, rows::kernels<3>, kernels<1>};

}  // namespace

const AmxKernels& amx_kernels() { return all; }

}  // namespace mrmf::cpu::direct
