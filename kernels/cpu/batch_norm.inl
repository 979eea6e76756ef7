// The loops of batch norm and group norm, written with GCC's vector extensions and included once per instruction set.
// The including file defines VECTOR_LANES. Everything here has internal linkage.
//
// They go from position to position, and at each from channel to channel: so memory is read and written in its order,
// and what is written past the caches makes whole lines. What a channel's values have in common comes from the L1
// cache.
//
// Sums are of floats over a few rows, held in a register, and then added to doubles: what is summed is near zero in the
// mean (x - shift, gradients), so the short float sums lose no more than float inputs have.
namespace mrmf::cpu::norm_loops {
namespace {

#include "kernels/cpu/vectors.inl"

constexpr long run = 32;  // rows summed as floats

// Some neighbouring channels: a vector, or a shorter one of those that are left behind whole vectors.
template <class Floats, long Count>
struct Channels {
  using V = Floats;
  static constexpr long count = Count;
  static V get(const float* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void put(float* p, V v) { __builtin_memcpy(p, &v, sizeof v); }
  static float at(V v, long c) {
    if constexpr (Count == 1)
      return v;
    else
      return v[c];
  }
};
typedef float Eight __attribute__((vector_size(32)));
typedef float Four __attribute__((vector_size(16)));

// body(first channel, Channels) for all channels.
template <class Body>
inline __attribute__((always_inline)) void for_vectors(long channels, const Body& body) {
  long c = 0;
  for (; c + lanes <= channels; c += lanes) body(c, Channels<Vector, lanes>{});
  if constexpr (lanes > 8)
    for (; c + 8 <= channels; c += 8) body(c, Channels<Eight, 8>{});
  if constexpr (lanes > 4)
    for (; c + 4 <= channels; c += 4) body(c, Channels<Four, 4>{});
  for (; c < channels; ++c) body(c, Channels<float, 1>{});
}

template <class Some, class V>
inline void flush(const Some& some, V v, double* sums) {
  for (long c = 0; c < some.count; ++c) sums[c] += static_cast<double>(some.at(v, c));
}

void moments_by_channels(long rows, long channels, const float* x, const float* shift, double* sums) {
  for (long first = 0; first < rows; first += run, x += run * channels) {
    const long count = rows - first < run ? rows - first : run;
    for_vectors(channels, [&](long c, auto some) {
      const auto from = some.get(shift + c);
      typename decltype(some)::V sum{}, squares{};
      for (long r = 0; r < count; ++r) {
        const auto d = some.get(x + r * channels + c) - from;
        sum += d;
        squares += d * d;
      }
      flush(some, sum, sums + c);
      flush(some, squares, sums + channels + c);
    });
  }
}

// Where a vector has room for several rows, as of a network's input, it takes them together.
void moments(long rows, long channels, const float* x, const float* shift, double* sums) {
  const long together = lanes % channels == 0 ? lanes / channels : 1;
  if (together == 1) return moments_by_channels(rows, channels, x, shift, sums);
  float repeated[lanes];
  double wide[2 * lanes] = {};
  for (long i = 0; i < lanes; ++i) repeated[i] = shift[i % channels];
  moments_by_channels(rows / together, lanes, x, repeated, wide);
  for (long i = 0; i < lanes; ++i) {
    sums[i % channels] += wide[i];
    sums[channels + i % channels] += wide[lanes + i];
  }
  const long done = rows / together * together;
  moments_by_channels(rows - done, channels, x + done * channels, shift, sums);
}

// Terms of some channels.
template <class Some>
struct Affine {
  typename Some::V mean, factor, beta;
  Affine(const Terms& t, long c)
      : mean(Some::get(t.mean + c)), factor(Some::get(t.factor + c)), beta(Some::get(t.beta + c)) {}
};

template <class Some, class V>
inline void put_to(const Line& l, const Some& some, float* to, V v) {
  if constexpr (Some::count == lanes)
    if (l.stream) return stream(to, v);
  some.put(to, v);
}

template <class V>
inline V activate(V z, float slope) {
  return z < 0 ? slope * z : z;
}

// Without pooling: loops that the compiler knows to have one turn take a third less time.
void forward_alone(const Line& l, const Terms& terms, const float* x, float* y) {
  for (long k = 0; k < l.pooled; ++k, x += l.channels, y += l.y_stride)
    for_vectors(l.channels, [&](long c, auto some) {
      const Affine<decltype(some)> a(terms, c);
      put_to(l, some, y + c, activate((some.get(x + c) - a.mean) * a.factor + a.beta, l.slope));
    });
}

void forward(const Line& l, const Terms& terms, const float* const* lines, long count, float* y) {
  if (count == 1 && l.window == 1) {
    forward_alone(l, terms, lines[0], y);
  } else {
    for (long k = 0; k < l.pooled; ++k)
      for_vectors(l.channels, [&](long c, auto some) {
        const Affine<decltype(some)> a(terms, c);
        typename decltype(some)::V sum{};
        for (long i = 0; i < count; ++i)
          for (long w = 0; w < l.window; ++w)
            sum += activate((some.get(lines[i] + (k * l.window + w) * l.channels + c) - a.mean) * a.factor + a.beta,
                            l.slope);
        put_to(l, some, y + k * l.y_stride + c, l.share * sum);
      });
  }
  if (l.stream) fence();
}

// The gradient of batch norm's output: of pooling, and of the activation, which lets NaN pass.
template <class Some, class V>
inline V gradient(const Affine<Some>& a, V centred, V dy, float low) {
  const V z = centred * a.factor + a.beta;
  return z <= 0 ? low * dy : dy;
}

template <bool kAlone>
void gradients_of(const Line& l, const Terms& terms, const float* x, const float* dy, double* sums) {
  const long window = kAlone ? 1 : l.window, windows = run / window < 1 ? 1 : run / window;
  for (long first = 0; first < l.pooled; first += windows) {
    const long last = first + windows < l.pooled ? first + windows : l.pooled;
    for_vectors(l.channels, [&](long c, auto some) {
      const Affine<decltype(some)> a(terms, c);
      typename decltype(some)::V sum{}, products{};
      for (long k = first; k < last; ++k) {
        const auto d = l.share * some.get(dy + k * l.channels + c);
        for (long w = 0; w < window; ++w) {
          const auto centred = some.get(x + (k * window + w) * l.channels + c) - a.mean;
          const auto g = gradient(a, centred, d, l.slope);
          sum += g;
          products += g * centred;
        }
      }
      flush(some, sum, sums + c);
      flush(some, products, sums + l.channels + c);
    });
  }
}

void gradients(const Line& l, const Terms& terms, const float* x, const float* dy, double* sums) {
  (l.window == 1 ? gradients_of<true> : gradients_of<false>)(l, terms, x, dy, sums);
}

// dx of one position, of which a window has the gradient dy; null: none.
inline void position_data(const Line& l, const Terms& terms, const DataTerms& more, const float* x, const float* dy,
                          float* dx) {
  for_vectors(l.channels, [&](long c, auto some) {
    const Affine<decltype(some)> a(terms, c);
    const auto centred = some.get(x + c) - a.mean;
    typename decltype(some)::V d{};
    if (dy != nullptr) d = l.share * some.get(dy + c);
    const auto g = some.get(more.gain + c) * gradient(a, centred, d, l.slope);
    put_to(l, some, dx + c,
           some.get(more.scale + c) * (g - some.get(more.offset + c) - centred * some.get(more.slope + c)));
  });
}

void data(const Line& l, const Terms& terms, const DataTerms& more, const float* x, const float* dy, float* dx) {
  const long pooled = dy == nullptr ? 0 : l.pooled;
  for (long k = 0; k < pooled; ++k)
    for (long w = 0; w < l.window; ++w, x += l.channels, dx += l.channels)
      position_data(l, terms, more, x, dy + k * l.channels, dx);
  for (long position = pooled * l.window; position < l.positions; ++position, x += l.channels, dx += l.channels)
    position_data(l, terms, more, x, nullptr, dx);
  if (l.stream) fence();
}

const Kernels kernels{moments, forward, gradients, data};

}  // namespace

}  // namespace mrmf::cpu::norm_loops
