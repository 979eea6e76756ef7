#include "src/simulators/member_simulator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>

#include "io/files/text.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "src/simulators/cosmology/universe_by_particle_mesh.hpp"
#include "src/simulators/fields/fields.hpp"
#include "src/simulators/implosion/simulate.hpp"
#include "src/simulators/neuron/simulate.hpp"
#include "src/simulators/volumes/simulate.hpp"

namespace mrmf {
namespace {

constexpr double kMostNumber = 9007199254740992;  // 2^53: the largest of consecutive whole doubles
constexpr std::uint64_t kMemberStream = 0x6D656D626572;

SimulatorKey whole(const std::string& name, double least, double most, double standard, const std::string& meaning) {
  return {name, least, most, standard, meaning, true};
}

SimulatorKey fixed(const std::string& name, double least, double most, double standard, const std::string& meaning) {
  return {name, least, most, standard, meaning, true, true};
}

SimulatorKey number_key(const std::string& what) {
  return whole("number", 0, kMostNumber, kOwnNumber, what + "; the member's own number unless given");
}

SimulatorKey seed_key() { return fixed("seed", 0, kMostNumber, 1, "seed of what the number draws"); }

std::uint64_t key_of(double seed, double number, Index member) {
  const auto drawn = std::isnan(number) ? static_cast<std::uint64_t>(member) : static_cast<std::uint64_t>(number);
  return mix(static_cast<std::uint64_t>(seed), drawn, kMemberStream);
}

template <class T>
std::span<T> row_as(std::span<std::byte> row) {
  return {reinterpret_cast<T*>(row.data()), row.size() / sizeof(T)};
}

int even_pixels(double size) {
  const int pixels = static_cast<int>(size);
  if (pixels % 2 != 0) throw ConfigError(fmt::format("simulate.size = {} is odd; give an even number", pixels));
  return pixels;
}

// Neurons: the keys are the cell and the exponents of its conductances.
std::vector<SimulatorKey> neuron_keys() {
  std::vector<SimulatorKey> keys{
      fixed("milliseconds", 30, neuron::kDuration, neuron::kDuration, "how long the cell is simulated, ms"),
      whole("cell", 0, 1e6, 0, "which cell; the electrical types take turns")};
  for (const neuron::Parameter& p : neuron::parameters())
    keys.push_back(
        {p.name, -1, 1, 0, "decimal logarithm of the factor by which this conductance differs from the cell's"});
  return keys;
}

class NeuronMembers final : public MemberSimulator {
 public:
  explicit NeuronMembers(std::span<const double> values)
      : bins_(static_cast<int>(values[0]) * neuron::kBins / static_cast<int>(neuron::kDuration)),
        tables_(std::make_shared<neuron::GateTables>(neuron::kTimeStep)),
        current_(neuron::midpoint_current(neuron::stimulus(), neuron::kTimeStep, bins_ * neuron::kStepsPerBin)) {}

  std::vector<MemberArray> parts() const override { return {{"frames", {bins_, neuron::kProbes}}}; }
  Index at_once() const override { return neuron::kSamples; }
  struct Work final : Memory {
    neuron::CableWork cable;
  };
  std::unique_ptr<Memory> memory() const override { return std::make_unique<Work>(); }

  void make(std::span<MemberTask> members, Memory& memory) const override {
    for (std::size_t i = 0; i < members.size();) {  // members of one cell in a row are simulated together
      std::size_t end = i + 1;
      while (end < members.size() && end - i < neuron::kSamples && members[end].values[1] == members[i].values[1])
        ++end;
      make_of_cell(members.subspan(i, end - i), static_cast<Work&>(memory).cable);
      i = end;
    }
  }

 private:
  const neuron::Cable& cable(int cell) const {
    const std::lock_guard lock(mutex_);
    auto& found = cables_[cell];
    if (!found)
      found = std::make_unique<neuron::Cable>(neuron::make_cell(cell), tables_, current_, neuron::kStepsPerBin);
    return *found;
  }

  void make_of_cell(std::span<MemberTask> members, neuron::CableWork& work) const {
    const neuron::Cable& cell = cable(static_cast<int>(members.front().values[1]));
    std::vector<neuron::Conductances> g;
    for (const MemberTask& member : members)
      g.push_back(neuron::scaled(cell.cell().base, std::span<const double, neuron::kParameters>(
                                                       member.values.subspan(2, neuron::kParameters))));
    cell.run(g, work);
    for (std::size_t m = 0; m < members.size(); ++m) {
      const std::span<float> frame = row_as<float>(members[m].row);
      for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = work.bins[i].value[m];
      if (!std::ranges::all_of(frame, [](float x) { return std::isfinite(x); }))
        members[m].error = "a potential is not finite";
    }
  }

  int bins_;
  std::shared_ptr<const neuron::GateTables> tables_;
  std::vector<double> current_;
  mutable std::mutex mutex_;
  mutable std::map<int, std::unique_ptr<neuron::Cable>> cables_;
};

// Universes.
constexpr std::size_t kBoxKey = 4;  // behind the fixed ones

std::vector<SimulatorKey> cosmology_keys() {
  return {fixed("size", 4, 1024, 32, "voxels per axis, a power of two"),
          fixed("particles", 1, 8, 2, "particles per voxel and axis: 1, 2, 4 or 8"),
          fixed("steps", 0, 1000, 10, "time steps of gravity; 0: displacements of second order alone"),
          seed_key(),
          {"box", 16, 10000, 512, "side in Mpc/h at H_0 = 70; a cube's is this times H_0 / 70"},
          {"Omega_m", 0.05, 0.95, 0.3, "matter"},
          {"sigma_8", 0.1, 2, 0.8, "fluctuations"},
          {"N_spec", 0.5, 1.5, 0.96, "spectral index"},
          {"H_0", 30, 150, 70, "Hubble's constant, km/s/Mpc"},
          number_key("which random initial conditions")};
}

class CosmologyMembers final : public MemberSimulator {
 public:
  explicit CosmologyMembers(std::span<const double> values) : settings_(settings_of(values)), maker_(settings_) {}

  std::vector<MemberArray> parts() const override {
    const Index n = settings_.size;
    return {{"3Dmap", {n, n, n, static_cast<Index>(cosmology::kRedshifts)}, ElementType::uint16}};
  }
  struct Work final : Memory {
    explicit Work(const cosmology::UniverseMaker& maker) : universe(maker) {}
    cosmology::UniverseMaker::Memory universe;
  };
  std::unique_ptr<Memory> memory() const override { return std::make_unique<Work>(maker_); }

  void make(std::span<MemberTask> members, Memory& memory) const override {
    make_each(members, [&](MemberTask& member) {
      const auto v = member.values;
      cosmology::Universe universe;
      universe.cosmology.omega_m = v[kBoxKey + 1];
      universe.cosmology.sigma_8 = v[kBoxKey + 2];
      universe.cosmology.n_s = v[kBoxKey + 3];
      universe.cosmology.hubble = v[kBoxKey + 4];
      universe.box = v[kBoxKey];
      universe.key = key_of(v[kBoxKey - 1], v[kBoxKey + 5], member.number);
      maker_.make(universe, static_cast<Work&>(memory).universe, row_as<std::uint16_t>(member.row));
    });
  }

 private:
  static CosmologySimulation settings_of(std::span<const double> values) {
    CosmologySimulation settings;
    settings.folder = ".";  // nothing is written there
    settings.size = static_cast<int>(values[0]);
    settings.particles = static_cast<int>(values[1]);
    settings.steps = std::max(1, static_cast<int>(values[2]));
    settings.method = values[2] > 0 ? Displacement::cola : Displacement::lpt;
    settings.threads = 1;
    check(settings);
    return settings;
  }

  CosmologySimulation settings_;
  cosmology::UniverseMaker maker_;
};

// Fields on a plane, of one kind.
SimulatorKey pixels_key() { return fixed("size", 16, 1024, 64, "pixels per axis, an even number"); }

std::vector<SimulatorKey> heat_keys() {
  return {pixels_key(),
          seed_key(),
          {"log10_diffusivity", -6, 0, -3.25, "decimal logarithm of the diffusivity, squares per unit of time"},
          {"velocity_x", -1, 1, 0, "drift along the image's first axis, sides per unit of time"},
          {"velocity_y", -1, 1, 0, "drift along the second axis"},
          number_key("which random first field and noise")};
}

std::vector<SimulatorKey> texture_keys() {
  return {pixels_key(),
          seed_key(),
          {"wavelength_pixels", 2, 64, 2.8, "of the stripes, pixels"},
          {"orientation", 0, std::numbers::pi, 0, "of their wave vector, radians from the first axis"},
          {"phase", 0, 2 * std::numbers::pi, 0, "radians"},
          {"contrast", 0, 10, 0.3, "amplitude; the background's deviation is 1"},
          number_key("which random background and noise")};
}

template <class Problem>
class FieldMembers final : public MemberSimulator {
 public:
  explicit FieldMembers(std::span<const double> values) : size_(even_pixels(values[0])), problem_(size_) {}

  std::vector<MemberArray> parts() const override { return {{"fields", {size_, size_, problem_.channels()}}}; }
  struct Work final : Memory {
    explicit Work(int size) : plane(size) {}
    fields::PlaneMemory plane;
  };
  std::unique_ptr<Memory> memory() const override { return std::make_unique<Work>(size_); }

  void make(std::span<MemberTask> members, Memory& memory) const override {
    make_each(members, [&](MemberTask& member) {
      const auto v = member.values;
      problem_.make(of(v), key_of(v[1], v.back(), member.number), static_cast<Work&>(memory).plane,
                    row_as<float>(member.row));
    });
  }

 private:
  static auto of(std::span<const double> v) {
    if constexpr (std::is_same_v<Problem, fields::Heat>)
      return fields::HeatFlow{std::pow(10, v[2]), v[3], v[4]};
    else
      return fields::Stripes{v[2], v[3], v[4], v[5]};
  }

  int size_;
  Problem problem_;
};

// Volumes with fractals.
std::vector<SimulatorKey> volumes_keys() {
  return {fixed("size", 8, 256, 32, "voxels per axis"),
          fixed("classes", 1, 1000, 5, "classes of fractals, beside the background"),
          seed_key(),
          whole("fractals", 1, 64, 3, "fractals in the volume"),
          {"noise", 0, 100, 0.3, "deviation of the noise; a fractal's brightness is about 1"},
          number_key("which random shapes, places and noise")};
}

class VolumesMembers final : public MemberSimulator {
 public:
  explicit VolumesMembers(std::span<const double> values)
      : size_(static_cast<Index>(values[0])), painter_(of(values)) {}

  std::vector<MemberArray> parts() const override {
    return {{"volumes", {size_, size_, size_, 1}}, {"masks", {size_, size_, size_}, ElementType::uint16}};
  }

  void make(std::span<MemberTask> members, Memory&) const override {
    const auto voxels = static_cast<std::size_t>(size_ * size_ * size_);
    make_each(members, [&](MemberTask& member) {
      const auto v = member.values;
      const Index number = std::isnan(v[5]) ? member.number : static_cast<Index>(v[5]);
      painter_.paint({number, static_cast<int>(v[3]), v[4]}, row_as<float>(member.row.first(voxels * sizeof(float))),
                     row_as<std::uint16_t>(member.row.subspan(voxels * sizeof(float))));
    });
  }

 private:
  static VolumesSimulation of(std::span<const double> values) {
    VolumesSimulation settings;
    settings.size = static_cast<int>(values[0]);
    settings.classes = static_cast<int>(values[1]);
    settings.seed = static_cast<std::uint64_t>(values[2]);
    return settings;
  }

  Index size_;
  volumes::Painter painter_;
};

// Implosions: the keys are the drive's numbers, in their units.
std::vector<SimulatorKey> implosion_keys() {
  std::vector<SimulatorKey> keys{fixed("size", 8, 1024, 32, "pixels per axis, an even number")};
  for (const implosion::Quantity& input : implosion::inputs())
    keys.push_back({input.name, input.centre - input.half_width, input.centre + input.half_width, input.centre,
                    *input.unit == 0 ? "of the drive" : fmt::format("of the drive, {}", input.unit)});
  return keys;
}

class ImplosionMembers final : public MemberSimulator {
 public:
  explicit ImplosionMembers(std::span<const double> values) : size_(even_pixels(values[0])) {}

  std::vector<MemberArray> parts() const override {
    return {{"images", {size_, size_, Index{implosion::kBands}}}, {"scalars", {Index{implosion::kScalars}}}};
  }

  void make(std::span<MemberTask> members, Memory&) const override {
    const auto image = static_cast<std::size_t>(size_) * static_cast<std::size_t>(size_) * implosion::kBands;
    make_each(members, [&](MemberTask& member) {
      implosion::Inputs inputs;
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        const implosion::Quantity& input = implosion::inputs()[k];
        inputs[k] = static_cast<float>((member.values[k + 1] - input.centre) / input.half_width);
      }
      const implosion::HotSpot spot = implosion::hot_spot(inputs);
      const std::span<float> row = row_as<float>(member.row);
      implosion::draw(spot, size_, row.first(image));
      std::ranges::copy(implosion::scalars_of(spot), row.subspan(image).begin());
    });
  }

 private:
  int size_;
};

using Values = std::span<const double>;
struct Simulator {
  const char* name;
  std::vector<SimulatorKey> (*keys)();
  std::unique_ptr<MemberSimulator> (*make)(Values);
};

template <class Members>
std::unique_ptr<MemberSimulator> made(Values values) {
  return std::make_unique<Members>(values);
}

constexpr Simulator kSimulators[] = {{"neuron", neuron_keys, made<NeuronMembers>},
                                     {"cosmology", cosmology_keys, made<CosmologyMembers>},
                                     {"heat", heat_keys, made<FieldMembers<fields::Heat>>},
                                     {"texture", texture_keys, made<FieldMembers<fields::Texture>>},
                                     {"volumes", volumes_keys, made<VolumesMembers>},
                                     {"implosion", implosion_keys, made<ImplosionMembers>}};

const Simulator& simulator_of(const std::string& name) {
  for (const Simulator& simulator : kSimulators)
    if (name == simulator.name) return simulator;
  throw ConfigError(fmt::format("there is no simulator '{}'{}; there are {}", name,
                                did_you_mean(name, simulator_names()), fmt::join(simulator_names(), ", ")));
}

}  // namespace

Index MemberArray::numbers() const {
  Index numbers = 1;
  for (const Index size : shape) numbers *= size;
  return numbers;
}

Index bytes_of(const std::vector<MemberArray>& parts) {
  Index bytes = 0;
  for (const MemberArray& part : parts) bytes += part.bytes();
  return bytes;
}

std::vector<std::string> simulator_names() {
  std::vector<std::string> names;
  for (const Simulator& simulator : kSimulators) names.emplace_back(simulator.name);
  return names;
}

std::vector<SimulatorKey> simulator_keys(const std::string& simulator) { return simulator_of(simulator).keys(); }

std::unique_ptr<MemberSimulator> make_member_simulator(const std::string& simulator, Values values) {
  return simulator_of(simulator).make(values);
}

}  // namespace mrmf
