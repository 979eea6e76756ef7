// Losses and their gradients. Numbers take one launch, with the sum. Probabilities take a few: the logarithms of
// softmax's sums per position, sums per sample and class (added over the ranks that share the samples), each sample's
// loss, their sum, and the gradient.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"

namespace mrmf::cuda {

LossWork LossWork::of(const LossSettings& settings, const Shape& output, Index target_channels) {
  LossWork work;
  work.task = settings.task();
  work.errors = ErrorLoss::of(settings);
  work.entropy = settings.weight(work.task == Task::classes ? LossKind::cross_entropy : LossKind::binary_cross_entropy);
  work.dice = settings.weight(LossKind::dice);
  work.smooth = settings.smooth;
  work.focal = {settings.gamma};
  work.positions = product(output.spatial);
  work.channels = output.channels;
  work.target_channels = target_channels;
  return work;
}

namespace {

/// Per vector of y: reads it and the targets, writes dy; adds up the errors. One channel of as many rows as y has
/// vectors, so that all is one sum.
template <class T>
struct ErrorSum {
  static constexpr int unroll = 4;
  ErrorLoss errors;
  Divider by_vectors;
  std::uint32_t channels;
  float outputs;  // outputs of a sample
  const StepBlock* step;
  const T* y;
  const float* target;
  T* dy;
  float* sum;

  MRMF_HD auto at(std::uint32_t) const {
    return [f = *this](std::uint32_t i, float(&sums)[1][1]) {
      std::uint32_t position = i;  // counted over all samples
      const std::uint32_t first = f.by_vectors.take(position) * static_cast<std::uint32_t>(width<T>);
      float value[width<T>];
      load(f.y, i, value);
      const float share = f.step->loss_weight / f.outputs;
      for (int k = 0; k < width<T>; ++k) {
        const std::uint32_t channel = first + static_cast<std::uint32_t>(k);
        if (channel >= f.channels) {
          value[k] = 0;
          continue;
        }
        const float error = value[k] - f.target[std::size_t{position} * f.channels + channel];
        sums[0][0] += f.errors.value(error);
        value[k] = share * f.errors.slope(error);
      }
      if (f.dy != nullptr) store(value, f.dy, i);
    };
  }
  MRMF_HD void finish(Index, const double (&totals)[1]) const {
    *sum = static_cast<float>(step->share * totals[0] / outputs);
  }
};

constexpr int kSums = 4;  // per sample and class: what counts, entropy, overlap, probabilities and labels

/// Where the launches of a loss of probabilities leave what later ones read.
struct LossScratch {
  double* sums = nullptr;       ///< [sample][stored channel][kSums]
  double* partials = nullptr;   ///< partials of reductions
  float* logarithms = nullptr;  ///< [sample][position], of softmax's sums
  float* counted = nullptr;     ///< [sample][position]
  float* slopes = nullptr;      ///< [sample][stored channel][2]: of dice, by label and by what counts
  float* entropy = nullptr;     ///< [sample]: slope of a position's
  float* losses = nullptr;      ///< [sample]
  std::size_t bytes = 0;
};

/// A loss of probabilities as its kernels see it.
template <class T>
struct Probability {
  bool classes, shared;  // shared: several ranks have positions of each sample
  float entropy, dice, smooth;
  Focal focal;
  std::uint32_t samples, positions, channels, target_channels, vectors;
  const float* class_weights;
  const StepBlock* step;
  const T* y;
  const float* target;
  T* dy;
  LossScratch kept;

  MRMF_HD std::uint32_t stored() const { return vectors * static_cast<std::uint32_t>(width<T>); }
  /// The weight of a sample's loss in the gradient. Shared samples' losses are whole, so the weight is not that of a
  /// share.
  MRMF_HD float sample_weight() const { return shared ? step->whole_loss_weight : step->loss_weight; }
  MRMF_HD float weight(std::uint32_t c) const { return class_weights != nullptr ? class_weights[c] : 1.0F; }
  MRMF_HD ClassTarget target_at(std::size_t position) const {
    return {target + position * target_channels, static_cast<Index>(target_channels)};
  }
};

/// Per position: the logarithm of the sum of exponentials, and how much of the position counts.
template <class T>
struct Logarithms {
  Probability<T> loss;

  MRMF_HD void operator()(std::uint32_t position) const {
    float most = 0, sum = 0;
    for (std::uint32_t v = 0; v < loss.vectors; ++v) {
      float value[width<T>];
      load(loss.y, std::size_t{position} * loss.vectors + v, value);
      for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(width<T>); ++k) {
        if (v * width<T> + k >= loss.channels) continue;
        if (v + k == 0 || value[k] > most) {
          sum = v + k == 0 ? 0 : sum * std::exp(most - value[k]);
          most = value[k];
        }
        sum += std::exp(value[k] - most);
      }
    }
    loss.kept.logarithms[position] = most + std::log(sum);
    loss.kept.counted[position] = loss.target_at(position).counted();
  }
};

/// Sums over positions; a vector is a sample's vector of classes.
template <class T>
struct ClassSums {
  static constexpr int unroll = 2;
  Probability<T> loss;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = loss, sample = vector / loss.vectors, v = vector % loss.vectors](std::uint32_t row,
                                                                                 float(&sums)[kSums][width<T>]) {
      const std::size_t position = std::size_t{sample} * f.positions + row;
      float value[width<T>];
      load(f.y, position * f.vectors + v, value);
      for (int k = 0; k < width<T>; ++k) {
        const std::uint32_t c = v * static_cast<std::uint32_t>(width<T>) + static_cast<std::uint32_t>(k);
        if (c >= f.channels) continue;
        float counted = 0, label = 0, p = 0, entropy = 0;
        if (f.classes) {
          const float logarithm = f.kept.logarithms[position];
          counted = f.kept.counted[position];
          label = f.target_at(position).share(c);
          p = std::exp(value[k] - logarithm);
          if (label > 0) entropy = label * (logarithm - value[k]) * f.focal.factor(p);
          sums[0][k] += label;
        } else {
          const float t = f.target[position * f.channels + c];
          if (t < 0) continue;
          counted = 1, label = t, p = sigmoid(value[k]);
          entropy = f.focal.plain() ? binary_cross_entropy(value[k], t)
                                    : t * f.focal.factor(p) * binary_cross_entropy(value[k], 1.0F) +
                                          (1 - t) * f.focal.factor(1 - p) * binary_cross_entropy(value[k], 0.0F);
          sums[0][k] += 1;
        }
        sums[1][k] += entropy;
        sums[2][k] += p * label;
        sums[3][k] += counted * p + label;
      }
    };
  }
  MRMF_HD void finish(Index channel, const double (&totals)[kSums]) const {
    for (int k = 0; k < kSums; ++k) loss.kept.sums[channel * kSums + k] = totals[k];
  }
};

/// Per sample: its loss, and what its sums make of the gradient.
template <class T>
struct SampleLoss {
  Probability<T> loss;

  MRMF_HD void operator()(std::uint32_t sample) const {
    const std::size_t first = std::size_t{sample} * loss.stored();
    const double* const sums = loss.kept.sums + first * kSums;
    double counted = 0, entropy = 0, weights = 0, overlaps = 0;
    for (std::uint32_t c = 0; c < loss.channels; ++c) {
      counted += sums[c * kSums];
      entropy += loss.weight(c) * sums[c * kSums + 1];
      weights += loss.weight(c);
    }
    const bool any = counted > 0 && loss.entropy > 0;
    double result = any ? loss.entropy * entropy / counted : 0;
    loss.kept.entropy[sample] = any ? static_cast<float>(loss.sample_weight() * loss.entropy / counted) : 0;
    for (std::uint32_t c = 0; c < loss.channels && loss.dice > 0; ++c) {
      const Overlap overlap = Overlap::of(sums[c * kSums + 2], sums[c * kSums + 3], loss.smooth);
      const double share = loss.weight(c) / weights, scale = -loss.sample_weight() * loss.dice * share;
      overlaps += share * overlap.value;
      loss.kept.slopes[2 * (first + c)] = static_cast<float>(scale * overlap.by_label);
      loss.kept.slopes[2 * (first + c) + 1] = static_cast<float>(scale * overlap.by_counted);
    }
    if (loss.dice > 0) result += loss.dice * (1 - overlaps);
    loss.kept.losses[sample] = static_cast<float>(result);
  }
};

struct AddLosses {
  static constexpr int unroll = 4;
  const StepBlock* step;
  const float* losses;
  float* sum;
  MRMF_HD auto at(std::uint32_t) const {
    return [from = losses](std::uint32_t row, float(&sums)[1][1]) { sums[0][0] += from[row]; };
  }
  MRMF_HD void finish(Index, const double (&totals)[1]) const { *sum = static_cast<float>(step->share * totals[0]); }
};

/// Per position: the gradient of its outputs, pads zero.
template <class T>
struct Gradient {
  Probability<T> loss;
  Divider by_positions;

  MRMF_HD float by_probability(std::size_t sample, std::uint32_t c, float label, float counted) const {
    const float* const slopes = loss.kept.slopes + 2 * (sample * loss.stored() + c);
    return slopes[0] * label + slopes[1] * counted;
  }

  MRMF_HD void operator()(std::uint32_t position) const {
    std::uint32_t sample = position;
    by_positions.take(sample);
    const float entropy = loss.kept.entropy[sample];
    float weights = 0, mean = 0;
    for (std::uint32_t v = 0; loss.classes && v < loss.vectors; ++v) add_means(position, sample, v, weights, mean);
    for (std::uint32_t v = 0; v < loss.vectors; ++v) {
      float value[width<T>];
      load(loss.y, std::size_t{position} * loss.vectors + v, value);
      for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(width<T>); ++k) {
        const std::uint32_t c = v * width<T> + k;
        if (c >= loss.channels)
          value[k] = 0;
        else if (loss.classes)
          value[k] = of_class(position, sample, c, value[k], entropy * weights, mean);
        else
          value[k] = of_output(position, sample, c, value[k], entropy);
      }
      store(value, loss.dy, std::size_t{position} * loss.vectors + v);
    }
  }

  // Sums over a position's classes of their weighted labels, and of probability * slope by probability.
  MRMF_HD void add_means(std::uint32_t position, std::uint32_t sample, std::uint32_t v, float& weights,
                         float& mean) const {
    float value[width<T>];
    load(loss.y, std::size_t{position} * loss.vectors + v, value);
    for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(width<T>); ++k) {
      const std::uint32_t c = v * width<T> + k;
      if (c >= loss.channels) continue;
      const float label = loss.target_at(position).share(c);
      const float p = loss.focal.plain() ? 0.0F : std::exp(value[k] - loss.kept.logarithms[position]);
      weights -= loss.weight(c) * label * loss.focal.slope(p);
      if (loss.dice > 0)
        mean += std::exp(value[k] - loss.kept.logarithms[position]) *
                by_probability(sample, c, label, loss.kept.counted[position]);
    }
  }

  MRMF_HD float of_class(std::uint32_t position, std::uint32_t sample, std::uint32_t c, float y, float weighted,
                         float mean) const {
    const float label = loss.target_at(position).share(c), p = std::exp(y - loss.kept.logarithms[position]);
    float slope = weighted * p + loss.kept.entropy[sample] * loss.weight(c) * label * loss.focal.slope(p);
    if (loss.dice > 0) slope += p * (by_probability(sample, c, label, loss.kept.counted[position]) - mean);
    return slope;
  }

  MRMF_HD float of_output(std::uint32_t position, std::uint32_t sample, std::uint32_t c, float y, float entropy) const {
    const float t = loss.target[std::size_t{position} * loss.channels + c];
    if (t < 0) return 0;
    const float p = sigmoid(y);
    const float by_output =
        loss.focal.plain() ? p - t : t * loss.focal.slope(p) * (1 - p) - (1 - t) * loss.focal.slope(1 - p) * p;
    float slope = entropy * loss.weight(c) * by_output;
    if (loss.dice > 0) slope += p * (1 - p) * by_probability(sample, c, t, 1);
    return slope;
  }
};

Reduction error_reduction(const Storage& storage, const LossWork& loss, void* scratch) {
  return {loss.rows * loss.positions * storage.vectors(loss.channels), 1, 1, static_cast<double*>(scratch)};
}

Reduction class_reduction(const Storage& storage, const LossWork& loss, Index rows, double* partials) {
  const Index vectors = rows * storage.vectors(loss.channels);
  return {loss.positions, vectors, vectors * storage.pad, partials};
}

Reduction row_reduction(Index rows, double* partials) { return {rows, 1, 1, partials}; }

/// The parts of the scratch memory, doubles first; with no memory just its bytes.
LossScratch lay_out_scratch(const Storage& storage, const LossWork& loss, Index rows, void* scratch) {
  Index partials = row_reduction(rows, nullptr).partial_doubles(1);
  for (Index n = 1; n <= rows; ++n)  // fewer samples may take more blocks
    partials = std::max(partials, class_reduction(storage, loss, n, nullptr).partial_doubles(kSums));
  const Index channels = rows * storage.channels(loss.channels), positions = rows * loss.positions;
  LossScratch kept;
  auto* at = static_cast<std::byte*>(scratch);
  const auto take = [&]<class Element>(Element*& part, Index count) {
    part = at == nullptr ? nullptr : reinterpret_cast<Element*>(at + kept.bytes);
    kept.bytes += static_cast<std::size_t>(count) * sizeof(Element);
  };
  take(kept.sums, channels * kSums);
  take(kept.partials, partials);
  take(kept.logarithms, positions);
  take(kept.counted, positions);
  take(kept.slopes, 2 * channels);
  take(kept.entropy, rows);
  take(kept.losses, rows);
  return kept;
}

template <class T>
void probability_loss(const Work& work, const LossWork& loss, const void* y, const float* target, void* dy,
                      float* sum) {
  const LossScratch kept = lay_out_scratch(work.storage, loss, loss.rows, loss.scratch);
  const Probability<T> all{loss.task == Task::classes,
                           loss.sample_sum != nullptr,
                           loss.entropy,
                           loss.dice,
                           loss.smooth,
                           loss.focal,
                           count32(loss.rows),
                           count32(loss.positions),
                           count32(loss.channels),
                           count32(loss.target_channels),
                           count32(work.storage.vectors(loss.channels)),
                           loss.class_weights,
                           loss.step,
                           elements<T>(y),
                           target,
                           elements<T>(dy),
                           kept};
  const Index positions = loss.rows * loss.positions;
  if (all.classes) for_each(work.stream, positions, Logarithms<T>{all});
  if (loss.rows > 0)
    reduce<kSums, width<T>>(work.stream, class_reduction(work.storage, loss, loss.rows, kept.partials),
                            ClassSums<T>{all});
  if (loss.sample_sum != nullptr)
    loss.sample_sum->sum(
        {kept.sums, static_cast<std::size_t>(loss.rows * work.storage.channels(loss.channels) * kSums)});
  for_each(work.stream, loss.rows, SampleLoss<T>{all});
  reduce<1, 1>(work.stream, row_reduction(loss.rows, kept.partials), AddLosses{loss.step, kept.losses, sum});
  if (dy != nullptr) for_each(work.stream, positions, Gradient<T>{all, Divider(loss.positions)});
}

}  // namespace

std::size_t loss_bytes(const Storage& storage, const LossWork& loss) {
  if (loss.task != Task::regression) return lay_out_scratch(storage, loss, loss.rows, nullptr).bytes;
  return static_cast<std::size_t>(error_reduction(storage, loss, nullptr).partial_doubles(1)) * sizeof(double);
}

void loss(const Work& work, const LossWork& loss, const void* y, const float* target, void* dy, float* sum) {
  with_element(work.storage, [&]<class T>(T) {
    if (loss.task != Task::regression) return probability_loss<T>(work, loss, y, target, dy, sum);
    const Divider by_vectors(work.storage.vectors(loss.channels));
    reduce<1, 1>(
        work.stream, error_reduction(work.storage, loss, loss.scratch),
        ErrorSum<T>{loss.errors, by_vectors, count32(loss.channels), static_cast<float>(loss.positions * loss.channels),
                    loss.step, elements<T>(y), target, elements<T>(dy), sum});
  });
}

}  // namespace mrmf::cuda
