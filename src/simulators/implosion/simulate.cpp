#include "src/simulators/implosion/simulate.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "generated/version.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "kernels/timer.hpp"

namespace mrmf::implosion {
namespace {

constexpr double kPi = std::numbers::pi;

// The design around which all is a power law.
constexpr double kVelocity = 370, kAdiabat = 2.5, kRadius = 35, kTemperature = 4.5, kPressure = 180;

double legendre2(double c) { return 0.5 * (3 * c * c - 1); }
double legendre4(double c) { return 0.125 * (35 * c * c * c * c - 30 * c * c + 3); }

// The mean square of the boundary's modes: sum of a_l^2 / (2 l + 1).
double asymmetry(const HotSpot& spot) { return spot.p2 * spot.p2 / 5 + spot.p4 * spot.p4 / 9; }

// D-T reactivity in cm^3/s for temperatures below 25 keV (NRL Plasma Formulary).
double reactivity(double kev) {
  return 3.68e-12 * std::pow(kev, -2.0 / 3) * std::exp(-19.94 * std::pow(kev, -1.0 / 3));
}

// The temperature's profile, falling to a tenth of the centre's at the boundary.
double profile(double r) { return 0.1 + 0.9 * std::pow(1 - r * r, 2.0 / 7); }

/// Means over the spot's volume, by its profile.
struct Means {
  double volume = 0;       // cm^3
  double mass = 0;         // micrograms
  double density = 0;      // g/cm^3
  double rate = 0;         // reactions per second
  double temperature = 0;  // weighed by reactions
};

// Density of a plasma of D and T at a pressure and a temperature: p = 2 n T with two particles a mass of 2.5 u.
double density(double gbar, double kev) { return gbar * 1e15 / (2 * kev * 1.602e-9) * 2.5 * 1.6605e-24; }

Means means_of(const HotSpot& spot) {
  Means means;
  const double radius = spot.radius * 1e-4;
  means.volume = 4.0 / 3 * kPi * radius * radius * radius * (1 + 3 * asymmetry(spot));
  constexpr int shells = 64;
  double mass = 0, rate = 0, hot = 0;
  for (int i = 0; i < shells; ++i) {
    const double r = (i + 0.5) / shells, share = 3 * r * r / shells;
    const double kev = spot.temperature * profile(r), rho = density(spot.pressure, kev);
    const double ions = rho / (2.5 * 1.6605e-24) * (1 - spot.mix);
    const double reactions = 0.25 * ions * ions * reactivity(kev);
    mass += share * rho, rate += share * reactions, hot += share * reactions * kev;
  }
  means.density = mass;
  means.mass = mass * means.volume * 1e6;
  means.rate = rate * means.volume;
  means.temperature = hot / rate;
  return means;
}

}  // namespace

const std::array<Quantity, kInputs>& inputs() {
  static constexpr std::array<Quantity, kInputs> all{{{"velocity", "km/s", kVelocity, 60},
                                                      {"adiabat", "", kAdiabat, 1},
                                                      {"drive_p2", "", 0, 0.12},
                                                      {"drive_p4", "", 0, 0.08},
                                                      {"mix", "", 0.1, 0.1}}};
  return all;
}

const std::array<Quantity, kScalars>& scalars() {
  static constexpr std::array<Quantity, kScalars> all{{{"log10_yield", "neutrons"},
                                                       {"ion_temperature", "keV"},
                                                       {"central_temperature", "keV"},
                                                       {"pressure", "Gbar"},
                                                       {"density", "g/cm^3"},
                                                       {"areal_density", "g/cm^2"},
                                                       {"shell_areal_density", "g/cm^2"},
                                                       {"radius", "um"},
                                                       {"p2", ""},
                                                       {"p4", ""},
                                                       {"bang_time", "ns"},
                                                       {"burn_width", "ps"},
                                                       {"mass", "ug"},
                                                       {"energy", "kJ"},
                                                       {"log10_x_rays", ""}}};
  return all;
}

const std::array<double, kBands>& band_energies() {
  static constexpr std::array<double, kBands> all{3, 6, 10, 16};
  return all;
}

double HotSpot::boundary(double c) const { return 1 + p2 * legendre2(c) + p4 * legendre4(c); }

HotSpot hot_spot(const Inputs& input) {
  std::array<double, kInputs> value{};
  for (std::size_t i = 0; i < kInputs; ++i) value[i] = inputs()[i].centre + inputs()[i].half_width * double{input[i]};
  HotSpot spot{.velocity = value[0], .adiabat = value[1], .mix = value[4]};
  const double v = spot.velocity / kVelocity, a = spot.adiabat / kAdiabat;
  // An uneven drive grows while the shell converges, the more the farther it does.
  const double growth = std::pow(v, 0.8) * std::pow(a, -0.3);
  spot.p2 = 1.8 * growth * value[2];
  spot.p4 = 1.5 * growth * growth * value[3];
  // What moves along the boundary at the end is not heat; and what was mixed in radiates heat away.
  const double kept = (1 - 4 * asymmetry(spot)) * (1 - 0.8 * spot.mix);
  spot.radius = kRadius * std::pow(v, -0.5) * std::pow(a, 0.35) * std::pow(kept, -0.15);
  spot.temperature = kTemperature * std::pow(v, 1.3) * std::pow(a, -0.1) * std::pow(kept, 0.5);
  spot.pressure = kPressure * std::pow(v, 3.5) * std::pow(a, -0.9) * kept;
  return spot;
}

Scalars scalars_of(const HotSpot& spot) {
  const Means means = means_of(spot);
  const double v = spot.velocity / kVelocity, a = spot.adiabat / kAdiabat;
  const double sound = 3e7 * std::sqrt(spot.temperature / kTemperature);              // cm/s
  const double width = 1.4 * spot.radius * 1e-4 / sound * (1 + 2 * asymmetry(spot));  // s
  const double yield = means.rate * width;
  const double shell = 0.9 * std::pow(v, 0.6) * std::pow(a, -0.5) * (1 - 2 * asymmetry(spot));
  const double energy = 1.5 * spot.pressure * 1e15 * means.volume * 1e-10;  // erg to kJ
  double x_rays = 0;
  constexpr int shells = 64;
  for (int i = 0; i < shells; ++i) {
    const double r = (i + 0.5) / shells;
    for (const double band : emission(spot, r)) x_rays += 3 * r * r / shells * band;
  }
  const auto f = [](double value) { return static_cast<float>(value); };
  return {f(std::log10(yield)),
          f(means.temperature),
          f(spot.temperature),
          f(spot.pressure),
          f(means.density),
          f(means.density * spot.radius * 1e-4),
          f(shell),
          f(spot.radius),
          f(spot.p2),
          f(spot.p4),
          f(8.2 / v + 0.15 * (a - 1)),
          f(width * 1e12),
          f(means.mass),
          f(energy),
          f(std::log10(x_rays * means.volume * 1e12))};
}

// Free-free emission, rho^2 T^-1/2 exp(-E/T), of which mixed-in matter makes more.
std::array<double, kBands> emission(const HotSpot& spot, double r) {
  std::array<double, kBands> bands{};
  if (r >= 1) return bands;
  const double kev = spot.temperature * profile(r), rho = spot.pressure / kPressure * kTemperature / kev;
  const double all = rho * rho / std::sqrt(kev) * (1 + 12 * spot.mix);
  for (std::size_t b = 0; b < kBands; ++b) bands[b] = all * std::exp((band_energies()[0] - band_energies()[b]) / kev);
  return bands;
}

void draw(const HotSpot& spot, int size, std::span<float> image) {
  MRMF_CHECK(size % 2 == 0 && image.size() == static_cast<std::size_t>(size * size) * kBands,
             "an image of another size");
  constexpr int depths = 24;  // along half a line of sight
  const double pixel = kSide / size, far = 2 * spot.radius, step = far / depths;
  const int half = size / 2;
  for (int i = 0; i < half; ++i)
    for (int j = 0; j < half; ++j) {
      const double z = (i + 0.5) * pixel, x = (j + 0.5) * pixel;
      std::array<double, kBands> seen{};
      for (int k = 0; k < depths; ++k) {
        const double y = (k + 0.5) * step, distance = std::sqrt(x * x + y * y + z * z);
        const double r = distance / (spot.radius * spot.boundary(z / distance));
        if (r >= 1) continue;
        const std::array<double, kBands> here = emission(spot, r);
        for (std::size_t b = 0; b < kBands; ++b) seen[b] += 2 * step / kSide * here[b];
      }
      for (const int row : {half + i, half - 1 - i})
        for (const int column : {half + j, half - 1 - j})
          for (std::size_t b = 0; b < kBands; ++b)
            image[static_cast<std::size_t>(row * size + column) * kBands + b] = static_cast<float>(seen[b]);
    }
}

}  // namespace mrmf::implosion

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
