// Simulated planes, and the two problems that they are made for: fields of spreading and drifting heat, and fine
// stripes on a smooth background.
#include "src/simulators/fields/fields.hpp"

#include <fftw3.h>
#include <fmt/format.h>
#include <omp.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "generated/version.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "kernels/timer.hpp"

namespace mrmf {
namespace {

using namespace fields;

constexpr const char *kImages = "fields", *kParameters = "parameters";
constexpr int kLeastSize = 16;
constexpr Index kBlockValues = Index{1} << 24;  // made, then written: 64 MiB, or more where that is too few for threads

/// Makes samples with all threads of a rank.
class Workers {
 public:
  explicit Workers(const FieldsSimulation& settings)
      : seed_(settings.seed),
        problem_(make_problem(settings.kind, settings.size)),
        image_(plane_points(settings.size) * static_cast<std::size_t>(problem_->channels())) {
    const int threads = settings.threads > 0 ? settings.threads : omp_get_max_threads();
    memories_.assign(static_cast<std::size_t>(threads), PlaneMemory(settings.size));
  }

  const FieldProblem& problem() const { return *problem_; }
  Index most() const {
    return std::max(kBlockValues / static_cast<Index>(image_), static_cast<Index>(memories_.size()));
  }

  /// Images and labels of consecutive samples.
  void make(const Range& samples, std::vector<float>& images, std::vector<float>& labels) {
    const auto count = static_cast<std::size_t>(samples.count);
    images.resize(count * image_);
    labels.resize(count * kLabels);
#pragma omp parallel for schedule(dynamic) num_threads(static_cast <int>(memories_.size()))
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t key = sample_key(seed_, samples.first + static_cast<Index>(i));
      PlaneMemory& memory = memories_[static_cast<std::size_t>(omp_get_thread_num())];
      const Labels made = problem_->make(key, memory, std::span(images).subspan(i * image_, image_));
      std::ranges::copy(made, labels.begin() + static_cast<std::ptrdiff_t>(i * kLabels));
    }
  }

 private:
  std::uint64_t seed_;
  std::unique_ptr<FieldProblem> problem_;
  std::size_t image_;  // values of one
  std::vector<PlaneMemory> memories_;
};

// The text of meta.JSON.
std::string metadata(const FieldsSimulation& settings, const FieldProblem& problem) {
  nlohmann::ordered_json meta;
  meta["program"] = std::string("mrmf ") + kVersion;
  meta["kind"] = to_string(settings.kind);
  meta["pixelsPerAxis"] = settings.size;
  meta["seed"] = settings.seed;
  for (const FileSplit& split : file_splits(settings.samples, settings.shares))
    meta["numSamples"][split.name] = split.rows.count;
  for (const Parameter& p : problem.parameters()) {
    meta["parName"].push_back(p.name);
    meta["parameters"].push_back({{"name", p.name}, {"centre", p.centre}, {"halfWidth", p.half_width}});
  }
  meta["madeBy"] = problem.describe();
  return meta.dump();
}

}  // namespace

std::string to_string(FieldKind kind) { return kind == FieldKind::heat ? "heat" : "texture"; }

void check(const FieldsSimulation& settings) { check_planes("simulate fields", settings, kLeastSize); }

SimulationReport simulate_fields(const FieldsSimulation& settings, Comm& comm, const ProgressFunction& progress) {
  check(settings);
  const Timer timer;
  Workers workers(settings);
  Hdf5Output file(settings.file, settings.replace, comm);
  const FileSplits splits = file_splits(settings.samples, settings.shares);
  const Index size = settings.size, channels = workers.problem().channels();
  create_datasets(file, splits, {{kImages, {size, size, channels}}, {kParameters, {static_cast<Index>(kLabels)}}});
  std::vector<float> images, labels;
  const auto make_and_write = [&](const Range& block) {
    workers.make(block, images, labels);
    write_rows(file, splits, kImages, block, images);
    write_rows(file, splits, kParameters, block, labels);
  };
  for_each_block(comm, settings.samples, workers.most(), make_and_write, progress);
  file.write_text("meta.JSON", metadata(settings, workers.problem()));
  file.commit();
  return report_of(timer, settings.samples, comm);
}

}  // namespace mrmf

namespace mrmf::fields {
namespace {

fftwf_complex* raw(ModeGrid& modes) { return reinterpret_cast<fftwf_complex*>(modes.data()); }

}  // namespace

struct PlaneFft::Plan {
  fftwf_plan backward;
  explicit Plan(fftwf_plan plan) : backward(plan) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { fftwf_destroy_plan(backward); }
};

PlaneFft::PlaneFft(int n) : n_(n) {
  ModeGrid modes(plane_modes(n));
  RealGrid field(plane_points(n));
  // Estimated plans are the same in every run. Measured ones are not, and would change the last bits of results.
  const fftwf_plan plan = fftwf_plan_dft_c2r_2d(n, n, raw(modes), field.data(), FFTW_ESTIMATE);
  MRMF_CHECK(plan != nullptr, "FFTW has no plan for this size");
  plan_ = std::make_unique<Plan>(plan);
}

PlaneFft::~PlaneFft() = default;

void PlaneFft::to_field(ModeGrid& modes, RealGrid& field) const {
  MRMF_CHECK(modes.size() == plane_modes(n_) && field.size() == plane_points(n_), "grids of another size");
  fftwf_execute_dft_c2r(plan_->backward, raw(modes), field.data());
}

PowerLaw::PowerLaw(int n, double slope) : n_(n), amplitude_(plane_modes(n)) {
  double variance = 0;
  for_each_mode(n, [&](std::size_t index, int x, int y) {
    if ((x == 0 && y == 0) || x == n / 2 || y == n / 2) return;
    const double power = std::pow(x * x + y * y, -slope / 2);
    amplitude_[index] = std::sqrt(power);
    variance += y == 0 ? power : 2 * power;  // modes with a negative y are not stored
  });
  for (double& amplitude : amplitude_) amplitude /= std::sqrt(variance);
}

void PowerLaw::draw(std::uint64_t key, ModeGrid& modes) const {
  for_each_mode(n_, [&](std::size_t index, int x, int y) {
    const double scale = amplitude_[index];
    modes[index] = scale > 0 ? std::complex<float>(scale * random_mode(key, x, 0, y)) : 0;
  });
}

std::unique_ptr<FieldProblem> make_problem(FieldKind kind, int size) {
  if (kind == FieldKind::heat) return std::make_unique<Heat>(size);
  return std::make_unique<Texture>(size);
}

std::uint64_t sample_key(std::uint64_t seed, Index sample) { return mix(seed, static_cast<std::uint64_t>(sample)); }

std::uint64_t field_key(std::uint64_t sample) { return mix(sample, 0x6669656C64); }

std::uint64_t noise_key(std::uint64_t sample) { return mix(sample, 0x6E6F697365); }

void add_noise(std::uint64_t key, double deviation, std::span<float> image) {
  Rng rng(key);
  for (float& value : image) value += static_cast<float>(deviation * rng.normal());
}

}  // namespace mrmf::fields

namespace mrmf::fields {

// Fields of spreading and drifting heat; declared in fields.hpp.

namespace {

constexpr std::array kTimes{0.0, 0.5, 1.0};
constexpr double kSlope = 3;  // 93 % of the variance is in waves of an eighth of the side and longer
constexpr double kNoise = 0.05;

// Until the last time a wave of frequency k fades by exp(-4 pi^2 k^2 D): at the least D to 1/e at k = 16, at the
// largest at k = 3. So there is always a band that fades by half or so, and with any D some waves are seen in all
// frames. Fields drift by up to a tenth of the side, more than a pixel even of 16 x 16.
constexpr std::array<Parameter, kLabels> kParameters{
    {{"log10_diffusivity", -3.25, 0.75}, {"velocity_x", 0, 0.1}, {"velocity_y", 0, 0.1}}};

}  // namespace

void evolve(int n, const HeatFlow& flow, double time, const ModeGrid& modes, ModeGrid& later) {
  constexpr double tau = 2 * std::numbers::pi;
  for_each_mode(n, [&](std::size_t index, int x, int y) {
    const double fading = tau * tau * (x * x + y * y) * flow.diffusivity * time;
    const double turning = tau * (x * flow.velocity_x + y * flow.velocity_y) * time;
    later[index] = std::complex<float>(std::complex<double>(modes[index]) * std::polar(std::exp(-fading), -turning));
  });
}

Heat::Heat(int size) : size_(size), fft_(size), initial_(size, kSlope) {}

int Heat::channels() const { return static_cast<int>(kTimes.size()); }

std::array<Parameter, kLabels> Heat::parameters() const { return kParameters; }

nlohmann::ordered_json Heat::describe() const {
  return {{"times", kTimes}, {"powerLawSlope", kSlope}, {"initialDeviation", 1}, {"noiseDeviation", kNoise}};
}

Labels Heat::make(std::uint64_t key, PlaneMemory& memory, std::span<float> image) const {
  Rng rng(key);
  Labels labels;
  for (float& label : labels) label = static_cast<float>(rng.uniform(-1, 1));
  make(HeatFlow{std::pow(10, kParameters[0].value(labels[0])), kParameters[1].value(labels[1]),
                kParameters[2].value(labels[2])},
       key, memory, image);
  return labels;
}

void Heat::make(const HeatFlow& flow, std::uint64_t key, PlaneMemory& memory, std::span<float> image) const {
  initial_.draw(field_key(key), memory.start);
  for (std::size_t channel = 0; channel < kTimes.size(); ++channel) {
    evolve(size_, flow, kTimes[channel], memory.start, memory.modes);
    fft_.to_field(memory.modes, memory.field);
    for (std::size_t p = 0; p < memory.field.size(); ++p) image[p * kTimes.size() + channel] = memory.field[p];
  }
  add_noise(noise_key(key), kNoise, image);
}

// Fine stripes on a smooth background; declared in fields.hpp.

namespace {

constexpr double kBackgroundSlope = 4;  // smooth: hardly any power in waves of a few pixels
constexpr double kLeastContrast = 0.2, kMostContrast = 0.4;
// A pixel's noise hides the stripes, and all pixels together show them. It also hides what averages keep of them.
constexpr double kPixelNoise = 0.5;

constexpr std::array<Parameter, kLabels> kTextureParameters{
    {{"wavelength_pixels", 2.8, 0.6}, {"cos_2_orientation", 0, 1}, {"sin_2_orientation", 0, 1}}};

}  // namespace

void add_stripes(int n, const Stripes& stripes, RealGrid& field) {
  const double k = 2 * std::numbers::pi / stripes.wavelength;
  const double kx = k * std::cos(stripes.orientation), ky = k * std::sin(stripes.orientation);
  std::size_t p = 0;
  for (int x = 0; x < n; ++x)
    for (int y = 0; y < n; ++y)
      field[p++] += static_cast<float>(stripes.contrast * std::cos(kx * x + ky * y + stripes.phase));
}

double stripes_kept(const Stripes& stripes) {
  const double half = std::numbers::pi / stripes.wavelength;  // half of the phase between two pixels
  return std::abs(std::cos(half * std::cos(stripes.orientation)) * std::cos(half * std::sin(stripes.orientation)));
}

Texture::Texture(int size) : size_(size), fft_(size), background_(size, kBackgroundSlope) {}

std::array<Parameter, kLabels> Texture::parameters() const { return kTextureParameters; }

nlohmann::ordered_json Texture::describe() const {
  return {{"powerLawSlope", kBackgroundSlope},
          {"backgroundDeviation", 1},
          {"contrast", {kLeastContrast, kMostContrast}},
          {"noiseDeviation", kPixelNoise}};
}

Labels Texture::make(std::uint64_t key, PlaneMemory& memory, std::span<float> image) const {
  Rng rng(key);
  Labels labels{};
  labels[0] = static_cast<float>(rng.uniform(-1, 1));
  const double orientation = rng.uniform(0, std::numbers::pi), phase = rng.uniform(0, 2 * std::numbers::pi);
  labels[1] = static_cast<float>(std::cos(2 * orientation));
  labels[2] = static_cast<float>(std::sin(2 * orientation));
  // Contrasts differ, or what an average keeps of them would tell the wavelength.
  const double contrast = rng.uniform(kLeastContrast, kMostContrast);
  make(Stripes{kTextureParameters[0].value(labels[0]), orientation, phase, contrast}, key, memory, image);
  return labels;
}

void Texture::make(const Stripes& stripes, std::uint64_t key, PlaneMemory& memory, std::span<float> image) const {
  background_.draw(field_key(key), memory.modes);
  fft_.to_field(memory.modes, memory.field);
  add_stripes(size_, stripes, memory.field);
  std::ranges::copy(memory.field, image.begin());
  add_noise(noise_key(key), kPixelNoise, image);
}

}  // namespace mrmf::fields
