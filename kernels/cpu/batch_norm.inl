// The loops of batch norm, for one vector of channels at a time, written with GCC's vector extensions and included once
// per instruction set. The including file defines VECTOR_LANES. Everything here has internal linkage.
//
// Sums are of floats over a few rows, held in a register, and then added to doubles: what is summed is near zero in the
// mean (x - shift, gradients), so the short float sums lose no more than float inputs have.
namespace mrmf::cpu::norm_loops {
namespace {

#include "kernels/cpu/vectors.inl"

constexpr long run = 32;  // rows summed as floats

// A vector of neighbouring channels, of which the last may hold fewer than a vector has lanes.
struct WholeVector {
  static constexpr long count() { return lanes; }
  Vector get(const float* p) const { return load(p); }
  void put(float* p, Vector v) const { store(p, v); }
};
struct PartVector {
  long channels;
  long count() const { return channels; }
  Vector get(const float* p) const {
    Vector v{};
    for (long c = 0; c < channels; ++c) v[c] = p[c];
    return v;
  }
  void put(float* p, Vector v) const {
    for (long c = 0; c < channels; ++c) p[c] = v[c];
  }
};

// body(first channel, vector) for all channels.
template <class Body>
inline __attribute__((always_inline)) void for_vectors(long channels, const Body& body) {
  long c = 0;
  for (; c + lanes <= channels; c += lanes) body(c, WholeVector{});
  if (c < channels) body(c, PartVector{channels - c});
}

template <class Some>
inline void flush(const Some& some, Vector v, double* sums) {
  for (long c = 0; c < some.count(); ++c) sums[c] += static_cast<double>(v[c]);
}

void moments_by_channels(long rows, long channels, const float* x, const float* shift, double* sums) {
  for (long first = 0; first < rows; first += run, x += run * channels) {
    const long count = rows - first < run ? rows - first : run;
    for_vectors(channels, [&](long c, auto some) {
      const Vector from = some.get(shift + c);
      Vector sum{}, squares{};
      for (long r = 0; r < count; ++r) {
        const Vector d = some.get(x + r * channels + c) - from;
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

// Terms of one vector of channels.
struct Affine {
  Vector mean, factor, beta;
  template <class Some>
  Affine(const Some& some, const Terms& t, long c)
      : mean(some.get(t.mean + c)), factor(some.get(t.factor + c)), beta(some.get(t.beta + c)) {}
};

template <class Some>
inline void put_to(const Line& l, const Some& some, float* to, Vector v) {
  l.stream ? stream(to, v) : some.put(to, v);
}

void forward(const Line& l, const Terms& terms, const float* const* lines, long count, float* y) {
  const Vector slope = broadcast(l.slope), share = broadcast(l.share);
  for_vectors(l.channels, [&](long c, auto some) {
    const Affine a(some, terms, c);
    for (long k = 0; k < l.pooled; ++k) {
      Vector sum{};
      for (long i = 0; i < count; ++i)
        for (long w = 0; w < l.window; ++w) {
          const Vector z = (some.get(lines[i] + (k * l.window + w) * l.channels + c) - a.mean) * a.factor + a.beta;
          sum += z < 0 ? slope * z : z;
        }
      put_to(l, some, y + k * l.y_stride + c, share * sum);
    }
  });
  if (l.stream) fence();
}

// The gradient of batch norm's output: of pooling, and of the activation, which lets NaN pass.
inline Vector gradient(const Affine& a, Vector centred, Vector dy, Vector low) {
  const Vector z = centred * a.factor + a.beta;
  return z <= 0 ? low * dy : dy;
}

void gradients(const Line& l, const Terms& terms, const float* x, const float* dy, double* sums) {
  const Vector slope = broadcast(l.slope), share = broadcast(l.share);
  const long windows = run / l.window < 1 ? 1 : run / l.window;
  for_vectors(l.channels, [&](long c, auto some) {
    const Affine a(some, terms, c);
    for (long first = 0; first < l.pooled; first += windows) {
      const long last = first + windows < l.pooled ? first + windows : l.pooled;
      Vector sum{}, products{};
      for (long k = first; k < last; ++k) {
        const Vector d = share * some.get(dy + k * l.channels + c);
        for (long w = 0; w < l.window; ++w) {
          const Vector centred = some.get(x + (k * l.window + w) * l.channels + c) - a.mean;
          const Vector g = gradient(a, centred, d, slope);
          sum += g;
          products += g * centred;
        }
      }
      flush(some, sum, sums + c);
      flush(some, products, sums + l.channels + c);
    }
  });
}

void data(const Line& l, const Terms& terms, const DataTerms& more, const float* x, const float* dy, float* dx) {
  const Vector slope = broadcast(l.slope), share = broadcast(l.share);
  const long pooled = dy == nullptr ? 0 : l.pooled;
  for_vectors(l.channels, [&](long c, auto some) {
    const Affine a(some, terms, c);
    const Vector scale = some.get(more.scale + c), gain = some.get(more.gain + c);
    const Vector offset = some.get(more.offset + c), rate = some.get(more.slope + c);
    const auto put = [&](long position, Vector d) {
      const Vector centred = some.get(x + position * l.channels + c) - a.mean;
      const Vector g = gradient(a, centred, d, slope);
      put_to(l, some, dx + position * l.channels + c, scale * (gain * g - offset - centred * rate));
    };
    for (long k = 0; k < pooled; ++k) {
      const Vector d = share * some.get(dy + k * l.channels + c);
      for (long w = 0; w < l.window; ++w) put(k * l.window + w, d);
    }
    for (long position = pooled * l.window; position < l.positions; ++position) put(position, Vector{});
  });
  if (l.stream) fence();
}

const Kernels kernels{moments, forward, gradients, data};

}  // namespace

}  // namespace mrmf::cpu::norm_loops
