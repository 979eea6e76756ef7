// `mrmf bench layers` on a device: each unit's time beside what the device's memory and arithmetic allow.
#pragma once

#include <optional>

#include "src/bench/bench.hpp"

namespace mrmf {

/// What a device can do at best.
struct DevicePeak {
  double bytes_per_second = 0, flops = 0;
};
/// Of the named device in a precision; nothing for devices that have not been measured.
std::optional<DevicePeak> device_peak(const std::string& description, const std::string& precision);

/// Bytes that a unit must move and operations it must do in a training step, forward and backward, with the fusions
/// that cuDNN offers: convolution + bias + activation in one kernel, pooling apart, backward of pooling and activation
/// in one. Batch norm reads its input twice in each direction.
struct UnitWork {
  double bytes = 0, flop = 0;
};
UnitWork unit_work(const Network& network, const Unit& unit, double element_bytes);

/// Prints a line per unit. With --json: {"layers": [{name, forward_us, backward_us, roofline_us}], "step_us",
/// "step_roofline_us"}.
void bench_device_layers(Backend& backend, const BenchSettings& settings, const std::string& precision,
                         std::ostream& out);

}  // namespace mrmf
