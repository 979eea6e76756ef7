// Training samples changed at random: flips, turns and shifts, of samples and of labels with positions alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/config/config.hpp"

namespace mrmf {

/// ConfigError when data.augment does not suit the data at one of these resolutions: an axis that is not there, turns
/// of axes of different sizes, labels with other positions than the samples. `sample` and `label` at full resolution.
void require_augmentable(const Augmentation& settings, const Shape& sample, const Shape& label,
                         const std::vector<Extent>& resolutions);

/// The changes to a batch. What happens to a sample depends on the key, its id and nothing else, so it is the same on
/// any number of ranks and threads, and after a stop.
class Augmenter {
 public:
  /// For samples and targets of these shapes (n = 0) at a resolution. Shifts are in positions of full resolution.
  Augmenter(const Augmentation& settings, const Shape& sample, const Shape& target, const Extent& resolution);

  /// Changes rows of samples and targets in place. `key` is the epoch's.
  void change(std::uint64_t key, std::span<const std::int64_t> ids, Span x, Span targets) const;

 private:
  struct Change;
  Change draw(std::uint64_t key) const;

  Augmentation settings_;
  Shape sample_, target_;
  Extent most_{0, 0, 0};  // positions of a shift at this resolution
};

}  // namespace mrmf
