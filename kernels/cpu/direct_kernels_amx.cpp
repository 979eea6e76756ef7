// The direct kernels for AMX: a core multiplies tiles of 16 rows of 32 numbers in bf16 at sixteen times the rate of its
// multiply-adds in float32.
//
// A float is the sum of three numbers in bf16, of 8 bits each. Of the nine products of two such sums, the six that
// reach the last bit of a float are added, in float32: so the outputs are as exact as those of plain products in
// float32 (tests/unit/test_amx_conv.cpp), at six sixteenths of their time. With run.precision = "bf16" the first part
// of each is multiplied alone.
//
// The copy of an input plane for forward is (part, position of the padded plane, in channel), so that the rows of a
// left factor are neighbouring positions, and its columns the run of input under them: no im2col. Weights are (16 out
// channels, taps of the first two axes, 32 numbers of a run, part, pair of numbers, out channel, number of the pair):
// the form of a right factor, whose rows are pairs of what is summed over.
//
// The weight gradient sums over positions, 32 at a time. Pairs of them lie 16 positions apart: then its right factors,
// input, can be copied as (part, position, in channel, number of the pair) and begin at any position, as taps do; and
// its left ones, dy (out channel, pair), need no exchange of numbers within lanes. The gradient lies as dw does.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 16
#define DIRECT_TILE 12

namespace mrmf::cpu::direct {
namespace {

#include "kernels/cpu/amx_tiles.inl"

// What forward makes of 16 neighbouring positions at once, and which they are: of one row where rows are whole tiles of
// them, or else counted through the padded plane, whose padding to the right then has outputs that nobody wants.
struct Positions {
  long in_row, count;  // tiles in a row, or 0; all tiles
  explicit Positions(const Geometry& g)
      : in_row(g.width % side == 0 ? g.width / side : 0),
        count(in_row > 0 ? in_row * g.rows : ((g.rows - 1) * g.padded_width + g.width + side - 1) / side) {}
  long first(const Geometry& g, long number) const {
    return in_row > 0 ? number / in_row * g.padded_width + number % in_row * side : number * side;
  }
};

long padded_rows(const Geometry& g) { return g.rows + g.kernel[1] - 1; }

// The numbers of a part of a plane's copy for forward. A tile may read past the last position, and past a run.
long halves_for_forward(const Geometry& g) { return (padded_rows(g) * g.padded_width + side) * g.in_channels + deep; }
long steps_of_run(const Geometry& g) { return (g.row + deep - 1) / deep; }

// What the weight gradient sums over at once, 32 neighbouring positions: as Positions.
struct Steps {
  long in_row, count;
  explicit Steps(const Geometry& g)
      : in_row(g.width % deep == 0 ? g.width / deep : 0),
        count(in_row > 0 ? in_row * g.rows : ((g.rows - 1) * g.padded_width + g.width + deep - 1) / deep) {}
  long first(const Geometry& g, long number) const {
    return in_row > 0 ? number / in_row * g.padded_width + number % in_row * deep : number * deep;
  }
};

// The numbers of a part of a plane's copy for the weight gradient. The last step may read past the last position.
long halves_for_weights(const Geometry& g) { return 2 * (padded_rows(g) * g.padded_width + deep) * g.in_channels; }

template <long Parts>
Sizes sizes(const Geometry& g) {
  const long forward = halves_for_forward(g), weights = halves_for_weights(g);
  return {(Parts * (forward > weights ? forward : weights) + 1) / 2,
          g.kernel[0] * g.kernel[1] * steps_of_run(g) * Parts * side * g.padded_out, (g.depth + 1) * g.padded_out};
}

// The vector that begins at float i of an input row.
inline Vector input(const float* x, const Affine* map, long i) {
  const Vector v = load(x + i);
  return map == nullptr ? v : (v - load(map->mean + i)) * load(map->factor + i) + load(map->beta + i);
}

template <long Parts>
void copy(const Geometry& g, const float* x, const Affine* map, float* plane) {
  const long width = g.in_width * g.in_channels, part = halves_for_forward(g);
  Half* to = reinterpret_cast<Half*>(plane) + (g.rows_before * g.padded_width + g.columns_before) * g.in_channels;
  for (long r = 0; r < g.in_rows; ++r, x += width, to += g.padded_width * g.in_channels)
    for (long i = 0; i < width; i += deep) {
      const bool whole = i + lanes < width;
      Bits first[Parts], second[Parts];
      split(input(x, map, i), first);
      split(whole ? input(x, map, i + lanes) : Vector{}, second);
      for (long s = 0; s < Parts; ++s) {
        const Halves both = line(first[s], second[s]);
        if (whole)
          __builtin_memcpy(to + s * part + i, &both, sizeof both);
        else
          __builtin_memcpy(to + s * part + i, &both, sizeof both / 2);
      }
    }
}

// Makes the pairs of the padded plane for 16 channels, of one position after the other.
template <long Parts>
struct Pairs {
  Half* to;  // the pair that begins at the next position, less 16 positions
  long pitch, part;
  Bits before[side][Parts] = {};  // the last 16 positions
  long next = 0;

  inline void add(Vector v) {
    Bits(&first)[Parts] = before[next % side];
    Bits second[Parts];
    split(v, second);
    for (long s = 0; s < Parts; ++s) {
      const Bits both = pairs(first[s], second[s]);
      if (next >= side) __builtin_memcpy(to + (next - side) * pitch + s * part, &both, sizeof both);
      first[s] = second[s];
    }
    ++next;
  }
  void add_zeros(long count) {
    for (long i = 0; i < count; ++i) add(Vector{});
  }
};

template <long Parts>
void copy_for_weights(const Geometry& g, const float* x, const Affine* map, float* plane) {
  for (long c = 0; c < g.in_channels; c += lanes) {
    Pairs<Parts> to{reinterpret_cast<Half*>(plane) + 2 * c, 2 * g.in_channels, halves_for_weights(g)};
    to.add_zeros(g.rows_before * g.padded_width);
    const float* row = x;
    for (long r = 0; r < g.in_rows; ++r, row += g.in_width * g.in_channels) {
      to.add_zeros(g.columns_before);
      for (long p = 0; p < g.in_width; ++p) to.add(input(row, map, p * g.in_channels + c));
      to.add_zeros(g.padded_width - g.in_width - g.columns_before);
    }
    to.add_zeros(side);
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
      for (long pair = 0; pair < side; ++pair) {
        Bits low[Parts], high[Parts];
        split(at(tap, k * deep + 2 * pair), low);
        split(at(tap, k * deep + 2 * pair + 1), high);
        for (long s = 0; s < Parts; ++s) {
          const Bits both = pairs(low[s], high[s]);
          __builtin_memcpy(to + s * tile_halves + pair * deep, &both, sizeof both);
        }
      }
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

// The outputs of 16 positions from `first` on, of which those that are there go to y.
template <long Across>
void store_outputs(const Geometry& g, const float* sums, long first, float* y) {
  long row = first / g.padded_width, column = first % g.padded_width;
  for (long p = 0; p < side; ++p, ++column, sums += Across * lanes) {
    if (column == g.padded_width) column = 0, ++row;
    if (row >= g.rows || column >= g.width) continue;
    float* const to = y + (row * g.width + column) * g.out_channels;
    for (long n = 0; n < Across; ++n) {
      const Vector v = load(sums + n * lanes);
      if (g.stream)
        stream(to + n * lanes, v);
      else
        store(to + n * lanes, v);
    }
  }
}

template <long Parts, long Down, long Across>
void forward_group(Sums<Parts, Down, Across> sums, const Geometry& g, const float* const* planes,
                   const PackedWeights& w, const long (&first)[Down], long channel, float* y) {
  const long steps = steps_of_run(g), run = steps * Parts * tile_halves;
  const long of_channels = g.kernel[0] * g.kernel[1] * run;
  const Half* const weights = reinterpret_cast<const Half*>(w.blocks) + channel / side * of_channels;
  sums.load([&](long, long n) { return w.bias + channel + n * lanes; }, 0);
  for (long i = 0; i < g.kernel[0]; ++i) {
    if (planes[i] == nullptr) continue;
    for (long j = 0; j < g.kernel[1]; ++j) {
      Factors left{{}, halves_for_forward(g), g.in_channels * static_cast<long>(sizeof(Half))};
      for (long m = 0; m < Down; ++m)
        left.at[m] = reinterpret_cast<const Half*>(planes[i]) + (first[m] + j * g.padded_width) * g.in_channels;
      Factors right{{}, tile_halves, 64};
      for (long n = 0; n < Across; ++n) right.at[n] = weights + n * of_channels + (i * g.kernel[1] + j) * run;
      for (long k = 0; k < steps; ++k) {
        sums.add(left, right);
        for (long m = 0; m < Down; ++m) left.at[m] += deep;
        for (long n = 0; n < Across; ++n) right.at[n] += Parts * tile_halves;
      }
    }
  }
  if (g.width % side == 0 && !g.stream) {  // all 16 are there, side by side
    const auto at = [&](long m, long n) {
      return y + (first[m] - first[m] / g.padded_width * (g.padded_width - g.width)) * g.out_channels + channel +
             n * lanes;
    };
    return sums.store(at, g.out_channels * 4);
  }
  alignas(64) float outputs[Down * side * Across * lanes];
  sums.store([&](long m, long n) { return outputs + (m * side * Across + n) * lanes; }, Across * lanes * 4);
  for (long m = 0; m < Down; ++m) store_outputs<Across>(g, outputs + m * side * Across * lanes, first[m], y + channel);
}

template <long Parts>
void forward(const Geometry& g, const float* const* planes, const PackedWeights& w, float* y) {
  const Positions positions(g);
  TileRegisters tiles;
  for_blocks(g, [&](long channel, auto across) {
    for_groups<Parts, across.value>(positions.count, [&](long number, auto down) {
      long first[down.value];
      for (long m = 0; m < down.value; ++m) first[m] = positions.first(g, number + m);
      forward_group<Parts, down.value, across.value>({tiles}, g, planes, w, first, channel, y);
    });
  });
  if (g.stream) fence();
}

// Steps of the sum over positions for which dy is split at a time.
constexpr long most_steps = 4;

// dy of 16 positions from `first` on, for 16 channels. Positions of the padding have zeros.
inline void gradients_of(const Geometry& g, long first, const float* dy, Vector (&to)[side]) {
  long row = first / g.padded_width, column = first % g.padded_width;
  for (Vector& v : to) {
    v = row < g.rows && column < g.width ? load(dy + (row * g.width + column) * g.out_channels) : Vector{};
    if (++column == g.padded_width) column = 0, ++row;
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
  for (long c = 0; c < side; ++c) {
    Bits low[Parts], high[Parts];
    split(of[0][c], low);
    split(of[1][c], high);
    for (long s = 0; s < Parts; ++s) {
      const Bits both = pairs(low[s], high[s]);
      __builtin_memcpy(to + s * tile_halves + c * deep, &both, sizeof both);
    }
  }
}

// The input that a tile of the weight gradient sums over for the first position: 16 in channels of a tap of the second
// and third axis.
const Half* tap_input(const Geometry& g, const float* plane, long number) {
  const long of_tap = g.in_channels / side, tap = number / of_tap, channel = number % of_tap * side;
  const long shift = tap / g.kernel[2] * g.padded_width + tap % g.kernel[2];
  return reinterpret_cast<const Half*>(plane) + 2 * (shift * g.in_channels + channel);
}

// Some steps' positions, and dy there.
struct StepRange {
  long count, first[most_steps];
  const Half* dy;  // (step, 16 out channels, left factor)
};

// Adds to Across tiles from number `tap` on, of a plane, and Down below each other.
template <long Parts, long Down, long Across>
void weights_group(Sums<Parts, Down, Across> sums, const Geometry& g, const StepRange& steps, const float* plane,
                   long tap, float* gradient) {
  const auto at = [&](long m, long n) { return gradient + m * lanes * g.depth + (tap + n) * side; };
  const Half* x[Across];
  for (long n = 0; n < Across; ++n) x[n] = tap_input(g, plane, tap + n);
  Factors left{{}, tile_halves, 64}, right{{}, halves_for_weights(g), g.in_channels * 4};
  sums.load(at, g.depth * 4);
  for (long k = 0; k < steps.count; ++k) {
    for (long m = 0; m < Down; ++m) left.at[m] = steps.dy + (k * Down + m) * Parts * tile_halves;
    for (long n = 0; n < Across; ++n) right.at[n] = x[n] + 2 * steps.first[k] * g.in_channels;
    sums.add(left, right);
  }
  sums.store(at, g.depth * 4);
}

// What some steps add to the gradient of one or two vectors of out channels.
template <long Parts, long Down>
void weights_steps(const Geometry& g, const Steps& all, const float* const* planes, long first, long count,
                   const float* dy, float* gradient) {
  alignas(64) Half left[most_steps * Down * Parts * tile_halves];
  StepRange steps{count, {}, left};
  for (long k = 0; k < count; ++k) {
    steps.first[k] = all.first(g, first + k);
    for (long m = 0; m < Down; ++m)
      split_gradients<Parts>(g, steps.first[k], dy + m * lanes, left + (k * Down + m) * Parts * tile_halves);
  }
  TileRegisters tiles;
  const long of_plane = g.kernel[1] * g.row;
  for (long i = 0; i < g.kernel[0]; ++i) {
    if (planes[i] == nullptr) continue;
    for_groups<Parts, Down>(of_plane / side, [&](long tap, auto across) {
      weights_group<Parts, Down, across.value>({tiles}, g, steps, planes[i], tap, gradient + i * of_plane);
    });
  }
}

template <long Parts>
void weights(const Geometry& g, const float* const* planes, const float* dy, float* gradient) {
  const Steps all(g);
  for_blocks(g, [&](long channel, auto down) {
    for (long first = 0, count = 0; first < all.count; first += count) {
      count = next_block(all.count - first, most_steps);
      weights_steps<Parts, down.value>(g, all, planes, first, count, dy + channel, gradient + channel * g.depth);
    }
  });
  if (g.bias) add_bias(g, dy, g.rows * g.width, gradient + g.depth * g.padded_out);
}

void unpack(const Geometry& g, const float* gradient, long first, float* dw, float* db) {
  const long begin = first * g.depth, floats = lanes * g.depth;
  __builtin_memcpy(dw + begin, gradient + begin, static_cast<unsigned long>(floats) * sizeof(float));
  if (g.bias) store(db + first, load(gradient + g.depth * g.padded_out + first));
}

template <long Parts>
const Kernels kernels{lanes,          one_plane,      sizes<Parts>, pack<Parts>, copy<Parts>, copy_for_weights<Parts>,
                      forward<Parts>, weights<Parts>, unpack};

const AmxKernels both{kernels<3>, kernels<1>};

}  // namespace

const AmxKernels& amx_kernels() { return both; }

}  // namespace mrmf::cpu::direct
