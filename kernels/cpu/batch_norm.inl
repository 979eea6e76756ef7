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

// Asks for what a loop will read. Processors foresee no reads behind a page of 4 KB, and none of several runs that are
// read together. near: into the L1 cache. One vector of a line asks for all of it.
inline __attribute__((always_inline)) void prefetch(const float* p, long channel, bool near = true) {
  if (lanes < 16 && channel % 16 != 0) return;
  if (near)
    __builtin_prefetch(p, 0, 3);
  else
    __builtin_prefetch(p, 0, 2);
}
// Whether so many floats of each of some tensors are few enough to ask for as many behind them into the L1 cache. What
// was read is then no longer needed.
inline bool stays_near(long floats, long tensors) { return floats * tensors * 4 <= 32 * 1024; }

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

// body(first channel, Channels, Constant<n>): n vectors side by side, which make a whole line of memory, and then those
// that are left, one by one. A processor keeps few lines that are written past the caches and not whole.
template <class Body>
inline __attribute__((always_inline)) void for_lines(long channels, const Body& body) {
  constexpr long of_line = lanes < 16 ? 16 / lanes : 1;
  long c = 0;
  for (; c + of_line * lanes <= channels; c += of_line * lanes) body(c, Channels<Vector, lanes>{}, Constant<of_line>{});
  for_vectors(channels - c, [&](long more, auto some) { body(c + more, some, Constant<1>{}); });
}

template <class Some, class V>
inline void flush(const Some& some, V v, double* sums) {
  for (long c = 0; c < some.count; ++c) sums[c] += static_cast<double>(some.at(v, c));
}

// Sums of several runs side by side, so that additions do not wait for each other. They are flushed one after the
// other: the bits are those of one run at a time.
constexpr long most_runs = 4;

// How many runs of `bytes` it pays to take together: all of their rows stay in the L1 cache for every vector of
// channels.
inline long runs_together(long bytes) {
  constexpr long room = 32 * 1024;
  return bytes * most_runs <= room ? most_runs : bytes * 2 <= room ? 2 : 1;
}

// Calls body(first, length, Constant<n>) for n runs of `length` rows (or windows) from row `first` on. All runs have
// of_run rows, but the last may be shorter and then comes alone.
template <class Body>
inline void for_runs(long rows, long of_run, long together, const Body& body) {
  for (long first = 0, count = 0; first < rows; first += count) {
    const long left = rows - first, whole = left / of_run, length = left < of_run ? left : of_run;
    const long runs = whole < 1 ? 1 : whole < together ? whole : together;
    count = runs * length;
    with_constant<most_runs>(runs, [&](auto n) { body(first, length, n); });
  }
}

template <long Runs>
inline void moments_of(long rows, long channels, const float* x, const float* shift, double* sums) {
  const bool near = stays_near(Runs * run * channels, 1);
  for_vectors(channels, [&](long c, auto some) {
    const auto from = some.get(shift + c);
    typename decltype(some)::V sum[Runs]{}, squares[Runs]{};
    for (long r = 0; r < rows; ++r)
      for (long k = 0; k < Runs; ++k) {
        prefetch(x + ((k + Runs) * run + r) * channels + c, c, near);
        const auto d = some.get(x + (k * run + r) * channels + c) - from;
        sum[k] += d;
        squares[k] += d * d;
      }
    for (long k = 0; k < Runs; ++k) {
      flush(some, sum[k], sums + c);
      flush(some, squares[k], sums + channels + c);
    }
  });
}

void moments_by_channels(long rows, long channels, const float* x, const float* shift, double* sums) {
  for_runs(rows, run, runs_together(run * channels * 4), [&](long first, long length, auto n) {
    moments_of<decltype(n)::value>(length, channels, x + first * channels, shift, sums);
  });
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

// Positions that are made together: what their channels have in common stays in registers meanwhile. No more, so that
// lines that are written past the caches in several vectors are whole soon.
constexpr long at_once = lanes >= 16 ? 8 : 4;
// Floats from what is read to what is to be asked for then: 1 KB, or those that are made next.
inline long ahead(long channels) {
  constexpr long least = 256;
  return at_once * channels > least ? at_once * channels : least;
}

// Without pooling: loops that the compiler knows to have one turn take a third less time. plus(z, channels, where they
// lie in x): what is activated.
template <class Plus>
void forward_alone(const Line& l, const Terms& terms, const float* x, float* y, const Plus& plus) {
  const long next = ahead(l.channels);
  for (long first = 0; first < l.pooled; first += at_once) {
    const long last = first + at_once < l.pooled ? first + at_once : l.pooled;
    for_lines(l.channels, [&](long begin, auto some, auto vectors) {
      constexpr long of_line = decltype(vectors)::value;
      typename decltype(some)::V mean[of_line], factor[of_line], beta[of_line];
      for (long v = 0; v < of_line; ++v) {
        const Affine<decltype(some)> a(terms, begin + v * lanes);
        mean[v] = a.mean, factor[v] = a.factor, beta[v] = a.beta;
      }
      for (long k = first; k < last; ++k)
        for (long v = 0; v < of_line; ++v) {
          const long c = begin + v * lanes, at = k * l.channels + c;
          prefetch(x + at + next, c);
          const auto z = (some.get(x + at) - mean[v]) * factor[v] + beta[v];
          put_to(l, some, y + k * l.y_stride + c, activate(plus(z, some, at), l.slope));
        }
    });
  }
}

void forward(const Line& l, const Terms& terms, const float* const* lines, long count, float* y) {
  if (count == 1 && l.window == 1) {
    forward_alone(l, terms, lines[0], y, [](auto z, auto, long) { return z; });
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

void forward_keeping(const Line& l, const Terms& terms, const float* const* lines, long count, float* y, float* kept) {
  for (long k = 0; k < l.pooled; ++k, kept += 2 * l.channels)
    for_vectors(l.channels, [&](long c, auto some) {
      using V = typename decltype(some)::V;
      const Affine<decltype(some)> a(terms, c);
      const V one = V{} + 1;
      V sum{}, slopes{}, products{};
      for (long i = 0; i < count; ++i)
        for (long w = 0; w < l.window; ++w) {
          const V centred = some.get(lines[i] + (k * l.window + w) * l.channels + c) - a.mean;
          const V slope = gradient(a, centred, one, l.slope);
          sum += activate(centred * a.factor + a.beta, l.slope);
          slopes += slope;
          products += slope * centred;
        }
      put_to(l, some, y + k * l.y_stride + c, l.share * sum);
      put_to(l, some, kept + c, slopes);
      put_to(l, some, kept + l.channels + c, products);
    });
  if (l.stream) fence();
}

void kept_gradients(long windows, long channels, float share, const float* kept, const float* dy, double* sums) {
  for (long first = 0; first < windows; first += run) {
    const long last = first + run < windows ? first + run : windows;
    for_vectors(channels, [&](long c, auto some) {
      typename decltype(some)::V sum{}, products{};
      for (long k = first; k < last; ++k) {
        const auto d = share * some.get(dy + k * channels + c);
        sum += d * some.get(kept + 2 * k * channels + c);
        products += d * some.get(kept + (2 * k + 1) * channels + c);
      }
      flush(some, sum, sums + c);
      flush(some, products, sums + channels + c);
    });
  }
}

// Sums of several runs of so many windows side by side, as moments_of.
template <bool kAlone, long Runs>
inline void gradients_of_runs(const Line& l, const Terms& terms, long windows, const float* x, const float* dy,
                              double* sums) {
  const long window = kAlone ? 1 : l.window, all = Runs * windows * l.channels;
  const bool near = stays_near(all, 2);
  for_vectors(l.channels, [&](long c, auto some) {
    const Affine<decltype(some)> a(terms, c);
    typename decltype(some)::V sum[Runs]{}, products[Runs]{};
    for (long k = 0; k < windows; ++k)
      for (long n = 0; n < Runs; ++n) {
        const long at = (n * windows + k) * l.channels + c;
        const auto d = l.share * some.get(dy + at);
        prefetch(dy + at + all, c, near);
        if constexpr (kAlone) prefetch(x + at + all, c, near);
        for (long w = 0; w < window; ++w) {
          const auto centred = some.get(x + ((n * windows + k) * window + w) * l.channels + c) - a.mean;
          const auto g = gradient(a, centred, d, l.slope);
          sum[n] += g;
          products[n] += g * centred;
        }
      }
    for (long n = 0; n < Runs; ++n) {
      flush(some, sum[n], sums + c);
      flush(some, products[n], sums + l.channels + c);
    }
  });
}

template <bool kAlone>
void gradients_of(const Line& l, const Terms& terms, const float* x, const float* dy, double* sums) {
  const long window = kAlone ? 1 : l.window, windows = run / window < 1 ? 1 : run / window;
  // Compilers contract single floats in their own ways where several runs are together.
  const long together = l.channels % 4 == 0 ? runs_together(2 * run * l.channels * 4) : 1;
  for_runs(l.pooled, windows, together, [&](long first, long length, auto n) {
    gradients_of_runs<kAlone, decltype(n)::value>(l, terms, length, x + first * window * l.channels,
                                                  dy + first * l.channels, sums);
  });
}

void gradients(const Line& l, const Terms& terms, const float* x, const float* dy, double* sums) {
  (l.window == 1 ? gradients_of<true> : gradients_of<false>)(l, terms, x, dy, sums);
}

void forward_adding(const Line& l, const Terms& terms, const float* x, const float* shortcut, float* y) {
  const long next = ahead(l.channels);
  forward_alone(l, terms, x, y, [&](auto z, auto some, long at) {
    prefetch(shortcut + at + next, at);
    return z + some.get(shortcut + at);
  });
  if (l.stream) fence();
}

// Sums of several runs of so many positions side by side, as moments_of.
template <long Runs>
inline void gradients_adding_of(const Line& l, const Terms& terms, long positions, const float* x, const float* y,
                                const float* dy, float* g, double* sums) {
  const long all = Runs * positions * l.channels;
  const bool near = stays_near(all, 3);
  for_vectors(l.channels, [&](long c, auto some) {
    const auto mean = some.get(terms.mean + c);
    typename decltype(some)::V sum[Runs]{}, products[Runs]{};
    for (long k = 0; k < positions; ++k)
      for (long n = 0; n < Runs; ++n) {
        const long at = (n * positions + k) * l.channels + c;
        if (near) prefetch(dy + at + all, c), prefetch(y + at + all, c), prefetch(x + at + all, c);
        const auto d = some.get(dy + at), of_sum = some.get(y + at) <= 0 ? l.slope * d : d;  // lets NaN pass
        some.put(g + at, of_sum);
        sum[n] += of_sum;
        products[n] += of_sum * (some.get(x + at) - mean);
      }
    for (long n = 0; n < Runs; ++n) {
      flush(some, sum[n], sums + c);
      flush(some, products[n], sums + l.channels + c);
    }
  });
}

void gradients_adding(const Line& l, const Terms& terms, const float* x, const float* y, const float* dy, float* g,
                      double* sums) {
  const long together = l.channels % 4 == 0 ? runs_together(3 * run * l.channels * 4) : 1;
  for_runs(l.pooled, run, together, [&](long first, long length, auto n) {
    const long at = first * l.channels;
    gradients_adding_of<decltype(n)::value>(l, terms, length, x + at, y + at, dy + at, g + at, sums);
  });
}

// What is dx's of some channels.
template <class Some>
struct DataAffine {
  Affine<Some> norm;
  typename Some::V scale, gain, offset, slope;
  DataAffine(const Terms& t, const DataTerms& d, long c)
      : norm(t, c),
        scale(Some::get(d.scale + c)),
        gain(Some::get(d.gain + c)),
        offset(Some::get(d.offset + c)),
        slope(Some::get(d.slope + c)) {}
  // x and the gradient of y at one position.
  typename Some::V operator()(typename Some::V x, typename Some::V dy, float low) const {
    const auto centred = x - norm.mean;
    return scale * (gain * gradient(norm, centred, dy, low) - offset - centred * slope);
  }
};

// dx under the windows, each of which has a gradient.
template <bool kAlone>
void data_under(const Line& l, const Terms& terms, const DataTerms& more, const float* x, const float* dy, float* dx) {
  const long window = kAlone ? 1 : l.window, windows = at_once / window < 1 ? 1 : at_once / window;
  const long next = ahead(l.channels);
  for (long first = 0; first < l.pooled; first += windows) {
    const long last = first + windows < l.pooled ? first + windows : l.pooled;
    for_vectors(l.channels, [&](long c, auto some) {
      const DataAffine<decltype(some)> a(terms, more, c);
      for (long k = first; k < last; ++k) {
        const auto d = l.share * some.get(dy + k * l.channels + c);
        prefetch(dy + k * l.channels + c + next, c);
        prefetch(x + k * window * l.channels + c + next, c);
        for (long p = k * window; p < (k + 1) * window; ++p)
          put_to(l, some, dx + p * l.channels + c, a(some.get(x + p * l.channels + c), d, l.slope));
      }
    });
  }
}

void data(const Line& l, const Terms& terms, const DataTerms& more, const float* x, const float* dy, float* dx) {
  if (dy != nullptr) (l.window == 1 ? data_under<true> : data_under<false>)(l, terms, more, x, dy, dx);
  for (long p = dy == nullptr ? 0 : l.pooled * l.window; p < l.positions; ++p)  // which no window holds
    for_vectors(l.channels, [&](long c, auto some) {
      const DataAffine<decltype(some)> a(terms, more, c);
      put_to(l, some, dx + p * l.channels + c,
             a(some.get(x + p * l.channels + c), typename decltype(some)::V{}, l.slope));
    });
  if (l.stream) fence();
}

const Kernels kernels{moments,   forward,        forward_keeping,  kept_gradients,
                      gradients, forward_adding, gradients_adding, data};

}  // namespace

}  // namespace mrmf::cpu::norm_loops
