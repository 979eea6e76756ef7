// A batch norm's places in what a model lends: two values per channel, one kind after the other.
#pragma once

#include <algorithm>

#include "layers/layer.hpp"

namespace mrmf {

class NormParameters {
 public:
  explicit NormParameters(Index channels) : channels_(static_cast<std::size_t>(channels)) {}

  std::string signature() const { return "batch_norm " + std::to_string(channels_); }
  Footprint footprint() const {
    const std::vector<Index> shape{static_cast<Index>(channels_)};
    return {.params = {{"gamma", shape}, {"beta", shape}},
            .state = {{"running_mean", shape}, {"running_variance", shape}},
            .cache = 2 * static_cast<Index>(channels_)};
  }
  void initialise(Span params, Span state) const {
    std::ranges::fill(first(params), 1.0F);
    std::ranges::fill(second(params), 0.0F);
    std::ranges::fill(first(state), 0.0F);
    std::ranges::fill(second(state), 1.0F);
  }
  Span first(Span both) const { return both.first(channels_); }
  Span second(Span both) const { return both.subspan(channels_, channels_); }
  NormMemory memory(const Lent& lent) const {
    return {.gamma = lent.params.first(channels_),
            .beta = lent.params.subspan(channels_, channels_),
            .running_mean = first(lent.state),
            .running_variance = second(lent.state),
            .mean = first(lent.cache),
            .inverse_deviation = second(lent.cache)};
  }

 private:
  std::size_t channels_;
};

}  // namespace mrmf
