#include "src/simulators/cosmology/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "generated/version.hpp"
#include "src/simulators/cosmology/universe.hpp"

namespace mrmf::cosmology {
namespace {

// Numbers of the published files, in the published order.
constexpr std::array<int, kTrainFiles> kTrain = {
    102, 87, 26, 34,  54,  114, 94,  85,  30, 76, 64, 57,  83,  93, 107, 42,  63,  33, 96, 117, 61, 46,
    84,  24, 80, 73,  90,  22,  106, 113, 25, 47, 74, 101, 100, 82, 31,  112, 104, 92, 23, 97,  20, 86,
    103, 60, 32, 116, 111, 105, 52,  110, 50, 43, 44, 40,  70,  41, 36,  51,  91,  55, 72, 27};
constexpr std::array<int, kOtherFiles> kValidation = {53, 62, 56, 67, 115, 65, 21, 71};
constexpr std::array<int, kOtherFiles> kTest = {66, 75, 35, 95, 45, 81, 37, 77};

std::vector<CubeFile> spread(const Range& samples, Index per_file, std::span<const int> numbers) {
  const Index files = (samples.count + per_file - 1) / per_file;
  const auto most = static_cast<Index>(numbers.size());
  if (files > most)
    throw ConfigError(
        fmt::format("simulate cosmology: {} samples at {} per file need {} files where {} were published; ask for {}",
                    samples.count, per_file, files, most,
                    per_file < 128 ? "more samples per file or fewer samples" : "fewer samples"));
  std::vector<CubeFile> made;
  for (Index i = 0; i < files; ++i) {
    const Range part = piece(samples.count, i, files);
    made.push_back({fmt::format("{}{}.h5", kFilePrefix, numbers[static_cast<std::size_t>(i)]),
                    {samples.first + part.first, part.count}});
  }
  return made;
}

using Json = nlohmann::ordered_json;

std::string list(const std::string& folder, const std::vector<CubeFile>& files) {
  Json paths = Json::array();  // JSON strings are also TOML strings
  for (const CubeFile& file : files) paths.push_back((std::filesystem::path(folder) / file.name).string());
  return paths.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

CubeFiles cube_files(const CosmologySimulation& settings) {
  const Index other = std::max<Index>(1, (settings.samples + 5) / 10);
  const Index train = settings.samples - 2 * other;
  return {spread({0, train}, settings.per_file, kTrain), spread({train, other}, settings.per_file, kValidation),
          spread({train + other, other}, settings.per_file, kTest)};
}

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
  meta["method"] = to_string(settings.method);
  if (settings.method == Displacement::cola) {
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
