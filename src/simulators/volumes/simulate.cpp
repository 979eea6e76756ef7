#include "src/simulators/volumes/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <omp.h>
#include <nlohmann/json.hpp>

#include "generated/version.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "kernels/timer.hpp"

namespace mrmf::volumes {
namespace {

constexpr double kMostNorm = 0.9;  // most norm of a map's matrix: the square root of its squares
constexpr double kLeastFactor = 0.4, kMostFactor = 1.6;
constexpr int kLeastMaps = 2, kMostMaps = 8;
constexpr int kForgotten = 20;  // points until the start no longer shows
constexpr int kTries = 1000;

// Shares of a grid's cells that a class has points in: more than a plane, less than all.
constexpr int kGrid = 16;
constexpr std::size_t kGridPoints = 8192, kLeastCells = 400;

std::size_t cells_with_points(const std::vector<Point>& points) {
  std::set<int> cells;
  for (const Point& p : points) {
    int cell = 0;
    for (const double x : p) cell = cell * kGrid + static_cast<int>(x * kGrid);
    cells.insert(cell);
  }
  return cells.size();
}

}  // namespace

Point AffineMap::operator()(const Point& x) const {
  Point y{};
  for (std::size_t row = 0; row < 3; ++row) {
    y[row] = parameters[9 + row];
    for (std::size_t column = 0; column < 3; ++column) y[row] += parameters[3 * row + column] * x[column];
  }
  return y;
}

double AffineMap::volume() const {
  const auto& a = parameters;
  return std::abs(a[0] * (a[4] * a[8] - a[5] * a[7]) - a[1] * (a[3] * a[8] - a[5] * a[6]) +
                  a[2] * (a[3] * a[7] - a[4] * a[6]));
}

void AffineMap::contract() {
  double squares = 0;
  for (std::size_t i = 0; i < 9; ++i) squares += parameters[i] * parameters[i];
  const double norm = std::sqrt(squares);
  if (norm <= kMostNorm) return;
  for (std::size_t i = 0; i < 9; ++i) parameters[i] *= kMostNorm / norm;
}

Fractal::Fractal(std::vector<AffineMap> maps) : maps_(std::move(maps)) {
  double sum = 0;
  for (AffineMap& map : maps_) {
    map.contract();
    chances_.push_back(sum += map.volume() + 1e-3);  // a flat map is drawn now and then
  }
}

Fractal Fractal::of_class(std::uint64_t seed, int number) {
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Rng rng(mix(seed, static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(attempt)));
    std::vector<AffineMap> maps(kLeastMaps + rng.below(kMostMaps - kLeastMaps + 1));
    for (AffineMap& map : maps)
      for (double& parameter : map.parameters) parameter = rng.uniform(-1, 1);
    Fractal fractal(std::move(maps));
    if (cells_with_points(fractal.points(seed, kGridPoints)) >= kLeastCells) return fractal;
  }
  MRMF_CHECK(false, "no fractal of a class fills any space");
}

Fractal Fractal::instance(int number) const {
  if (number == 0) return *this;
  const auto parameter = static_cast<std::size_t>((number - 1) / kFactors);
  const double factor = kLeastFactor + (kMostFactor - kLeastFactor) * ((number - 1) % kFactors) / (kFactors - 1);
  std::vector<AffineMap> maps = maps_;
  for (AffineMap& map : maps) map.parameters[parameter] *= factor;
  return Fractal(std::move(maps));
}

std::vector<Point> Fractal::points(std::uint64_t key, std::size_t count) const {
  Rng rng(key);
  std::vector<Point> points;
  points.reserve(count);
  Point x{};
  Point least{1e300, 1e300, 1e300}, most{-1e300, -1e300, -1e300};
  for (int i = -kForgotten; i < static_cast<int>(count); ++i) {
    const double drawn = rng.uniform(0, chances_.back());
    const auto map = std::ranges::upper_bound(chances_, drawn) - chances_.begin();
    x = maps_[std::min(static_cast<std::size_t>(map), maps_.size() - 1)](x);
    if (i < 0) continue;
    points.push_back(x);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      least[axis] = std::min(least[axis], x[axis]);
      most[axis] = std::max(most[axis], x[axis]);
    }
  }
  double longest = 1e-9;
  for (std::size_t axis = 0; axis < 3; ++axis) longest = std::max(longest, most[axis] - least[axis]);
  const double scale = (1 - 1e-9) / longest;
  for (Point& p : points)
    for (std::size_t axis = 0; axis < 3; ++axis) p[axis] = (p[axis] - least[axis]) * scale;
  return points;
}

}  // namespace mrmf::volumes

namespace mrmf {
namespace {

using namespace volumes;

constexpr const char *kVolumes = "volumes", *kMasks = "masks";
constexpr int kLeastSize = 8, kMostSize = 256, kMostClasses = 1000, kMostFractals = 64;
constexpr Index kBlockValues = Index{1} << 24;  // made, then written: 64 MiB, or more where that is too few for threads
constexpr std::uint64_t kClassStream = 0x636C617373, kSampleStream = 0x766F6C756D65, kNoiseStream = 0x6E6F697365;
constexpr double kLeastExtent = 0.35, kMostExtent = 0.6;  // sizes of a fractal, relative to the volume
constexpr double kLeastBrightness = 0.8, kMostBrightness = 1.2;
constexpr double kPointsPerCell = 2;  // for each cell of the box that a fractal lies in

}  // namespace
}  // namespace mrmf

namespace mrmf::volumes {

Painter::Painter(const VolumesSimulation& settings) : size_(settings.size), seed_(settings.seed) {
  for (int c = 0; c < settings.classes; ++c) shapes_.push_back(Fractal::of_class(mix(settings.seed, kClassStream), c));
}

void Painter::paint(const Scene& scene, std::span<float> volume, std::span<std::uint16_t> mask) const {
  const std::uint64_t key = mix(seed_, kSampleStream, static_cast<std::uint64_t>(scene.sample));
  Rng rng(key);
  std::ranges::fill(mask, std::uint16_t{0});
  Rng noise(mix(key, kNoiseStream));
  for (float& value : volume) value = 0;
  for (int i = 0; i < scene.fractals; ++i) add_fractal(rng, mix(key, static_cast<std::uint64_t>(i)), volume, mask);
  for (float& value : volume) value += static_cast<float>(scene.noise * noise.normal());
}

// A later fractal lies over earlier ones.
void Painter::add_fractal(Rng& rng, std::uint64_t key, std::span<float> volume, std::span<std::uint16_t> mask) const {
  const auto n = static_cast<std::size_t>(size_);
  const auto kind = static_cast<std::size_t>(rng.below(shapes_.size()));
  const auto number = static_cast<int>(rng.below(kInstances));
  const double extent = rng.uniform(kLeastExtent, kMostExtent) * static_cast<double>(n);
  const auto brightness = static_cast<float>(rng.uniform(kLeastBrightness, kMostBrightness));
  Point corner{};
  for (double& c : corner) c = rng.uniform(0, static_cast<double>(n) - extent);
  const auto points = static_cast<std::size_t>(kPointsPerCell * extent * extent * extent);
  for (const Point& p : shapes_[kind].instance(number).points(key, points)) {
    std::size_t voxel = 0;
    for (std::size_t axis = 0; axis < 3; ++axis)
      voxel = voxel * n + std::min(static_cast<std::size_t>(corner[axis] + extent * p[axis]), n - 1);
    volume[voxel] = brightness;
    mask[voxel] = static_cast<std::uint16_t>(kind + 1);
  }
}

}  // namespace mrmf::volumes

namespace mrmf {
namespace {

// The text of meta.JSON.
std::string metadata(const VolumesSimulation& settings) {
  nlohmann::ordered_json meta;
  meta["program"] = std::string("mrmf ") + kVersion;
  meta["voxelsPerAxis"] = settings.size;
  meta["classes"] = settings.classes;
  meta["fractals"] = settings.fractals;
  meta["noiseDeviation"] = settings.noise;
  meta["brightness"] = {kLeastBrightness, kMostBrightness};
  meta["extent"] = {kLeastExtent, kMostExtent};
  meta["instancesPerClass"] = kInstances;
  meta["seed"] = settings.seed;
  for (const FileSplit& split : file_splits(settings.samples, settings.shares))
    meta["numSamples"][split.name] = split.rows.count;
  return meta.dump();
}

}  // namespace

void check(const VolumesSimulation& s) {
  const auto refuse = [](const std::string& what) { throw ConfigError("simulate volumes: " + what); };
  const auto require = [&](const char* what, int given, int least, int most) {
    if (given < least || given > most)
      refuse(fmt::format("{} {} asked for; {} to {} are possible", given, what, least, most));
  };
  if (s.file.empty()) refuse("no file to write is named; give --output FILE");
  require("voxels per axis", s.size, kLeastSize, kMostSize);
  require("classes", s.classes, 1, kMostClasses);
  require("fractals in a volume", s.fractals, 1, kMostFractals);
  if (!(s.noise >= 0) || s.noise > 100) refuse(fmt::format("a noise of {} asked for; 0 to 100 is possible", s.noise));
  if (s.threads < 0) refuse(fmt::format("{} threads asked for; 0 means as many as OpenMP has", s.threads));
  check_splits("simulate volumes", s.samples, s.shares);
}

VolumesReport simulate_volumes(const VolumesSimulation& settings, Comm& comm, const ProgressFunction& progress) {
  check(settings);
  const Timer timer;
  const Painter painter(settings);
  const int threads = settings.threads > 0 ? settings.threads : omp_get_max_threads();
  Hdf5Output file(settings.file, settings.replace, comm);
  const FileSplits splits = file_splits(settings.samples, settings.shares);
  const Index size = settings.size;
  create_datasets(file, splits, {{kVolumes, {size, size, size, 1}}, {kMasks, {size, size, size}, ElementType::uint16}});
  const auto voxels = static_cast<std::size_t>(size * size * size);
  std::vector<float> volumes;
  std::vector<std::uint16_t> masks;
  Index filled = 0, made = 0;
  const auto make_and_write = [&](const Range& block) {
    volumes.resize(static_cast<std::size_t>(block.count) * voxels);
    masks.resize(volumes.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (Index i = 0; i < block.count; ++i)
      painter.paint({block.first + i, settings.fractals, settings.noise},
                    std::span(volumes).subspan(static_cast<std::size_t>(i) * voxels, voxels),
                    std::span(masks).subspan(static_cast<std::size_t>(i) * voxels, voxels));
    filled += std::ssize(masks) - std::ranges::count(masks, std::uint16_t{0});
    made += std::ssize(masks);
    write_rows(file, splits, kVolumes, block, ConstSpan(volumes));
    write_rows(file, splits, kMasks, block, std::span<const std::uint16_t>(masks));
  };
  const Index most = std::max(kBlockValues / static_cast<Index>(voxels), Index{threads});
  for_each_block(comm, settings.samples, most, make_and_write, progress);
  file.write_text("meta.JSON", metadata(settings));
  file.commit();

  VolumesReport report{report_of(timer, settings.samples, comm)};
  report.filled = made > 0 ? static_cast<double>(filled) / static_cast<double>(made) : 0;
  return report;
}

}  // namespace mrmf
