// What a file says of itself.
#pragma once

#include <string>

#include "src/simulators/cosmology/files.hpp"

namespace mrmf::cosmology {

/// JSON for the data set meta.JSON: settings, parameters, which samples of how many, the program's version.
std::string metadata(const CosmologySimulation& settings, const CubeFile& file);

/// The [data] section of a configuration that trains on these files: for `mrmf train`.
std::string data_section(const CosmologySimulation& settings);

}  // namespace mrmf::cosmology
