#include "kernels/cuda/loss.hpp"

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/storage.cuh"

namespace mrmf::cuda {
namespace {

/// Per vector of y: reads it and the targets, writes dy; adds up the errors. One channel of as many rows as y has
/// vectors, so that all is one sum.
template <class T>
struct Loss {
  static constexpr int unroll = 4;
  bool squared;
  Divider by_vectors;
  std::uint32_t outputs;
  const StepBlock* step;
  const T* y;
  const float* target;
  T* dy;
  float* sum;

  MRMF_HD auto at(std::uint32_t) const {
    return [f = *this](std::uint32_t i, float(&sums)[1][1]) {
      std::uint32_t row = i;
      const std::uint32_t first = f.by_vectors.take(row) * static_cast<std::uint32_t>(width<T>);
      float value[width<T>];
      load(f.y, i, value);
      const float share = f.step->loss_weight / static_cast<float>(f.outputs);
      for (int k = 0; k < width<T>; ++k) {
        const std::uint32_t output = first + static_cast<std::uint32_t>(k);
        if (output >= f.outputs) {
          value[k] = 0;
          continue;
        }
        const float error = value[k] - f.target[std::size_t{row} * f.outputs + output];
        const float sign = error > 0 ? 1.0F : error < 0 ? -1.0F : 0.0F;
        sums[0][0] += f.squared ? error * error : std::abs(error);
        value[k] = share * (f.squared ? 2 * error : sign);
      }
      if (f.dy != nullptr) store(value, f.dy, i);
    };
  }
  MRMF_HD void finish(Index, const double (&totals)[1]) const { *sum = static_cast<float>(totals[0] / outputs); }
};

struct Keep {
  const StepBlock* step;
  const float* value;
  float* history;
  MRMF_HD void operator()(std::uint32_t) const { history[step->index] = *value; }
};

Reduction reduction(const Storage& storage, Index rows, Index outputs, void* scratch) {
  return {rows * storage.vectors(outputs), 1, 1, static_cast<double*>(scratch)};
}

}  // namespace

std::size_t loss_bytes(const Storage& storage, Index rows, Index outputs) {
  return static_cast<std::size_t>(reduction(storage, rows, outputs, nullptr).partial_doubles(1)) * sizeof(double);
}

void loss(const Work& work, const LossWork& loss, const void* y, const float* target, void* dy, float* sum) {
  const Divider by_vectors(work.storage.vectors(loss.outputs));
  with_element(work.storage, [&]<class T>(T) {
    reduce<1, 1>(work.stream, reduction(work.storage, loss.rows, loss.outputs, loss.scratch),
                 Loss<T>{loss.kind == LossKind::mse, by_vectors, count32(loss.outputs), loss.step, elements<T>(y),
                         target, elements<T>(dy), sum});
  });
}

void keep(cudaStream_t stream, const StepBlock* step, const float* value, float* history) {
  for_each(stream, 1, Keep{step, value, history});
}

}  // namespace mrmf::cuda
