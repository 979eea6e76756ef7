#include "src/simulators/cosmology/metadata.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "generated/version.hpp"
#include "src/simulators/cosmology/universe.hpp"

namespace mrmf::cosmology {
namespace {

using Json = nlohmann::ordered_json;

std::string list(const std::string& folder, const std::vector<CubeFile>& files) {
  Json paths = Json::array();  // strings of JSON are strings of TOML
  for (const CubeFile& file : files) paths.push_back((std::filesystem::path(folder) / file.name).string());
  return paths.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string metadata(const CosmologySimulation& settings, const CubeFile& file) {
  Json meta;
  meta["program"] = std::string("mrmf ") + kVersion;
  meta["seed"] = settings.seed;
  meta["samples"] = settings.samples;
  meta["firstSample"] = file.samples.first;
  meta["parName"] = kLabelNames;
  meta["redshifts"] = kRedshift;
  meta["boxAtH70_Mpc_per_h"] = settings.box;
  meta["voxelsPerAxis"] = settings.size;
  meta["particlesPerVoxelAndAxis"] = settings.particles;
  meta["Omega_b"] = Cosmology{}.omega_b;
  meta["method"] = settings.method;
  if (settings.method == "cola") {
    meta["steps"] = settings.steps;
    meta["meshCellsPerParticleAndAxis"] = settings.mesh;
  }
  return meta.dump();
}

std::string data_section(const CosmologySimulation& settings) {
  const CubeFiles files = cube_files(settings);
  const std::string names = "samples = \"3Dmap\", labels = \"unitPar\"";
  return "[data]\nfiles = " + list(settings.folder, files.train) + "\ntrain = { " + names + " }\nvalidation = { " +
         names + ", files = " + list(settings.folder, files.validation) +
         " }\n# test = " + list(settings.folder, files.test) + "\n";
}

}  // namespace mrmf::cosmology
