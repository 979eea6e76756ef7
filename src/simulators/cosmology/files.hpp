// The files of a data set: their samples, by the names and the split of the published files, and their metadata.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "io/sample_order.hpp"
#include "src/simulators/cosmology/simulate.hpp"

namespace mrmf::cosmology {

/// The most files per split, 80 together.
constexpr Index kTrainFiles = 64, kOtherFiles = 8;

struct CubeFile {
  std::string name;  ///< PeterA_2019_05_4parE-rec<number>.h5
  Range samples;     ///< which of all samples
};

struct CubeFiles {
  std::vector<CubeFile> train, validation, test;
};

/// Validation and test get a tenth of the samples each (at least one), spread evenly over the fewest files that hold
/// them. ConfigError when a split would need more files than were published.
CubeFiles cube_files(const CosmologySimulation& settings);

/// The beginning of such files' names.
constexpr const char* kFilePrefix = "PeterA_2019_05_4parE-rec";

/// JSON for the data set meta.JSON: settings, parameters, the file's samples out of how many, and the program's
/// version.
std::string metadata(const CosmologySimulation& settings, const CubeFile& file);

/// The [data] section of a configuration that trains on these files with `mrmf train`.
std::string data_section(const CosmologySimulation& settings);

}  // namespace mrmf::cosmology
