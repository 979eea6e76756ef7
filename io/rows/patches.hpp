// Boxes of samples that are too large to be trained on whole: of which size, how many, and where.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// What a model takes of a sample at once.
struct PatchSettings {
  std::vector<Index> size{};  ///< positions along each axis, of whatever resolution; empty: whole samples
  double foreground = 0;      ///< share of the boxes that hold a position of another class than the background
  double overlap = 0.5;       ///< share of a window that its neighbour sees, too, where whole samples are needed
  bool any() const { return !size.empty(); }
  bool operator==(const PatchSettings&) const = default;
};

/// The shape of what a model takes at once of samples of this shape, at their own resolution: no more positions than
/// there are. The sample itself without a size.
Shape patch_of(const PatchSettings& settings, const Shape& sample);

/// How many boxes of each sample an epoch draws: as many as it takes to cover the sample once.
Index patches_of(const PatchSettings& settings, const Shape& sample);

/// Positions of one sample that are foreground, class by class; some of them where they are many.
using Foreground = std::vector<std::vector<Index>>;

/// What a box is drawn of.
struct PatchDraw {
  const PatchSettings& settings;
  Shape sample;                            ///< at the box's resolution
  Extent factor{1, 1, 1};                  ///< positions of the original resolution in one of this
  const Foreground* foreground = nullptr;  ///< of the original resolution; null: not asked for
};

/// A box of the patch's size, anywhere with the same chance, or around a position of a class that is drawn first. A
/// function of its arguments: of an epoch's key and the box's number over all samples.
Box draw_patch(const PatchDraw& of, std::uint64_t key, std::int64_t number);

/// The positions of a box at a lower resolution as a box of the original one.
Box at_original(const Box& box, const Extent& factor);

/// Copies the positions of a box out of a sample of elements of so many bytes.
void cut_box(const Shape& sample, Index bytes, const std::byte* from, const Box& box, std::byte* to);

}  // namespace mrmf
