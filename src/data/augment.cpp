#include "src/data/augment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "io/coarsen.hpp"
#include "kernels/check.hpp"
#include "kernels/random.hpp"

namespace mrmf {
namespace {

// The place of a data axis among the three of an Extent: unused ones come first.
std::size_t place_of(int axis, const Shape& shape) { return static_cast<std::size_t>(3 - shape.axes + axis); }

}  // namespace

/// Position p of the result, along each axis of it, is position of[axis] of the sample: shifted, then mirrored.
struct Augmenter::Change {
  std::array<std::size_t, 3> from{0, 1, 2};  // which axis of the sample each axis of the result is
  std::array<bool, 3> mirror{};
  Extent shift{0, 0, 0};

  void apply(const Shape& shape, Span values, std::vector<float>& copy) const {
    copy.assign(values.begin(), values.end());
    const Extent& size = shape.spatial;
    const Extent stride{size[1] * size[2] * shape.channels, size[2] * shape.channels, shape.channels};
    std::array<std::vector<Index>, 3> offset;  // by axis: the offset of what each position of the result takes
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (Index p = 0; p < size[axis]; ++p) {
        Index q = (p + shift[axis] + size[axis]) % size[axis];
        if (mirror[axis]) q = size[axis] - 1 - q;
        offset[axis].push_back(q * stride[from[axis]]);
      }
    float* to = values.data();
    for (const Index d : offset[0])
      for (const Index h : offset[1])
        for (const Index w : offset[2]) to = std::copy_n(copy.data() + d + h + w, shape.channels, to);
  }
};

namespace {

void require_augmentable_at(const Augmentation& settings, const Shape& sample, const Shape& label) {
  const auto refuse = [&](const std::string& key, const std::string& why) {
    throw ConfigError(fmt::format("data.augment.{}: {}", key, why));
  };
  for (const auto& [key, axes] : {std::pair("flip", &settings.flip), std::pair("turn", &settings.turn)})
    for (const int axis : *axes) {
      if (axis >= sample.axes)
        refuse(key, fmt::format("there is no axis {}; samples of {} have {}, counted from 0", axis, to_string(sample),
                                sample.axes));
      if (std::ranges::count(*axes, axis) > 1) refuse(key, fmt::format("axis {} is named twice", axis));
    }
  for (const int axis : settings.turn)
    if (sample.spatial[place_of(axis, sample)] != sample.spatial[place_of(settings.turn.front(), sample)])
      refuse("turn",
             fmt::format("axes of samples of {} have different sizes, and cannot change places", to_string(sample)));
  if (!settings.shift.empty() && std::ssize(settings.shift) != sample.axes)
    refuse("shift", fmt::format("it has {} entries, and samples of {} have {} axes; give one for each",
                                settings.shift.size(), to_string(sample), sample.axes));
  if (label.axes > 0 && label.spatial != sample.spatial)
    refuse(!settings.flip.empty()   ? "flip"
           : !settings.turn.empty() ? "turn"
                                    : "shift",
           fmt::format("labels of {} have other positions than samples of {}, so they cannot be changed with them",
                       to_string(label), to_string(sample)));
}

}  // namespace

void require_augmentable(const Augmentation& settings, const Shape& sample, const Shape& label,
                         const std::vector<Extent>& resolutions) {
  if (!settings.any()) return;
  require_augmentable_at(settings, sample, label);
  for (const Extent& resolution : resolutions)
    require_augmentable_at(settings, coarse_shape(sample, resolution),
                           label.axes > 0 ? coarse_shape(label, resolution, "labels") : label);
}

Augmenter::Augmenter(const Augmentation& settings, const Shape& sample, const Shape& target, const Extent& resolution)
    : settings_(settings), sample_(sample), target_(target) {
  for (std::size_t axis = 0; axis < settings.shift.size(); ++axis) {
    const std::size_t place = place_of(static_cast<int>(axis), sample);
    most_[place] = std::min(settings.shift[axis] / resolution[place], sample.spatial[place] - 1);
  }
}

Augmenter::Change Augmenter::draw(std::uint64_t key) const {
  Rng random(key);
  Change change;
  std::vector<int> left = settings_.turn;
  for (const int axis : settings_.turn) {
    const auto chosen = left.begin() + static_cast<std::ptrdiff_t>(random.below(left.size()));
    change.from[place_of(axis, sample_)] = place_of(*chosen, sample_);
    left.erase(chosen);
  }
  for (const int axis : settings_.flip) change.mirror[place_of(axis, sample_)] = random.below(2) == 1;
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (most_[axis] > 0)
      change.shift[axis] =
          static_cast<Index>(random.below(static_cast<std::uint64_t>(2 * most_[axis] + 1))) - most_[axis];
  return change;
}

void Augmenter::change(std::uint64_t key, std::span<const std::int64_t> ids, Span x, Span targets) const {
  const Index width = sample_.per_sample(), outputs = target_.per_sample(), rows = std::ssize(ids);
#pragma omp parallel
  {
    std::vector<float> copy;
#pragma omp for schedule(static)
    for (Index row = 0; row < rows; ++row) {
      const Change change = draw(mix(key, static_cast<std::uint64_t>(ids[static_cast<std::size_t>(row)])));
      change.apply(sample_, x.subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width)), copy);
      if (target_.axes > 0)
        change.apply(target_,
                     targets.subspan(static_cast<std::size_t>(row * outputs), static_cast<std::size_t>(outputs)), copy);
    }
  }
}

}  // namespace mrmf
