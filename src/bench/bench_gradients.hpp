// `mrmf bench gradients`: are a device's gradients those of the CPU, layer by layer?
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "layers/network.hpp"
#include "src/bench/bench.hpp"

namespace mrmf {

/// How far the gradient of one parameter tensor is from the expected one.
struct GradientError {
  std::string name;     ///< "conv1 weight"
  Index values = 0;     ///< elements
  double distance = 0;  ///< root mean square of the difference over that of the expected values
  double along = 0;     ///< the part of the expected gradient that is there: <got, expected> / <expected, expected>
  bool counts = true;   ///< false: nothing but rounding is expected (a bias before a batch norm), so `along` is noise
};

/// One for each parameter tensor. Spans are laid out as Model::grads(). A tensor whose expected values are less than a
/// tenth of its layer's is measured by those.
std::vector<GradientError> gradient_errors(const Network& network, ConstSpan got, ConstSpan expected);

/// What a precision may be off by.
struct GradientTolerance {
  double distance, along;

  /// A tensor of few values, as a batch norm's, has fewer over which roundings average: half as much again, and twice.
  GradientTolerance of(Index values) const {
    return values < 256 ? GradientTolerance{1.5 * distance, 2 * along} : *this;
  }
};

/// Prints the worst of `steps` training steps, from the same parameters each, for every parameter tensor: the device
/// makes the first call by call, records the second and replays the third. FaultError that names the worst tensor when
/// one is off by more than the tolerance, or not finite.
struct GradientCheck {
  Backend& device;
  Backend& host;
  GradientTolerance tolerance;
};
void bench_gradients(const GradientCheck& check, const BenchSettings& settings, std::ostream& out);

}  // namespace mrmf
