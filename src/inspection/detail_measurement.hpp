// A measurement of training samples before a schedule is chosen: whether labels depend on the finest detail, which
// samples averaged by 2 no longer have. Its parts are energies of Haar wavelets and a linear fit.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "kernels/tensor.hpp"
#include "src/config/config.hpp"

namespace mrmf {

// How much of a sample is detail of each size: energies of its Haar wavelets, which are what averaging by 2 takes away.

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

// How well some numbers tell others: a linear fit, judged on rows that it was not fitted to.

/// Numbers in rows, one row after the other.
struct Table {
  Index rows = 0, columns = 0;
  std::vector<double> values{};
  double& at(Index row, Index column) { return values[static_cast<std::size_t>(row * columns + column)]; }
  double at(Index row, Index column) const { return values[static_cast<std::size_t>(row * columns + column)]; }
};

/// The share of the variance of `y`, over all of its columns together, that a ridge regression on the columns of `x`
/// leaves unexplained in five-fold cross-validation: about 1 where `x` tells nothing. Columns of `x` are brought to one
/// scale, and those that do not change are left out. Of some strengths of the ridge the best one counts. The folds are
/// a function of the number of rows. requires: ten rows or more, as many in both, and a `y` that changes.
double unexplained_share(const Table& x, const Table& y);

/// Labels are fitted linearly by the logarithms of energies of detail (HaarEnergies), once without the finest level and
/// once with it. A rule of thumb: labels may depend on the finest detail in ways that energies do not show.
struct DetailMeasurement {
  std::string why_not{};      ///< why nothing could be told; empty: the rest is known
  Index samples = 0;          ///< training samples that were looked at
  double without_finest = 1;  ///< share of the labels' variance that the fit leaves unexplained, from coarser detail
  double with_finest = 1;     ///< the same from all detail

  bool known() const { return why_not.empty(); }
  /// Whether averages of 2 lose what the labels depend on. False where it is not known.
  bool loses() const;
  bool operator==(const DetailMeasurement&) const = default;
};

/// Looks at 512 training samples at most, one from each of as many equal parts of the set, and of each at a box in its
/// middle of about 32,768 positions. The root reads and tells the others. The same for a resumed run, and for
/// `mrmf plan`: rows that data.not_finite leaves out are drawn and then dropped, whether `train` knows them or not; to
/// find them, those that are drawn are read whole. `resolution`: of the coarse model. Detail along an axis that it does
/// not average is not lost. Collective. DataError as where the rows are read for training.
/// ConfigError where the network does not fit the samples.
DetailMeasurement measure_detail(const Config& config, const DatasetShape& train, Comm& comm,
                                 const Extent& resolution = {2, 2, 2});

}  // namespace mrmf
