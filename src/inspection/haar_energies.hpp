// How much of a sample is detail of each size: energies of its Haar wavelets, which are what averaging by 2 takes away.
#pragma once

#include <span>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// Halves all axes of a sample again and again, as data at lower resolutions are made: each block of 2 positions along
/// every axis gives its mean, and 2^axes - 1 details, one for each orientation. A level's energies are the mean squares
/// of its details. With log1p they are details of log(1 + x), as a network sees it at that level's resolution: averages
/// are of x itself.
///
/// The numbers of a sample come in groups, each with one number per channel: the energies of the finest level, one
/// group per orientation; those of the coarser levels; the variance of the positions that are left; and their mean.
class HaarEnergies {
 public:
  /// For samples of this shape with one to three axes. A position that makes no pair at the end of an axis is left out.
  HaarEnergies(const Shape& sample, bool log1p);

  /// At most four; none where an axis is shorter than four positions.
  int levels() const { return levels_; }
  Index groups() const { return levels_ * finest_groups() + 2; }
  Index finest_groups() const { return (Index{1} << sample_.axes) - 1; }
  Index numbers() const { return groups() * sample_.channels; }
  /// The energies of one sample with channels last; `to` has numbers() of them. May be called by many threads at once.
  void measure(ConstSpan x, std::span<double> to) const;

 private:
  Shape sample_;
  bool log1p_;
  int levels_ = 0;
};

}  // namespace mrmf
