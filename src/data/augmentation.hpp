// Training samples changed at random: moved, as labels with positions are with them, and their numbers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "io/values/axes_and_channel_map.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// ConfigError when data.augment or data.vectors does not suit the data at one of these resolutions: an axis that is
/// not there, turns of axes of different sizes, labels with other positions than the samples, channels that are not
/// there or no whole vectors. `sample` and `label` at full resolution.
void require_augmentable(const DataConfig& data, const Shape& sample, const Shape& label,
                         const std::vector<Extent>& resolutions);

/// What the numbers of samples and labels are.
struct NumberKinds {
  VectorChannels vectors{};
  ChannelMap samples{}, labels{};  ///< their units
  bool mask = false;               ///< the last channel of samples says what is there
  bool label_numbers = false;      ///< labels are numbers, which have values between positions; else classes
};

/// The changes to a batch. What happens to a sample depends on the key, its id and nothing else, so it is the same on
/// any number of ranks and threads, and after a stop.
class Augmenter {
 public:
  /// For samples and targets of these shapes (n = 0) at a resolution. Shifts are in positions of full resolution.
  Augmenter(const Augmentation& settings, const Shape& sample, const Shape& target, const Extent& resolution,
            NumberKinds kinds = {});

  /// Changes rows of samples and targets in place. `key` is the epoch's.
  void change(std::uint64_t key, std::span<const std::int64_t> ids, Span x, Span targets) const;

 private:
  struct Change;
  Change draw(std::uint64_t key) const;
  void change_row(const Change& change, Span x, Span target, std::vector<float>& copy) const;
  void change_numbers(std::uint64_t key, Span x) const;

  Augmentation settings_;
  Shape sample_, target_;
  Extent most_{0, 0, 0};  // positions of a shift at this resolution
  NumberKinds kinds_;
};

}  // namespace mrmf
