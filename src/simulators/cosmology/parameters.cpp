#include "src/simulators/cosmology/linear_theory.hpp"

#include "kernels/random.hpp"

namespace mrmf::cosmology {
namespace {

constexpr std::uint64_t kLabelStream = 0x6C6162656C;  // apart from the stream of the sample's field

}  // namespace

std::array<float, kLabels> draw_labels(std::uint64_t seed, std::int64_t sample) {
  Rng rng(mix(seed, static_cast<std::uint64_t>(sample), kLabelStream));
  std::array<float, kLabels> u{};
  for (float& x : u) x = static_cast<float>(rng.next() >> 8) * 0x1.0p-23F - 1.0F;
  return u;
}

Cosmology cosmology_of(const std::array<float, kLabels>& labels) {
  const Cosmology middle;
  const auto about = [&](double value, std::size_t i) { return value * (1 + 0.1 * static_cast<double>(labels[i])); };
  return {about(middle.omega_m, 0), about(middle.sigma_8, 1), about(middle.n_s, 2), about(middle.hubble, 3),
          middle.omega_b};
}

}  // namespace mrmf::cosmology
