// Forward by Winograd's F(4,3) or F(4,4) along one axis (included in conv_pool_relu.inl, inside its anonymous
// namespace): the four positions of a pooling window are a tile, whose outputs take six products with three taps, or
// seven with four, in place of twelve or sixteen (A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks;
// points 0, 1, -1, 2, -2, for four taps 1/2, and infinity).
//
// Windows are taken in blocks. The transforms of a block's inputs lie as (product, window, in channel), the weights as
// (block of out channels, product, in channel, out channel of the block), so each product is a small matrix product
// with its sums in registers.

#include "kernels/cpu/winograd_tile.inl"

constexpr long tile_outputs = 4;
constexpr long products_of(long taps) { return tile_outputs + taps - 1; }
// Registers: windows * vectors sums, a vector's weights for each of the vectors, one broadcast input.
constexpr long tile_vectors = 2, tile_windows = (FUSED_REGISTERS - tile_vectors - 2) / tile_vectors;

bool winograd_serves(const Geometry& g) {
  return g.kernel_lines == 1 && g.window_lines == 1 && g.window == tile_outputs && (g.kernel == 3 || g.kernel == 4);
}

// Few channels' products of a window stay in registers: room for four, of any windows.
constexpr long few_channels = 4, few_windows = 64;

// The inputs' transforms of a block, and their products.
long winograd_floats(const Geometry& g) {
  return products_of(g.kernel) * (g.in_channels <= few_channels
                                      ? few_windows * few_channels
                                      : tile_windows * (g.in_channels + tile_vectors * lanes));
}

// The transforms of four taps or three; by double, since they are made once for all samples.
inline void transform_taps(const double (&w)[4], long taps, double* to) {
  const double even = w[0] + w[2], odd = w[1] + w[3], far_even = w[0] + 4 * w[2], far_odd = 2 * w[1] + 8 * w[3];
  if (taps == 3) {
    const double all[] = {
        w[0] / 4, -(even + odd) / 6, -(even - odd) / 6, (far_even + far_odd) / 24, (far_even - far_odd) / 24, w[2]};
    __builtin_memcpy(to, all, sizeof all);
  } else {
    const double half = w[0] + w[1] / 2 + w[2] / 4 + w[3] / 8;
    const double all[] = {-w[0] / 2,
                          -(even + odd) / 3,
                          (even - odd) / 9,
                          (far_even + far_odd) / 36,
                          -(far_even - far_odd) / 60,
                          half * 32 / 45,
                          w[3]};
    __builtin_memcpy(to, all, sizeof all);
  }
}

void pack_winograd(const Geometry& g, const float* w, const float* b, float* packed) {
  const long products = products_of(g.kernel), count = vectors(g.out_channels);
  for (long first = 0, block = 0; first < count; first += block) {
    block = next_block(count - first, tile_vectors);
    for (long c = 0; c < g.in_channels; ++c)
      for (long lane = 0; lane < block * lanes; ++lane) {
        const long o = first * lanes + lane;
        double taps[4] = {}, transformed[products_of(4)];
        for (long k = 0; k < g.kernel && o < g.out_channels; ++k)
          taps[k] = static_cast<double>(w[o * g.field + k * g.in_channels + c]);
        transform_taps(taps, g.kernel, transformed);
        for (long t = 0; t < products; ++t)
          packed[(t * g.in_channels + c) * block * lanes + lane] = static_cast<float>(transformed[t]);
      }
    packed += products * g.in_channels * block * lanes;
  }
  for (long o = 0; o < g.padded_out; ++o) packed[o] = o < g.out_channels ? b[o] : 0.0F;
}

template <class V>
inline void transform_tile(const V (&d)[6], V (&to)[6]) {
  transform_six(d, to);
}
// With the point 1/2, the others' polynomials have a factor (x - 1/2) more.
template <class V>
inline void transform_tile(const V (&d)[7], V (&to)[7]) {
  V shifted[6], six[6];
  for (long k = 0; k < 6; ++k) shifted[k] = d[k + 1] - 0.5F * d[k];
  transform_six(shifted, six);
  for (long k = 0; k < 5; ++k) to[k] = six[k];
  to[5] = 4 * d[1] - 5 * d[3] + d[5];
  to[6] = six[5];
}

// Transforms as many channels of one window, from x on, as V has lanes. The products lie `step` floats apart.
template <long Taps, class V>
inline void transform_channels(const float* x, long channels, float* to, long step) {
  V d[products_of(Taps)], transformed[products_of(Taps)];
  for (long k = 0; k < products_of(Taps); ++k) __builtin_memcpy(d + k, x + k * channels, sizeof(V));
  transform_tile(d, transformed);
  for (long k = 0; k < products_of(Taps); ++k) __builtin_memcpy(to + k * step, transformed + k, sizeof(V));
}

// The transforms of the inputs of `windows` windows from x on, a vector's channels at a time. The last channels are
// taken once more with some before them, so that nothing behind a position is read.
template <long Taps, class V>
void transform_inputs(const Geometry& g, const float* x, long windows, float* to) {
  constexpr long width = sizeof(V) / sizeof(float);
  const long channels = g.in_channels, step = windows * channels;
  for (long window = 0; window < windows; ++window, x += tile_outputs * channels, to += channels)
    for (long c = 0; c < channels; c += width) {
      const long at = c + width <= channels ? c : channels - width;
      transform_channels<Taps, V>(x + at, channels, to + at, step);
    }
}

// (window, in channel) times (in channel, out channel of the block).
template <long Windows, long Block>
inline __attribute__((always_inline)) void multiply_tile(const float* x, long channels, const float* w, float* to) {
  Vector sum[Windows][Block] = {};
  for (long c = 0; c < channels; ++c, w += Block * lanes) {
    Vector weights[Block];
#pragma GCC unroll 32
    for (long n = 0; n < Block; ++n) weights[n] = *reinterpret_cast<const Vector*>(w + n * lanes);
#pragma GCC unroll 32
    for (long r = 0; r < Windows; ++r) {
      const Vector v = broadcast(x[r * channels + c]);
#pragma GCC unroll 32
      for (long n = 0; n < Block; ++n) sum[r][n] += v * weights[n];
    }
  }
#pragma GCC unroll 32
  for (long r = 0; r < Windows; ++r)
#pragma GCC unroll 32
    for (long n = 0; n < Block; ++n) store(to + (r * Block + n) * lanes, sum[r][n]);
}

// The four outputs of a tile from its products.
template <long Products>
inline __attribute__((always_inline)) void tile_outputs_of(const Vector (&p)[Products], Vector (&y)[tile_outputs]) {
  outputs_of_tile(p, p[Products - 1], y);
  if constexpr (Products == products_of(4))
    for (long k = 0; k < tile_outputs; ++k) y[k] += p[5] * (1.0F / static_cast<float>(1 << k));
}

// Stores the maximum of a tile's outputs.
inline __attribute__((always_inline)) void pool_tile(const Geometry& g, const Forward& f,
                                                     const Vector (&y)[tile_outputs], const float* bias, long window,
                                                     long first) {
  Vector value = y[0];
  Mask winner{};
  for (int k = 1; k < static_cast<int>(tile_outputs); ++k) take_if_larger(y[k], k, value, winner);
  store_pooled(g, f, value + *reinterpret_cast<const Vector*>(bias + first), winner, window, first);
}

// Computes a block of windows and of out channels: f.y and f.winner are where the first window is stored.
template <long Taps, long Windows, long Block>
[[gnu::noinline]] void winograd_block(const Geometry& g, const Forward& f, const float* inputs, const float* packed,
                                      const float* bias, long first) {
  float* const products = f.scratch + products_of(Taps) * tile_windows * g.in_channels;
  constexpr long step = Windows * Block * lanes;
  for (long t = 0; t < products_of(Taps); ++t)
    multiply_tile<Windows, Block>(inputs + t * Windows * g.in_channels, g.in_channels,
                                  packed + t * g.in_channels * Block * lanes, products + t * step);
  for (long r = 0; r < Windows; ++r)
    for (long n = 0; n < Block; ++n) {
      Vector p[products_of(Taps)], y[tile_outputs];
      for (long t = 0; t < products_of(Taps); ++t) p[t] = load(products + (r * Block + n) * lanes + t * step);
      tile_outputs_of(p, y);
      pool_tile(g, f, y, bias, r, first + n * lanes);
    }
}

// Computes any windows, for a vector of out channels, whose weights lie as (product, in channel, out channel), `step`
// floats apart. Inputs lie as (window, product, few_channels).
template <long Taps, long Channels>
[[gnu::noinline]] void winograd_few(const Geometry& g, const Forward& f, long windows, const float* packed, long step,
                                    const float* bias, long first) {
  constexpr long products = products_of(Taps);
  Vector w[products][Channels];
  for (long t = 0; t < products; ++t)
    for (long c = 0; c < Channels; ++c) w[t][c] = *reinterpret_cast<const Vector*>(packed + (t * Channels + c) * step);
  const float* x = f.scratch;
  for (long window = 0; window < windows; ++window, x += products * few_channels) {
    Vector p[products] = {}, y[tile_outputs];
#pragma GCC unroll 32
    for (long t = 0; t < products; ++t)
#pragma GCC unroll 4
      for (long c = 0; c < Channels; ++c) p[t] += broadcast(x[t * few_channels + c]) * w[t][c];
    tile_outputs_of(p, y);
    pool_tile(g, f, y, bias, window, first);
  }
}

// Takes at most `most` windows at a time: transform(first window, windows) writes their inputs' transforms to
// f.scratch, and of_block(where to store, windows, vectors of a block of out channels, its weights, its first channel)
// follows for each block.
template <class Transform, class OfBlock>
inline void for_window_blocks(const Geometry& g, const Forward& f, long most, const Transform& transform,
                              const OfBlock& of_block) {
  const long count = vectors(g.out_channels), depth = products_of(g.kernel) * g.in_channels;
  for (long begin = 0, windows = 0; begin < g.windows; begin += windows) {
    windows = next_block(g.windows - begin, most);
    transform(begin, windows);
    const long at = begin * g.out_channels;
    const Forward now{nullptr, nullptr, f.y + at, f.winner ? f.winner + at : nullptr, f.scratch};
    const float* packed = f.packed;
    for (long first = 0, block = 0; first < count; first += block) {
      block = next_block(count - first, tile_vectors);
      of_block(now, windows, block, packed, first * lanes);
      packed += depth * block * lanes;
    }
  }
}

typedef float Quad __attribute__((vector_size(16)));

// Behind the packed weights.
inline const float* bias_of(const Geometry& g, const Forward& f) {
  return f.packed + products_of(g.kernel) * g.in_channels * g.padded_out;
}

template <long Taps, long Channels>
void winograd_windows_of_few(const Geometry& g, const Forward& f) {
  constexpr long products = products_of(Taps);
  const auto transform = [&](long begin, long windows) {
    for (long window = begin; window < begin + windows; ++window) {
      const float* const x = f.x + window * tile_outputs * Channels;
      float* const to = f.scratch + (window - begin) * products * few_channels;
      // With fewer channels than a quad has, the last position's is read with what lies behind it.
      if ((window * tile_outputs + products - 1) * Channels + few_channels <= g.line)
        transform_channels<Taps, Quad>(x, Channels, to, few_channels);
      else
        for (long c = 0; c < Channels; ++c) transform_channels<Taps, float>(x + c, Channels, to + c, few_channels);
    }
  };
  for_window_blocks(g, f, few_windows, transform,
                    [&](const Forward& now, long windows, long block, const float* packed, long first) {
                      for (long n = 0; n < block; ++n)
                        winograd_few<Taps, Channels>(g, now, windows, packed + n * lanes, block * lanes, bias_of(g, f),
                                                     first + n * lanes);
                    });
}

template <long Taps>
void winograd_windows(const Geometry& g, const Forward& f) {
  const auto transform = [&](long begin, long windows) {
    const float* const x = f.x + begin * tile_outputs * g.in_channels;
    if (g.in_channels >= lanes)
      transform_inputs<Taps, Vector>(g, x, windows, f.scratch);
    else
      transform_inputs<Taps, Quad>(g, x, windows, f.scratch);
  };
  for_window_blocks(g, f, tile_windows, transform,
                    [&](const Forward& now, long windows, long block, const float* packed, long first) {
                      with_constant<tile_windows>(windows, [&](auto of_windows) {
                        with_constant<tile_vectors>(block, [&](auto of_block) {
                          winograd_block<Taps, decltype(of_windows)::value, decltype(of_block)::value>(
                              g, now, f.scratch, packed, bias_of(g, f), first);
                        });
                      });
                    });
}

template <long Taps>
void forward_winograd(const Geometry& g, const Forward& f) {
  if (g.in_channels > few_channels) return winograd_windows<Taps>(g, f);
  with_constant<few_channels>(g.in_channels,
                              [&](auto channels) { winograd_windows_of_few<Taps, decltype(channels)::value>(g, f); });
}

void forward_winograd(const Geometry& g, const Forward& f) {
  if (g.kernel == 3)
    forward_winograd<3>(g, f);
  else
    forward_winograd<4>(g, f);
}
