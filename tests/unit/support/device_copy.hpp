// Copies of host memory on a device, with guard values around them.
#pragma once

#include <vector>

#include "kernels/backend.hpp"

namespace mrmf::test {

/// Device memory of some floats between two guards.
class DeviceMemory {
 public:
  DeviceMemory(Backend& device, Index floats);
  Span span() { return arena_.span().subspan(kGuard, floats_); }
  void poison();  ///< every bit set: NaN in any floating-point type
  /// FaultError when a guard was written over.
  void check_guards();

 protected:
  static constexpr std::size_t kGuard = 64;  // floats: keeps 256-byte alignment
  Backend& device_;
  std::size_t floats_;
  Arena arena_;
};

/// Floats as they are: parameters, gradients, state.
class DeviceFloats : public DeviceMemory {
 public:
  DeviceFloats(Backend& device, ConstSpan host);
  void to_host(Span host);
};

/// An activation in the device's own form.
class DeviceTensor : public DeviceMemory {
 public:
  DeviceTensor(Backend& device, const Shape& shape);
  DeviceTensor(Backend& device, ConstTensor host);
  Tensor tensor() { return {shape_, span()}; }
  /// FaultError when a pad channel is not zero.
  void to_host(Span host);

 private:
  void check_pads(bool has_nan);
  Shape shape_;
};

/// The winners of a max pooling: a byte per stored output element there, per logical one here.
class DeviceWinners : public DeviceMemory {
 public:
  DeviceWinners(Backend& device, const Shape& shape);
  std::span<std::uint8_t> bytes();  ///< empty for an empty shape
  void from_host(std::span<const std::uint8_t> host);
  void to_host(std::span<std::uint8_t> host);

 private:
  std::vector<std::uint8_t> stored_bytes();
  Shape shape_, stored_;
};

}  // namespace mrmf::test
