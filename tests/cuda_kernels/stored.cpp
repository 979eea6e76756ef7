#include "tests/cuda_kernels/stored.hpp"

#include <cmath>
#include <cstring>

namespace mrmf::test {

float rounded_to_bf16(float x) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  const float mantissa = std::frexp(x, &exponent);  // in [1/2, 1): 8 bits are units of 2^-8
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

std::vector<float> uniform(Rng& rng, Index count, double low, double high) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = static_cast<float>(rng.uniform(low, high));
  return values;
}

std::vector<float> exact(Rng& rng, Index count) {
  std::vector<float> values = uniform(rng, count);
  for (float& v : values) v = rounded_to_bf16(v);
  return values;
}

double distance(ConstSpan a, ConstSpan b) {
  double difference = a.size() == b.size() ? 0 : std::numeric_limits<double>::quiet_NaN(), norm = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

Stored::Stored(const cuda::Storage& storage, const Shape& shape)
    : storage_(storage),
      shape_(shape),
      memory_(static_cast<std::size_t>(storage.floats(shape)), std::numeric_limits<float>::quiet_NaN()) {
  std::memset(memory_.data(), 0xFF, memory_.size() * sizeof(float));
}

Stored::Stored(const cuda::Storage& storage, const Shape& shape, ConstSpan values) : Stored(storage, shape) {
  for_each_element(
      [&](Index at, Index logical) { set(at, logical < 0 ? 0 : values[static_cast<std::size_t>(logical)]); });
}

std::vector<float> Stored::values() const {
  std::vector<float> result(static_cast<std::size_t>(shape_.count()));
  for_each_element([&](Index at, Index logical) {
    if (logical >= 0) result[static_cast<std::size_t>(logical)] = element(at);
  });
  return result;
}

bool Stored::pads_are_zero() const {
  bool zero = true;
  for_each_element([&](Index at, Index logical) { zero &= logical >= 0 || element(at) == 0; });
  return zero;
}

float Stored::element(Index i) const {
  if (!storage_.bf16) return memory_[static_cast<std::size_t>(i)];
  std::uint32_t bits = 0;
  std::memcpy(reinterpret_cast<char*>(&bits) + 2, reinterpret_cast<const char*>(memory_.data()) + 2 * i, 2);
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void Stored::set(Index i, float value) {
  if (!storage_.bf16) {
    memory_[static_cast<std::size_t>(i)] = value;
    return;
  }
  const float rounded = rounded_to_bf16(value);
  std::memcpy(reinterpret_cast<char*>(memory_.data()) + 2 * i, reinterpret_cast<const char*>(&rounded) + 2, 2);
}

template <class Use>
void Stored::for_each_element(Use use) const {
  const Index channels = storage_.channels(shape_.channels);
  for (Index i = 0; i < elements(); ++i) {
    const Index position = i / channels, c = i % channels;
    use(i, c < shape_.channels ? position * shape_.channels + c : -1);
  }
}

}  // namespace mrmf::test
