#include "src/simulators/fields/fields.hpp"

#include "kernels/random.hpp"
#include "src/simulators/fields/heat.hpp"
#include "src/simulators/fields/texture.hpp"

namespace mrmf::fields {

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
