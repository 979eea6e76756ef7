// A measurement of training samples before a schedule is chosen: whether labels depend on the finest detail, which
// samples averaged by 2 no longer have.
#pragma once

#include <string>

#include "io/dataset.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Labels are fitted linearly by the logarithms of energies of detail (src/inspection/haar_energies.hpp), once without
/// the finest level and once with it. A rule of thumb: labels may depend on the finest detail in ways that energies do
/// not show.
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
