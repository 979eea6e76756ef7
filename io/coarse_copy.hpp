// Coarse copies of files.
#pragma once

#include <string>
#include <vector>

#include "io/dataset.hpp"
#include "io/output_file.hpp"

namespace mrmf {

struct CoarseCopy {
  std::string source, target;
  Replace replace = Replace::nothing;  ///< of the target
  Extent factor{1, 1, 1};
  int axes = 1;                             ///< of the samples
  std::vector<std::string> samples;         ///< data sets to average; empty: all that have so many axes
  ElementType type = ElementType::float32;  ///< or uint16: means are rounded to the nearest integer
  MissingRule missing = MissingRule::refuse;
  std::string program;  ///< name and version, for the provenance
};

/// What was written.
struct CoarseFile {
  std::vector<std::string> samples;
  Index count = 0;  ///< samples in all of these data sets
  Index bytes = 0;  ///< of the target
};

/// Collective; each rank averages its part of the rows. Writes the target with the source's data sets: samples averaged
/// (contiguous), all others as they are, the attributes of all but references, and the attribute "coarsened" of the
/// root: JSON with the source's name, size and shapes, the factor and the program. The same bytes for any number of
/// ranks. The target appears whole or not at all. DataError, ConfigError (on every rank): nothing to average, a factor
/// that does not divide, rows that are missing (of any data set), NaN, a mean that uint16 cannot hold.
CoarseFile coarse_copy(const CoarseCopy& copy, Comm& world);

}  // namespace mrmf
