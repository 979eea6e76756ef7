// Fields of spreading and drifting heat; declared in fields.hpp.
#include "src/simulators/fields/fields.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "kernels/random.hpp"

namespace mrmf::fields {
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

}  // namespace mrmf::fields
