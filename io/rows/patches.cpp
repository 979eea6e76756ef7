#include "io/rows/patches.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"

namespace mrmf {
namespace {

constexpr std::uint64_t kPatches = 0x7061746368;  // apart from other uses of an epoch's key

// One of the classes that the sample has, and one of its positions.
const Index* foreground_position(const Foreground* foreground, Rng& random) {
  if (foreground == nullptr) return nullptr;
  std::vector<const std::vector<Index>*> there;
  for (const std::vector<Index>& of_class : *foreground)
    if (!of_class.empty()) there.push_back(&of_class);
  if (there.empty()) return nullptr;
  const std::vector<Index>& chosen = *there[random.below(there.size())];
  return &chosen[random.below(chosen.size())];
}

Index below(Rng& random, Index count) { return static_cast<Index>(random.below(static_cast<std::uint64_t>(count))); }

}  // namespace

Shape patch_of(const PatchSettings& settings, const Shape& sample) {
  Shape patch = sample;
  const auto axes = settings.size.size();
  for (std::size_t a = 0; a < axes; ++a) {
    Index& positions = patch.spatial.at(3 - axes + a);
    positions = std::min(positions, settings.size[a]);
  }
  return patch;
}

Index patches_of(const PatchSettings& settings, const Shape& sample) {
  const Shape patch = patch_of(settings, sample);
  Index count = 1;
  for (std::size_t a = 0; a < 3; ++a) count *= (sample.spatial[a] + patch.spatial[a] - 1) / patch.spatial[a];
  return count;
}

Box draw_patch(const PatchDraw& of, std::uint64_t key, std::int64_t number) {
  Rng random(mix(key, kPatches, static_cast<std::uint64_t>(number)));
  const Extent &size = of.sample.spatial, count = patch_of(of.settings, of.sample).spatial;
  const bool near = random.uniform() < of.settings.foreground;
  const Index* const around = near ? foreground_position(of.foreground, random) : nullptr;
  Box box{.first = {0, 0, 0}, .count = count};
  Index rest = around != nullptr ? *around : 0;
  for (std::size_t a = 3; a-- > 0;) {
    const Index fine = size[a] * of.factor[a], at = rest % fine / of.factor[a];
    rest /= fine;
    const Index first = around != nullptr ? at - below(random, count[a]) : below(random, size[a] - count[a] + 1);
    box.first[a] = std::clamp<Index>(first, 0, size[a] - count[a]);
  }
  return box;
}

Box at_original(const Box& box, const Extent& factor) {
  Box fine = box;
  for (std::size_t a = 0; a < 3; ++a) fine.first[a] *= factor[a], fine.count[a] *= factor[a];
  return fine;
}

void cut_box(const Shape& sample, Index bytes, const std::byte* from, const Box& box, std::byte* to) {
  const Extent& s = sample.spatial;
  MRMF_CHECK(contains({.count = s}, box), "positions that are not there");
  const Index position = sample.channels * bytes, line = box.count[2] * position;
  for (Index i = box.first[0]; i < box.end(0); ++i)
    for (Index j = box.first[1]; j < box.end(1); ++j, to += line)
      std::memcpy(to, from + ((i * s[1] + j) * s[2] + box.first[2]) * position, static_cast<std::size_t>(line));
}

}  // namespace mrmf
