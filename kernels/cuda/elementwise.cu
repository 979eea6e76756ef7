#include "kernels/cuda/elementwise.hpp"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {
namespace {

/// Reads x, writes y.
template <class T>
struct Activate {
  ActivationKind kind;
  float slope;
  const T* x;
  T* y;

  MRMF_HD void operator()(std::uint32_t i) const {
    float value[width<T>];
    load(x, i, value);
    for (float& v : value) v = activation(kind, slope, v);
    store(value, y, i);
  }
};

/// Reads y and dy, writes dx.
template <class T>
struct ActivateBackward {
  ActivationKind kind;
  float slope;
  const T* y;
  const T* dy;
  T* dx;

  MRMF_HD void operator()(std::uint32_t i) const {
    float output[width<T>], gradient[width<T>];
    load(y, i, output);
    load(dy, i, gradient);
    for (int k = 0; k < width<T>; ++k) gradient[k] = activation_gradient(kind, slope, output[k], gradient[k]);
    store(gradient, dx, i);
  }
};

/// Reads x, writes y; one block of random numbers for each eight features that a vector meets.
template <class T>
struct Dropout {
  Divider by_positions;  // of a sample
  std::uint32_t channels;
  std::size_t vectors;
  std::uint64_t layer;
  std::uint32_t threshold;
  const StepBlock* step;
  const std::int64_t* ids;
  const T* x;
  T* y;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector, mask = DropoutMask(step->seed, step->number, layer, threshold)](std::uint32_t row) {
      std::uint32_t sample = row;
      const std::uint32_t position = f.by_positions.take(sample);
      const std::uint32_t first = vector * static_cast<std::uint32_t>(width<T>);
      Index feature = Index{position} * f.channels + first;
      Random4 random = mask.block(f.ids[sample], feature);
      float value[width<T>];
      load(f.x, row * f.vectors + vector, value);
      for (int i = 0; i < width<T>; ++i, ++feature) {
        if (first + static_cast<std::uint32_t>(i) >= f.channels) continue;
        if (i > 0 && feature % 8 == 0) random = mask.block(f.ids[sample], feature);
        value[i] *= mask.keeps(random, feature) ? mask.scale : 0.0F;
      }
      store(value, f.y, row * f.vectors + vector);
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

void activate(const Work& work, ActivationKind kind, float slope, Index vectors, const void* x, void* y) {
  with_element(work.storage, [&]<class T>(T) {
    for_each(work.stream, vectors, Activate<T>{kind, slope, elements<T>(x), elements<T>(y)});
  });
}

void activate_backward(const Work& work, ActivationKind kind, float slope, Index vectors, const void* y, const void* dy,
                       void* dx) {
  with_element(work.storage, [&]<class T>(T) {
    for_each(work.stream, vectors, ActivateBackward<T>{kind, slope, elements<T>(y), elements<T>(dy), elements<T>(dx)});
  });
}

void dropout(const Work& work, const DropoutWork& dropout, const Shape& shape, const void* x, void* y) {
  const Index positions = product(shape.spatial), vectors = work.storage.vectors(shape.channels);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(
        work.stream, shape.n * positions, vectors,
        Dropout<T>{Divider(positions), count32(shape.channels), static_cast<std::size_t>(vectors), dropout.layer,
                   DropoutMask::threshold_of(dropout.rate), dropout.step, dropout.ids, elements<T>(x), elements<T>(y)});
  });
}

void copy(const Work& work, Index vectors, const void* x, void* y) {
  if (x != y) for_each(work.stream, vectors, Copy{elements<float>(x), elements<float>(y)});
}

void fill(cudaStream_t stream, Span x, float value) { for_each(stream, std::ssize(x), Fill{x.data(), value}); }

void swap(cudaStream_t stream, Span a, Span b) { for_each(stream, std::ssize(a), Swap{a.data(), b.data()}); }

}  // namespace mrmf::cuda
