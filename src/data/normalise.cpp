#include "src/data/normalise.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/check.hpp"
#include "mpi/comm.hpp"
#include "src/data/channel_facts.hpp"

namespace mrmf {
namespace {

constexpr Index kMostChannels = 4096;  // whose numbers a configuration holds

void measure(Normalisation& units, const Numbers& numbers, const std::string& key, Comm& comm) {
  const bool open = units.mean_std && units.mean.empty();
  if (!open && !units.log1p) return;
  if (open && numbers.channels > kMostChannels)
    throw ConfigError(
        fmt::format("{} has {} channels, and {}s = \"mean_std\" measures at most {}; set {}_mean and "
                    "{}_std to one number for all",
                    numbers.what, numbers.channels, key, kMostChannels, key, key));
  const ChannelFacts facts = channel_facts(numbers, units.log1p, comm);
  const double least = std::ranges::min(facts.least);
  if (units.log1p && !(least > -1))
    throw DataError(fmt::format("{} holds {:g}, and {}s = \"log1p\" takes the logarithm of 1 + x; x must be above -1",
                                numbers.what, least, key));
  if (!open) return;
  for (std::size_t c = 0; c < facts.mean.size(); ++c)
    if (!(facts.deviation[c] > 0))
      throw DataError(
          fmt::format("{} is {:g} in channel {} of all training samples, so mean_std has nothing to divide by; "
                      "leave that channel out of the file, or give {}_mean and {}_std",
                      numbers.what, facts.least[c], c, key, key));
  units.mean = facts.mean;
  units.std = facts.deviation;
}

}  // namespace

void settle_normalisation(Config& config, const DatasetShape& train, Comm& comm) {
  DataConfig& data = config.data;
  measure(data.normalise_samples, samples_of(data.train, train), "data.normalise.sample", comm);
  measure(data.normalise_labels, labels_of(data.train, train), "data.normalise.label", comm);
  sample_map(config, train.sample);
  label_map(config, train.label);
}

ChannelMap channel_map(const Normalisation& units, Index channels, const std::string& key) {
  ChannelMap map{units.log1p, {}, {}};
  if (!units.mean_std) return map;
  MRMF_CHECK(!units.mean.empty(), key + ": mean and std are not settled");
  const auto count = std::ssize(units.mean);
  if (count != 1 && count != channels)
    throw ConfigError(
        fmt::format("{}_mean and {}_std have {} entries, and the data {} channels; give one number each, "
                    "or one per channel",
                    key, key, count, channels));
  for (std::size_t c = 0; c < units.mean.size(); ++c) {
    map.scale.push_back(static_cast<float>(1 / units.std[c]));
    map.shift.push_back(static_cast<float>(-units.mean[c] / units.std[c]));
  }
  return map;
}

ChannelMap sample_map(const Config& config, const Shape& sample) {
  return channel_map(config.data.normalise_samples, sample.channels, "data.normalise.sample");
}

ChannelMap label_map(const Config& config, const Shape& label) {
  return channel_map(config.data.normalise_labels, label.channels, "data.normalise.label");
}

}  // namespace mrmf
