#include "src/simulators/fields/fields.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include <fftw3.h>
#include <fmt/format.h>
#include <omp.h>
#include <nlohmann/json.hpp>

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
