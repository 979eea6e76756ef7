#include "src/simulators/implosion/simulate.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "generated/version.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "kernels/timer.hpp"
#include "src/simulators/implosion/hot_spot.hpp"

namespace mrmf {
namespace {

using namespace implosion;

constexpr const char *kInputRows = "inputs", *kScalarRows = "scalars", *kImages = "images";
constexpr int kLeastSize = 8;
constexpr Index kBlockValues = Index{1} << 24;  // made, then written: 64 MiB
constexpr std::uint64_t kSample = 0x696d706c6f6465;

/// Rows of consecutive samples.
struct Rows {
  std::vector<float> inputs, scalars, images;
};

void make(const ImplosionSimulation& settings, const Range& samples, Rows& rows) {
  const auto count = static_cast<std::size_t>(samples.count);
  const auto image = static_cast<std::size_t>(settings.size) * static_cast<std::size_t>(settings.size) * kBands;
  rows.inputs.resize(count * kInputs);
  rows.scalars.resize(count * kScalars);
  rows.images.resize(count * image);
  const int threads = settings.threads > 0 ? settings.threads : omp_get_max_threads();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::size_t i = 0; i < count; ++i) {
    Rng random(mix(settings.seed, kSample, static_cast<std::uint64_t>(samples.first) + i));
    Inputs input;
    for (float& value : input) value = static_cast<float>(random.uniform(-1, 1));
    const HotSpot spot = hot_spot(input);
    const Scalars scalar = scalars_of(spot);
    std::ranges::copy(input, rows.inputs.begin() + static_cast<std::ptrdiff_t>(i * kInputs));
    std::ranges::copy(scalar, rows.scalars.begin() + static_cast<std::ptrdiff_t>(i * kScalars));
    draw(spot, settings.size, std::span(rows.images).subspan(i * image, image));
  }
}

// The text of meta.JSON.
std::string metadata(const ImplosionSimulation& settings) {
  nlohmann::ordered_json meta;
  meta["program"] = std::string("mrmf ") + kVersion;
  meta["kind"] = "implosion";
  meta["standsInFor"] = "a radiation-hydrodynamics code; a smooth analytic model, no prediction";
  meta["pixelsPerAxis"] = settings.size;
  meta["micrometresPerSide"] = kSide;
  meta["bandsKeV"] = band_energies();
  meta["seed"] = settings.seed;
  for (const FileSplit& split : file_splits(settings.samples, settings.shares))
    meta["numSamples"][split.name] = split.rows.count;
  for (const Quantity& input : implosion::inputs())
    meta["inputs"].push_back(
        {{"name", input.name}, {"unit", input.unit}, {"centre", input.centre}, {"halfWidth", input.half_width}});
  for (const Quantity& scalar : implosion::scalars())
    meta["scalars"].push_back({{"name", scalar.name}, {"unit", scalar.unit}});
  return meta.dump();
}

}  // namespace

void check(const ImplosionSimulation& settings) { check_planes("simulate implosion", settings, kLeastSize); }

SimulationReport simulate_implosion(const ImplosionSimulation& settings, Comm& comm, const ProgressFunction& progress) {
  check(settings);
  const Timer timer;
  Hdf5Output file(settings.file, settings.replace, comm);
  const FileSplits splits = file_splits(settings.samples, settings.shares);
  const Index size = settings.size, bands = kBands;
  create_datasets(file, splits,
                  {{kInputRows, {Index{kInputs}}}, {kScalarRows, {Index{kScalars}}}, {kImages, {size, size, bands}}});
  Rows rows;
  const auto make_and_write = [&](const Range& block) {
    make(settings, block, rows);
    write_rows(file, splits, kInputRows, block, rows.inputs);
    write_rows(file, splits, kScalarRows, block, rows.scalars);
    write_rows(file, splits, kImages, block, rows.images);
  };
  const Index most = std::max<Index>(kBlockValues / (size * size * bands), 1);
  for_each_block(comm, settings.samples, most, make_and_write, progress);
  file.write_text("meta.JSON", metadata(settings));
  file.commit();
  return report_of(timer, settings.samples, comm);
}

}  // namespace mrmf
