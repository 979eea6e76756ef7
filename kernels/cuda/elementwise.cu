// Activations, dropout, sums, channels, fill and swap, and the history of losses.
#include <type_traits>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {
namespace {

template <ActivationKind Kind>
using OfKind = std::integral_constant<ActivationKind, Kind>;

/// Calls use(OfKind) with a kind that the compiler knows: each kernel needs the registers of its own formula alone.
template <class Use>
void with_kind(ActivationKind kind, Use use) {
  switch (kind) {
    case ActivationKind::relu: return use(OfKind<ActivationKind::relu>{});
    case ActivationKind::leaky_relu: return use(OfKind<ActivationKind::leaky_relu>{});
    case ActivationKind::tanh: return use(OfKind<ActivationKind::tanh>{});
    case ActivationKind::gelu: return use(OfKind<ActivationKind::gelu>{});
    case ActivationKind::silu: return use(OfKind<ActivationKind::silu>{});
    case ActivationKind::softplus: return use(OfKind<ActivationKind::softplus>{});
    case ActivationKind::sigmoid: return use(OfKind<ActivationKind::sigmoid>{});
    case ActivationKind::square: return use(OfKind<ActivationKind::square>{});
    case ActivationKind::root: return use(OfKind<ActivationKind::root>{});
  }
}

/// Reads x, writes y; zeros in pad channels, which most kinds give by themselves.
template <class T, ActivationKind Kind>
struct Activate {
  static constexpr bool keeps_zero =
      Kind != ActivationKind::softplus && Kind != ActivationKind::sigmoid && Kind != ActivationKind::root;
  float slope;
  Divider by_vectors;  // divides by the vectors of a position
  std::uint32_t channels;
  const T* x;
  T* y;

  MRMF_HD void operator()(std::uint32_t i) const {
    float value[width<T>];
    load(x, i, value);
    for (float& v : value) v = activation(Kind, slope, v);
    if constexpr (!keeps_zero) {
      std::uint32_t rest = i;
      const std::uint32_t first = by_vectors.take(rest) * static_cast<std::uint32_t>(width<T>);
      for (std::uint32_t k = 0; k < width<T>; ++k)
        if (first + k >= channels) value[k] = 0;
    }
    store(value, y, i);
  }
};

/// Reads y (or x: gradient_reads_input) and dy, writes dx. Pads of dy are zero, so those of dx are, but for 0 / 0.
template <class T, ActivationKind Kind>
struct ActivateBackward {
  float slope;
  const T* y;
  const T* dy;
  T* dx;

  MRMF_HD void operator()(std::uint32_t i) const {
    float output[width<T>], gradient[width<T>];
    load(y, i, output);
    load(dy, i, gradient);
    for (int k = 0; k < width<T>; ++k) {
      if (Kind == ActivationKind::root && gradient[k] == 0 && output[k] == 0) continue;
      gradient[k] = activation_gradient(Kind, slope, output[k], gradient[k]);
    }
    store(gradient, dx, i);
  }
};

/// Reads x, writes y; one block of random numbers for each eight features that a vector meets.
template <class T>
struct Dropout {
  Divider by_positions, by_row, by_plane;  // divide by positions here: all, the last axis's, the one before's
  DropoutSettings settings;
  Extent sizes;
  std::uint32_t channels;
  std::size_t vectors;
  std::uint32_t threshold;
  const StepBlock* step;
  const std::int64_t* ids;
  const T* x;
  T* y;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector,
            mask = DropoutMask(step->seed, step->number, settings.layer, threshold)](std::uint32_t row) {
      std::uint32_t sample = row;
      std::uint32_t i = f.by_positions.take(sample);
      const std::uint32_t k = f.by_row.take(i), j = f.by_plane.take(i);
      const Index position = f.settings.position(f.sizes, i, j, k);
      const std::uint32_t first = vector * static_cast<std::uint32_t>(width<T>);
      Index feature = position * f.channels + first;
      Random4 random = mask.block(f.ids[sample], feature);
      float value[width<T>];
      load(f.x, row * f.vectors + vector, value);
      for (int e = 0; e < width<T>; ++e, ++feature) {
        if (first + static_cast<std::uint32_t>(e) >= f.channels) continue;
        if (e > 0 && feature % 8 == 0) random = mask.block(f.ids[sample], feature);
        value[e] *= mask.keeps(random, feature) ? mask.scale : 0.0F;
      }
      store(value, f.y, row * f.vectors + vector);
    };
  }
};

/// Reads a and b, writes y.
template <class T>
struct Add {
  const T* a;
  const T* b;
  T* y;

  MRMF_HD void operator()(std::uint32_t i) const {
    float value[width<T>], other[width<T>];
    load(a, i, value);
    load(b, i, other);
    for (int k = 0; k < width<T>; ++k) value[k] += other[k];
    store(value, y, i);
  }
};

/// Reads channels of x, writes the vectors of y that have some of its channels [to, end): only where a vector has other
/// channels, too, is it read before. Each thread has whole vectors, so none is written by two.
template <class T>
struct CopyChannels {
  std::uint32_t from, to, end, channels;  // channels: of y
  std::uint32_t first;                    // vector of y
  std::size_t x_vectors, y_vectors;       // vectors of a position
  const T* x;
  T* y;

  MRMF_HD auto at(std::uint32_t number) const {
    return [f = *this, vector = first + number](std::uint32_t row) {
      constexpr auto w = static_cast<std::uint32_t>(width<T>);
      const std::uint32_t begin = vector * w;
      float value[width<T>] = {};
      const bool whole = begin >= f.to && (begin + w <= f.end || f.end == f.channels);
      if (!whole) load(f.y, row * f.y_vectors + vector, value);
      if (whole && begin + w <= f.end && (begin - f.to + f.from) % w == 0) {
        load(f.x, row * f.x_vectors + (begin - f.to + f.from) / w, value);
      } else {
        const T* const x_row = f.x + row * f.x_vectors * w;
        for (std::uint32_t i = 0; i < w; ++i) {
          const std::uint32_t channel = begin + i;
          if (channel >= f.channels)
            value[i] = 0;
          else if (channel >= f.to && channel < f.end)
            value[i] = to_float(x_row[channel - f.to + f.from]);
        }
      }
      store(value, f.y, row * f.y_vectors + vector);
    };
  }
};

/// Positions of a box within a tensor of these sizes, in vectors.
struct BoxPosition {
  std::uint32_t first[3], sizes[3];

  BoxPosition(const Extent& begin, const Extent& spatial) : first{}, sizes{} {
    for (std::size_t a = 0; a < 3; ++a) first[a] = count32(begin[a]), sizes[a] = count32(spatial[a]);
  }
  MRMF_HD std::size_t position(std::uint32_t row, const std::uint32_t (&at)[3]) const {
    std::size_t index = row;
    for (int a = 0; a < 3; ++a) index = index * sizes[a] + first[a] + at[a];
    return index;
  }
};

/// Reads a box of x, writes or adds to one of y.
template <class T>
struct CopyBox {
  Divider by_count[3];  // divide by the positions of the box along each axis
  BoxPosition from, to;
  std::size_t vectors;
  bool add;
  const T* x;
  T* y;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t number) {
      std::uint32_t row = number, coordinates[3];
      for (int a = 2; a >= 0; --a) coordinates[a] = f.by_count[a].take(row);
      const std::size_t target = f.to.position(row, coordinates) * f.vectors + vector;
      float value[width<T>], sum[width<T>] = {};
      load(f.x, f.from.position(row, coordinates) * f.vectors + vector, value);
      if (f.add) load(f.y, target, sum);
      for (int k = 0; k < width<T>; ++k) value[k] += sum[k];
      store(value, f.y, target);
    };
  }
};

struct Copy {
  const float* x;
  float* y;
  MRMF_HD void operator()(std::uint32_t i) const {
    float value[4];
    load(x, i, value);
    store(value, y, i);
  }
};

struct Fill {
  float* x;
  float value;
  MRMF_HD void operator()(std::uint32_t i) const { x[i] = value; }
};

struct Swap {
  float *a, *b;
  MRMF_HD void operator()(std::uint32_t i) const {
    const float kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
};

}  // namespace

void activate(const Work& work, ActivationKind kind, float slope, const Shape& shape, const void* x, void* y) {
  const Index vectors = work.storage.vectors(shape.channels);
  with_element(work.storage, [&]<class T>(T) {
    with_kind(kind, [&]<ActivationKind Kind>(OfKind<Kind>) {
      for_each(work.stream, shape.n * product(shape.spatial) * vectors,
               Activate<T, Kind>{slope, Divider(vectors), count32(shape.channels), elements<T>(x), elements<T>(y)});
    });
  });
}

void activate_backward(const Work& work, ActivationKind kind, float slope, const Shape& shape, const void* kept,
                       const void* dy, void* dx) {
  const Index vectors = shape.n * product(shape.spatial) * work.storage.vectors(shape.channels);
  with_element(work.storage, [&]<class T>(T) {
    with_kind(kind, [&]<ActivationKind Kind>(OfKind<Kind>) {
      for_each(work.stream, vectors,
               ActivateBackward<T, Kind>{slope, elements<T>(kept), elements<T>(dy), elements<T>(dx)});
    });
  });
}

void dropout(const Work& work, const DropoutWork& dropout, const Shape& shape, const void* x, void* y) {
  const Index positions = product(shape.spatial), vectors = work.storage.vectors(shape.channels);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, shape.n * positions, vectors,
                 Dropout<T>{Divider(positions), Divider(shape.spatial[2]), Divider(shape.spatial[1]), dropout.settings,
                            shape.spatial, count32(shape.channels), static_cast<std::size_t>(vectors),
                            DropoutMask::threshold_of(dropout.settings.rate), dropout.step, dropout.ids, elements<T>(x),
                            elements<T>(y)});
  });
}

void add(const Work& work, Index vectors, const void* a, const void* b, void* y) {
  with_element(work.storage, [&]<class T>(T) {
    for_each(work.stream, vectors, Add<T>{elements<T>(a), elements<T>(b), elements<T>(y)});
  });
}

void copy_channels(const Work& work, const ChannelCopy& copy, const void* x, const Shape& shape, void* y) {
  const Index end = copy.to + copy.count, first = copy.to / work.storage.pad;
  const Index last = work.storage.vectors(end);  // behind the last vector written
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, shape.n * product(shape.spatial), last - first,
                 CopyChannels<T>{count32(copy.from), count32(copy.to), count32(end), count32(shape.channels),
                                 count32(first), static_cast<std::size_t>(work.storage.vectors(copy.of.channels)),
                                 static_cast<std::size_t>(work.storage.vectors(shape.channels)), elements<T>(x),
                                 elements<T>(y)});
  });
}

void copy_box(const Work& work, const BoxCopy& box, const Shape& of, const void* x, const Shape& shape, void* y) {
  if (product(box.count) == 0) return;
  const Index vectors = work.storage.vectors(of.channels);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, of.n * product(box.count), vectors,
                 CopyBox<T>{{Divider(box.count[0]), Divider(box.count[1]), Divider(box.count[2])},
                            BoxPosition(box.from, of.spatial),
                            BoxPosition(box.to, shape.spatial),
                            static_cast<std::size_t>(vectors),
                            box.add,
                            elements<T>(x),
                            elements<T>(y)});
  });
}

void copy(const Work& work, Index vectors, const void* x, void* y) {
  if (x != y) for_each(work.stream, vectors, Copy{elements<float>(x), elements<float>(y)});
}

void fill(cudaStream_t stream, Span x, float value) { for_each(stream, std::ssize(x), Fill{x.data(), value}); }

void swap(cudaStream_t stream, Span a, Span b) { for_each(stream, std::ssize(a), Swap{a.data(), b.data()}); }

namespace {

struct Keep {
  const StepBlock* step;
  const float* value;
  float* history;
  MRMF_HD void operator()(std::uint32_t) const { history[step->index] = *value; }
};

}  // namespace

void keep(cudaStream_t stream, const StepBlock* step, const float* value, float* history) {
  for_each(stream, 1, Keep{step, value, history});
}

}  // namespace mrmf::cuda
