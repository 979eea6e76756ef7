// Fine stripes on a smooth background; declared in fields.hpp.
#include "src/simulators/fields/fields.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "kernels/random.hpp"

namespace mrmf::fields {
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
