// `mrmf simulate fields`: makes a data set of 2-D fields on a plane, from which three parameters are to be inferred.
//
// Two kinds, to try methods that begin with averaged data on what they were not made for. Coarse pixels keep what tells
// the parameters of one, and lose that of the other. A sample depends on kind, size, seed and its number alone, so the
// file's bytes do not depend on ranks or threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/files/output_file.hpp"
#include "src/simulators/split_files_and_random_fields.hpp"

namespace mrmf {

/// heat: three frames of a field that spreads and drifts; texture: fine stripes on a smooth background.
enum class FieldKind { heat, texture };
std::string to_string(FieldKind kind);

struct FieldsSimulation : PlaneSimulation {
  FieldKind kind = FieldKind::heat;
};

/// ConfigError when the settings are impossible.
void check(const FieldsSimulation& settings);

/// Collective. Writes `settings.file`, whole or not at all; errors as OutputFile's:
///   train_fields, val_..., test_...      (n, size, size, channels)  heat: u at times 0, 0.5 and 1; texture: 1 channel
///   train_parameters, val_..., test_...  (n, 3)                     labels in [-1, 1]
///   meta.JSON                            (1,)                       kind, labels, numbers behind samples, seed, ...
/// Sample i is row i of all splits, which follow one another.
SimulationReport simulate_fields(const FieldsSimulation& settings, Comm& comm, const ProgressFunction& progress = {});

}  // namespace mrmf

// Square periodic grids: Fourier transforms by FFTW in single precision, and random fields. Points (n, n) and modes
// (n, n/2 + 1) are stored x slowest, y fastest. Only fields.cpp sees fftw3.h.

namespace mrmf::fields {

constexpr std::size_t plane_points(int n) { return static_cast<std::size_t>(n) * static_cast<std::size_t>(n); }
constexpr std::size_t plane_modes(int n) { return static_cast<std::size_t>(n) * static_cast<std::size_t>(n / 2 + 1); }

/// Calls f(index, x, y) with the signed frequencies of every stored mode.
template <typename Function>
void for_each_mode(int n, Function&& f) {
  std::size_t index = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= n / 2; ++j) f(index++, frequency(i, n), j);
}

/// Only one thread at a time may make one; any number may use it.
class PlaneFft {
 public:
  explicit PlaneFft(int n);
  ~PlaneFft();
  PlaneFft(const PlaneFft&) = delete;
  PlaneFft& operator=(const PlaneFft&) = delete;

  /// field = sum over all modes of mode exp(ikx), without a factor. Destroys the modes.
  void to_field(ModeGrid& modes, RealGrid& field) const;

 private:
  struct Plan;
  int n_;
  std::unique_ptr<Plan> plan_;
};

/// Gaussian random fields with mean 0, expected variance 1 and power proportional to frequency^-slope.
class PowerLaw {
 public:
  /// `n` is even.
  PowerLaw(int n, double slope);
  /// The modes of the field that belongs to `key`. Those at the grid's highest frequency have no sign and are 0.
  void draw(std::uint64_t key, ModeGrid& modes) const;

 private:
  int n_;
  std::vector<double> amplitude_;  // per mode
};

// What a sample is: a square image with a few channels, and the parameters behind it. One class a kind; all else is the
// same for every kind.

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

// Heat that spreads and drifts: u_t = D laplace(u) - v . grad(u) on the periodic unit square, from a random field.
//
// Averaging pixels keeps what tells D and v: most of the field's power is in waves of many pixels, and these move and
// fade as all others do.

struct HeatFlow {
  double diffusivity;             ///< squares per unit of time
  double velocity_x, velocity_y;  ///< sides per unit of time, along the image's first and second axis
};

/// The modes `time` later: each fades and turns by itself, so this is exact. `later` may be `modes`.
void evolve(int n, const HeatFlow& flow, double time, const ModeGrid& modes, ModeGrid& later);

/// Channels: u at the three times, with measurement noise. Labels: log10 D, v_x, v_y.
class Heat final : public FieldProblem {
 public:
  explicit Heat(int size);
  int channels() const override;
  std::array<Parameter, kLabels> parameters() const override;
  nlohmann::ordered_json describe() const override;
  Labels make(std::uint64_t key, PlaneMemory& memory, std::span<float> image) const override;
  /// The sample of a given flow; `key` draws its first field and its noise.
  void make(const HeatFlow& flow, std::uint64_t key, PlaneMemory& memory, std::span<float> image) const;

 private:
  int size_;
  PlaneFft fft_;
  PowerLaw initial_;
};

// Fine stripes on a smooth random background, with noise.
//
// Averaging pixels must lose what tells the parameters, stripes of 2.2 to 3.4 pixels. Averages of 2 x 2 pixels keep 14
// to 63 % of their contrast, 45 % on average, which is a fifth of their power; averages of 4 x 4 pixels 12 % on
// average. And stripes shorter than two of the new pixels appear with another wavelength and orientation there. So a
// network on averages has little to learn from, and what it learns is not of use on the pixels.

struct Stripes {
  double wavelength;   ///< pixels
  double orientation;  ///< orientation of the wave vector, from the image's first axis to its second; radians, 0 to pi
  double phase;        ///< radians
  double contrast;     ///< amplitude
};

/// Adds a plane wave to a field of n x n pixels.
void add_stripes(int n, const Stripes& stripes, RealGrid& field);

/// The share of stripes' contrast that averages of 2 x 2 pixels keep.
double stripes_kept(const Stripes& stripes);

/// One channel. Labels: wavelength, cos and sin of twice the orientation, which has no direction.
class Texture final : public FieldProblem {
 public:
  explicit Texture(int size);
  int channels() const override { return 1; }
  std::array<Parameter, kLabels> parameters() const override;
  nlohmann::ordered_json describe() const override;
  Labels make(std::uint64_t key, PlaneMemory& memory, std::span<float> image) const override;
  /// The sample of given stripes; `key` draws its background and its noise.
  void make(const Stripes& stripes, std::uint64_t key, PlaneMemory& memory, std::span<float> image) const;

 private:
  int size_;
  PlaneFft fft_;
  PowerLaw background_;
};

}  // namespace mrmf::fields
