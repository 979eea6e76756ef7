#include "tests/unit/support/device_copy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

constexpr Index kFloat = sizeof(float);

}  // namespace

DeviceMemory::DeviceMemory(Backend& device, Index floats)
    : device_(device),
      floats_(static_cast<std::size_t>(floats)),
      arena_(device.allocate(floats + 2 * static_cast<Index>(kGuard))) {
  device.fill(arena_.span(), kGuardValue);
  poison();
}

void DeviceMemory::poison() {
  const std::vector<float> values(floats_, std::bit_cast<float>(0xFFFFFFFFU));
  device_.write(values, span());
}

void DeviceMemory::check_guards() {
  const std::vector<float> values = on_host(device_, arena_.span());
  const auto guard = [](float value) { return value == kGuardValue; };
  MRMF_CHECK(std::all_of(values.begin(), values.begin() + kGuard, guard) &&
                 std::all_of(values.end() - kGuard, values.end(), guard),
             "a call wrote outside of its buffer");
}

DeviceFloats::DeviceFloats(Backend& device, ConstSpan host) : DeviceMemory(device, std::ssize(host)) {
  device.write(host, span());
}

void DeviceFloats::to_host(Span host) {
  check_guards();
  device_.read(span(), host);
}

DeviceTensor::DeviceTensor(Backend& device, const Shape& shape)
    : DeviceMemory(device, device.activation_floats(shape)), shape_(shape) {}

DeviceTensor::DeviceTensor(Backend& device, ConstTensor host) : DeviceTensor(device, host.shape) {
  device.write_activation(host.data, tensor());
}

void DeviceTensor::to_host(Span host) {
  check_guards();
  device_.read_activation(tensor(), host);
  check_pads(std::ranges::any_of(host, [](float value) { return std::isnan(value); }));
}

// A NaN times the zero weight of a pad channel is NaN: pads are zero wherever there is none.
void DeviceTensor::check_pads(bool has_nan) {
  const std::vector<float> raw = on_host(device_, span());
  const Shape stored = device_.stored(shape_);
  const Index element = std::ssize(raw) * kFloat / std::max<Index>(1, stored.count());
  const auto* bytes = reinterpret_cast<const unsigned char*>(raw.data());
  for (Index i = 0; i < stored.count(); ++i) {
    if (i % stored.channels < shape_.channels) continue;
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes + i * element, static_cast<std::size_t>(element));
    const std::uint32_t sign = element == kFloat ? 0x80000000U : 0x8000U;
    const bool nan = (bits & ~sign) > (element == kFloat ? 0x7F800000U : 0x7F80U);
    MRMF_CHECK((bits & ~sign) == 0 || (nan && has_nan),
               "pad channel " + std::to_string(i % stored.channels) + " is not zero");
  }
}

DeviceWinners::DeviceWinners(Backend& device, const Shape& shape)
    : DeviceMemory(device, (device.stored(shape).count() + kFloat - 1) / kFloat),
      shape_(shape),
      stored_(device.stored(shape)) {}

std::span<std::uint8_t> DeviceWinners::bytes() {
  return {reinterpret_cast<std::uint8_t*>(span().data()), static_cast<std::size_t>(stored_.count())};
}

std::vector<std::uint8_t> DeviceWinners::stored_bytes() {
  const std::vector<float> raw = on_host(device_, span());
  const auto* first = reinterpret_cast<const std::uint8_t*>(raw.data());
  return {first, first + stored_.count()};
}

void DeviceWinners::from_host(std::span<const std::uint8_t> host) {
  std::vector<float> raw(floats_);
  auto* bytes = reinterpret_cast<std::uint8_t*>(raw.data());
  for (Index i = 0; i < shape_.count(); ++i)
    bytes[i / shape_.channels * stored_.channels + i % shape_.channels] = host[static_cast<std::size_t>(i)];
  device_.write(raw, span());
}

void DeviceWinners::to_host(std::span<std::uint8_t> host) {
  check_guards();
  const std::vector<std::uint8_t> stored = stored_bytes();
  for (Index i = 0; i < shape_.count(); ++i)
    host[static_cast<std::size_t>(i)] =
        stored[static_cast<std::size_t>(i / shape_.channels * stored_.channels + i % shape_.channels)];
}

}  // namespace mrmf::test
