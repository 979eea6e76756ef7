// The files of a data set: which sample is in which one, by the names and the split of the published files, and what a
// file says of itself.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "io/order.hpp"
#include "src/simulators/cosmology/simulate.hpp"

namespace mrmf::cosmology {

/// Most files per split, 80 together.
constexpr Index kTrainFiles = 64, kOtherFiles = 8;

struct CubeFile {
  std::string name;  ///< PeterA_2019_05_4parE-rec<number>.h5
  Range samples;     ///< of all samples
};

struct CubeFiles {
  std::vector<CubeFile> train, validation, test;
};

/// Validation and test get a tenth of the samples each (at least one), spread evenly over as few files as hold them.
/// ConfigError when a split would need more files than were published.
CubeFiles cube_files(const CosmologySimulation& settings);

/// What such files are called, from the first letter on.
constexpr const char* kFilePrefix = "PeterA_2019_05_4parE-rec";

/// JSON for the data set meta.JSON: settings, parameters, which samples of how many, the program's version.
std::string metadata(const CosmologySimulation& settings, const CubeFile& file);

/// The [data] section of a configuration that trains on these files: for `mrmf train`.
std::string data_section(const CosmologySimulation& settings);

}  // namespace mrmf::cosmology
