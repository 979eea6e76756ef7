#include "src/training/label_spread.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace mrmf {
namespace {

// Calls visit(channel, value) for every label of these samples.
template <class Visit>
void for_each_label(const SampleStore& store, const Extent& resolution, std::span<const std::int64_t> ids, Index batch,
                    const Visit& visit) {
  const Shape target = store.target(resolution);
  std::vector<float> values;
  while (!ids.empty()) {
    const auto rows = std::min(ids.size(), static_cast<std::size_t>(batch));
    values.resize(rows * static_cast<std::size_t>(target.per_sample()));
    store.gather_labels(resolution, ids.first(rows), values);
    for (std::size_t i = 0; i < values.size(); ++i)
      visit(i % static_cast<std::size_t>(target.channels), double{values[i]});
    ids = ids.subspan(rows);
  }
}

}  // namespace

Index spread_samples(Index per_sample) {
  constexpr Index samples = 4096, numbers = 1'000'000;
  return std::clamp<Index>(numbers / std::max<Index>(per_sample, 1), 1, samples);
}

// In two passes: around a mean that is far from zero, a difference of squares would have no digits left.
double label_variance(const SampleStore& store, const Extent& resolution, std::span<const std::int64_t> ids,
                      Index batch, Comm& team) {
  const auto channels = static_cast<std::size_t>(store.target(resolution).channels);
  std::vector<double> sums(2 * channels), squares(channels);
  const std::span<double> means = std::span(sums).first(channels), counts = std::span(sums).last(channels);
  for_each_label(store, resolution, ids, batch,
                 [&](std::size_t channel, double label) { means[channel] += label, counts[channel] += 1; });
  team.sum(sums);
  for (std::size_t c = 0; c < channels; ++c) means[c] /= std::max(counts[c], 1.0);
  for_each_label(store, resolution, ids, batch, [&](std::size_t channel, double label) {
    squares[channel] += (label - means[channel]) * (label - means[channel]);
  });
  team.sum(squares);
  constexpr double same = 3e-15;  // of the squared mean: labels that float32 does not tell apart
  double variance = 0;
  for (std::size_t c = 0; c < channels; ++c)
    if (const double own = squares[c] / std::max(counts[c], 1.0); own > same * means[c] * means[c]) variance += own;
  return variance / static_cast<double>(channels);
}

bool is_mse_alone(const LossSettings& loss) {
  const float weight = loss.weight(LossKind::mse);
  LossSettings alone = LossSettings::of(LossKind::mse);
  alone.weights[static_cast<std::size_t>(LossKind::mse)] = weight;
  return weight > 0 && loss.weights == alone.weights;
}

std::string spread_warning(const LossSettings& loss, const EpochRecord& epoch, const std::string& place,
                           double variance) {
  constexpr double kFar = 1e3;
  if (!is_mse_alone(loss) || !(variance > 0)) return "";
  const float weight = loss.weight(LossKind::mse);
  const double far = kFar * weight * variance;
  if (!(epoch.train_loss > far) || !(epoch.validation_loss > far)) return "";
  return fmt::format(
      "after epoch {} of {} the losses (training {:.3g}, validation {:.3g}) are more than {:g} times the variance of "
      "the "
      "training labels ({:.3g}), which a model that always answers their mean would have; set data.normalise.labels = "
      "\"mean_std\", or lower the learning rate if they are normalised",
      epoch.epoch, place, epoch.train_loss, epoch.validation_loss, kFar, weight * variance);
}

}  // namespace mrmf
