#include "src/cosmology/metadata.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "generated/version.hpp"
#include "src/cosmology/universe.hpp"

namespace mrmf::cosmology {
namespace {

using Json = nlohmann::ordered_json;

std::string list(const std::string& folder, const std::vector<CubeFile>& files) {
  std::string text;
  for (const CubeFile& file : files)  // a JSON string is a TOML string
    text += "  " + Json((std::filesystem::path(folder) / file.name).string()).dump() + ",\n";
  return "[\n" + text + "]";
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
  return "[data]\nfiles = " + list(settings.folder, files.train) +
         "\ntrain = { samples = \"3Dmap\", labels = \"unitPar\" }\n\n[data.validation]\nsamples = \"3Dmap\"\n"
         "labels = \"unitPar\"\nfiles = " +
         list(settings.folder, files.validation) + "\n\n# for mrmf evaluate --files:\n# test = " +
         [&] {
           std::string names;
           for (const CubeFile& file : files.test) names += (names.empty() ? "" : " ") + file.name;
           return names;
         }() +
         "\n";
}

}  // namespace mrmf::cosmology
