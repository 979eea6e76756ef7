// What a sample is: a square image with a few channels, and the parameters behind it. One class a kind (heat.hpp,
// texture.hpp); all else is the same for every kind.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "src/simulators/fields/plane.hpp"
#include "src/simulators/fields/simulate.hpp"

namespace mrmf::fields {

inline constexpr std::size_t kLabels = 3;
using Labels = std::array<float, kLabels>;  ///< in [-1, 1]

/// What a label stands for: the value centre + half_width * label.
struct Parameter {
  const char* name;
  double centre, half_width;

  double value(float label) const { return centre + half_width * static_cast<double>(label); }
};

/// Working memory of one thread.
struct PlaneMemory {
  explicit PlaneMemory(int n) : start(plane_modes(n)), modes(plane_modes(n)), field(plane_points(n)) {}
  ModeGrid start, modes;
  RealGrid field;
};

/// One kind of samples at one size. Immutable, so threads share it, each with memory of its own.
class FieldProblem {
 public:
  virtual ~FieldProblem() = default;
  virtual int channels() const = 0;
  virtual std::array<Parameter, kLabels> parameters() const = 0;
  /// How samples are made, in numbers, for the file's metadata.
  virtual nlohmann::ordered_json describe() const = 0;
  /// Writes the sample of this key to `image`, (size, size, channels), and returns its labels.
  virtual Labels make(std::uint64_t key, PlaneMemory& memory, std::span<float> image) const = 0;
};

std::unique_ptr<FieldProblem> make_problem(FieldKind kind, int size);

/// The key of a sample: all that it depends on beside kind and size.
std::uint64_t sample_key(std::uint64_t seed, Index sample);

// Streams of a sample apart from that of its parameters, which has the sample's own key.
std::uint64_t field_key(std::uint64_t sample);
std::uint64_t noise_key(std::uint64_t sample);

/// Adds independent Gaussian numbers of this deviation.
void add_noise(std::uint64_t key, double deviation, std::span<float> image);

}  // namespace mrmf::fields
