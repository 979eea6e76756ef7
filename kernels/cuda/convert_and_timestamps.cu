// Between the program's form of values and the stored one: conversion, averaging, reshaping, picking rows, known
// values. And timestamps around queued work.
#include <chrono>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"

namespace mrmf::cuda {

// Between the program's form of values and the stored one: conversion, averaging, reshaping, picking rows, known
// values.

namespace {

/// Per element of y: reads the floats of its block, writes y. Sums in double, as the host averages.
template <class T>
struct Import {
  Windows<> blocks;
  std::uint32_t channels;
  std::size_t vectors;
  double share;
  const float* x;
  T* y;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      constexpr int w = width<T>;
      double sum[w] = {};
      f.blocks.for_each_tap(row, [&](std::uint32_t, std::uint32_t from) {
        float value[w];
        load_parameters(f.x + std::size_t{from} * f.channels, vector, f.channels, value);
        for (int i = 0; i < w; ++i) sum[i] += value[i];
      });
      float mean[w];
      for (int i = 0; i < w; ++i) mean[i] = static_cast<float>(sum[i] * f.share);
      store(mean, f.y, row * f.vectors + vector);
    };
  }
};

/// Reads x, writes y.
template <class T>
struct Export {
  std::uint32_t channels;
  std::size_t vectors;
  const T* x;
  float* y;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      float value[width<T>];
      load(f.x, row * f.vectors + vector, value);
      const std::uint32_t first = vector * static_cast<std::uint32_t>(width<T>);
      for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(width<T>); ++i)
        if (first + i < f.channels) f.y[std::size_t{row} * f.channels + first + i] = value[i];
    };
  }
};

/// Reads w, writes the packed form; rows are (out, tap).
template <class T>
struct Pack {
  std::uint32_t filled, in;  // rows and channels that w has
  std::size_t vectors;
  const float* w;
  T* packed;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      float value[width<T>] = {};
      if (row < f.filled) load_parameters(f.w + std::size_t{row} * f.in, vector, f.in, value);
      store(value, f.packed, row * f.vectors + vector);
    };
  }
};

/// Reads the used part of the packed form, writes w.
template <class T>
struct Unpack {
  Divider by_in;
  std::size_t stride;
  const T* packed;
  float* w;

  MRMF_HD void operator()(std::uint32_t i) const {
    std::uint32_t row = i;
    const std::uint32_t channel = by_in.take(row);
    w[i] = to_float(packed[row * stride + channel]);
  }
};

/// Where a feature of a sample lies: its stored element, counted from the first of the sample.
struct Form {
  Divider by_channels;
  std::size_t stride, sample;  // stored elements of a position, of a sample

  Form(const Storage& storage, const Shape& shape)
      : by_channels(shape.channels),
        stride(static_cast<std::size_t>(storage.channels(shape.channels))),
        sample(static_cast<std::size_t>(product(shape.spatial)) * stride) {}
  MRMF_HD std::size_t element(std::uint32_t feature) const {
    const std::uint32_t channel = by_channels.take(feature);
    return feature * stride + channel;
  }
};

/// Reads single elements of x, writes y.
template <class T>
struct Reshape {
  Form from;
  Divider by_positions;
  std::uint32_t channels;  // channels of y
  std::size_t vectors;
  const T* x;
  T* y;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      std::uint32_t sample = row;
      const std::uint32_t position = f.by_positions.take(sample);
      float value[width<T>] = {};
      for (int i = 0; i < width<T>; ++i) {
        const std::uint32_t channel = vector * width<T> + static_cast<std::uint32_t>(i);
        if (channel < f.channels)
          value[i] = to_float(f.x[sample * f.from.sample + f.from.element(position * f.channels + channel)]);
      }
      store(value, f.y, row * f.vectors + vector);
    };
  }
};

/// Reads and writes one word.
template <class Words>
struct Gather {
  Divider words;  // divides by the words of a row
  std::size_t row_words;
  const std::int64_t* ids;
  std::int64_t first;
  const Words* table;
  Words* y;

  MRMF_HD void operator()(std::uint32_t i) const {
    const std::uint32_t row = words.quotient(i);
    const auto word = i - row * row_words;
    y[i] = table[static_cast<std::size_t>(ids[row] - first) * row_words + word];
  }
};

template <class Words>
void gather(cudaStream_t stream, const RowTable& table, Index rows, const std::int64_t* ids, void* y) {
  const Index words = table.row_bytes / static_cast<Index>(sizeof(Words));
  for_each(stream, rows * words,
           Gather<Words>{Divider(words), static_cast<std::size_t>(words), ids, table.first,
                         static_cast<const Words*>(table.rows), static_cast<Words*>(y)});
}

}  // namespace

void import_activation(const Work& work, const Shape& shape, const Extent& factors, const float* x, void* y) {
  const PoolGeometry blocks{PoolKind::average, shape.channels, shape.spatial, factors, factors};
  const Index vectors = work.storage.vectors(shape.channels);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, shape.n * product(blocks.out()), vectors,
                 Import<T>{Windows<>(blocks, shape.n), count32(shape.channels), static_cast<std::size_t>(vectors),
                           1.0 / static_cast<double>(product(factors)), x, elements<T>(y)});
  });
}

void export_activation(const Work& work, const Shape& shape, const void* x, float* y) {
  const Index vectors = work.storage.vectors(shape.channels);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, shape.n * product(shape.spatial), vectors,
                 Export<T>{count32(shape.channels), static_cast<std::size_t>(vectors), elements<T>(x), y});
  });
}

void pack_weights(const Work& work, const WeightShape& shape, const float* w, void* packed) {
  const Index vectors = work.storage.vectors(shape.in);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, work.storage.channels(shape.out) * shape.taps, vectors,
                 Pack<T>{count32(shape.out * shape.taps), count32(shape.in), static_cast<std::size_t>(vectors), w,
                         elements<T>(packed)});
  });
}

namespace {

template <class T>
void unpack(const Work& work, const WeightShape& shape, const T* packed, float* w) {
  for_each(work.stream, shape.out * shape.taps * shape.in,
           Unpack<T>{Divider(shape.in), static_cast<std::size_t>(work.storage.channels(shape.in)), packed, w});
}

}  // namespace

void unpack_weights(const Work& work, const WeightShape& shape, const float* packed, float* w) {
  unpack(work, shape, packed, w);
}

void unpack_stored_weights(const Work& work, const WeightShape& shape, const void* packed, float* w) {
  with_element(work.storage, [&]<class T>(T) { unpack(work, shape, static_cast<const T*>(packed), w); });
}

void reshape(const Work& work, const Shape& from, const void* x, const Shape& to, void* y) {
  MRMF_CHECK(from.count() == to.count(), "a reshape keeps the elements");
  const Index vectors = work.storage.vectors(to.channels), positions = product(to.spatial);
  if (equal_form(work.storage, from, to)) return copy(work, to.n * positions * vectors, x, y);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, to.n * positions, vectors,
                 Reshape<T>{Form(work.storage, from), Divider(positions), count32(to.channels),
                            static_cast<std::size_t>(vectors), elements<T>(x), elements<T>(y)});
  });
}

bool equal_form(const Storage& storage, const Shape& from, const Shape& to) {
  const bool unpadded = from.channels % storage.pad == 0 && to.channels % storage.pad == 0;
  return unpadded || (from.channels == to.channels && product(from.spatial) == product(to.spatial));
}

void gather_rows(cudaStream_t stream, const RowTable& table, Index rows, const std::int64_t* ids, void* y) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  MRMF_CHECK(table.row_bytes % 4 == 0, "rows to gather are whole floats");
  if (table.row_bytes % 16 == 0 && aligned(table.rows) && aligned(y))
    gather<float4>(stream, table, rows, ids, y);
  else
    gather<float>(stream, table, rows, ids, y);
}

namespace {

/// Writes 16 bytes.
template <class T>
struct FillPattern {
  std::uint32_t seed;
  T* x;
  MRMF_HD void operator()(std::uint32_t vector) const {
    float values[width<T>];
    const std::uint64_t first = std::uint64_t{vector} * width<T>;
    for (int w = 0; w < width<T>; ++w) values[w] = pattern_value(seed, first + static_cast<std::uint64_t>(w));
    store(values, x, vector);
  }
};

}  // namespace

void fill_pattern(const Work& work, std::uint32_t seed, Index count, void* x) {
  with_element(work.storage, [&](auto element) {
    using T = decltype(element);
    for_each(work.stream, count / width<T>, FillPattern<T>{seed, elements<T>(x)});
  });
}

// Device timestamps around queued work.

namespace {

MRMF_HD inline unsigned long long now() {
#ifdef __CUDA_ARCH__
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
#else
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

struct Begin {
  StampBlock* stamps;
  MRMF_HD void operator()(std::uint32_t) const { stamps->begin = now(); }
};
struct End {
  StampBlock* stamps;
  MRMF_HD void operator()(std::uint32_t) const { stamps->total += now() - stamps->begin; }
};

}  // namespace

void stamp_begin(cudaStream_t stream, StampBlock* stamps) { for_each(stream, 1, Begin{stamps}); }
void stamp_end(cudaStream_t stream, StampBlock* stamps) { for_each(stream, 1, End{stamps}); }

}  // namespace mrmf::cuda
