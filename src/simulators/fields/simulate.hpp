// `mrmf simulate fields`: makes a data set of 2-D fields on a plane, from which three parameters are to be inferred.
//
// Two kinds, to try methods that begin with averaged data on what they were not made for. Coarse pixels keep what tells
// the parameters of one, and lose that of the other. A sample depends on kind, size, seed and its number alone, so the
// file's bytes do not depend on ranks or threads.
#pragma once

#include <cstdint>
#include <string>

#include "io/output_file.hpp"
#include "src/simulators/split_file.hpp"

namespace mrmf {

/// heat: three frames of a field that spreads and drifts; texture: fine stripes on a smooth background.
enum class FieldKind { heat, texture };
std::string to_string(FieldKind kind);

struct FieldsSimulation {
  std::string file;
  Replace replace = Replace::nothing;
  FieldKind kind = FieldKind::heat;
  Index samples = 5000;  ///< in all splits together
  int size = 64;         ///< pixels per axis, even
  std::uint64_t seed = 1;
  SplitShares shares;
  int threads = 0;  ///< per rank; 0: OpenMP's number
};

struct FieldsReport {
  Index samples = 0;
  double seconds = 0;             ///< including writing
  double samples_per_second = 0;  ///< samples per second of all ranks together
};

/// ConfigError when the settings are impossible.
void check(const FieldsSimulation& settings);

/// Collective. Writes `settings.file`, whole or not at all; errors as OutputFile's:
///   train_fields, val_fields, test_fields  (n, size, size, channels)  heat: u at times 0, 0.5 and 1; texture: 1
///   channel train_parameters, val_..., test_...    (n, 3)                     labels in [-1, 1] meta.JSON (1,) kind,
///   labels, numbers behind samples, seed, ...
/// Sample i is row i of all splits, which follow one another.
FieldsReport simulate_fields(const FieldsSimulation& settings, Comm& comm, const ProgressFunction& progress = {});

}  // namespace mrmf
