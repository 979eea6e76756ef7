// A cell: its morphology cut into compartments, its electrical type, the kinetics of its ion channels, and the cable
// equation that gives its potential in time.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/simulators/neuron/cable_kernel.hpp"

namespace mrmf::neuron {

// A cell: a reduced morphology cut into compartments, its electrical type, and the conductances and labels of both.
//
// The morphology replaces the reconstructed ones. It has a soma, an axon (initial segment, then a tapering cable) and
// three tapering dendrites, each the equivalent cylinder of about two real ones. Lengths and diameters are drawn per
// cell number, so cell 3 is the same neuron in every file, whatever its seed.

// Conductances and labels of a neuron: maximal conductances per region, the values of the published electrical types,
// and the labels in [-1, 1] that a network learns to infer (Neuron Inverter data, 19 labels).

enum class Region { soma, axon, dendrite };
inline constexpr int kRegions = 3;

enum class Channel {
  sodium,    ///< NaTs2_t in soma and dendrites, NaTa_t in the axon
  k_tst,     ///< K_Tst
  nap,       ///< Nap_Et2
  ca_lva,    ///< Ca_LVAst
  sk,        ///< SK_E2
  k_pst,     ///< K_Pst
  skv3,      ///< SKv3_1
  pas,       ///< leak
  im,        ///< Im
  ca,        ///< Ca
  ih,        ///< Ih, at the soma's end of a dendrite; it grows with the distance
  stoch_kv,  ///< StochKv
  kd_shu     ///< KdShu2007
};
inline constexpr int kChannelKinds = 13;

/// Maximal conductances, S/cm2 (StochKv as in its mod file: pS/um2).
class Conductances {
 public:
  double& at(Region r, Channel c) { return values_[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)]; }
  double at(Region r, Channel c) const { return values_[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)]; }

 private:
  std::array<std::array<double, kChannelKinds>, kRegions> values_{};
};

/// Electrical types. They share base values in three groups: A = bNAC, bSTUT; B = cAC, cIR; C = cNAC, cSTUT, dNAC,
/// dSTUT.
enum class ElectricalType { cAC, cNAC, bNAC, dNAC, cSTUT, cIR, bSTUT, dSTUT };
inline constexpr int kElectricalTypes = 8;
const char* name(ElectricalType type);

/// Constants of an electrical type other than its conductances.
struct ElectricalConstants {
  std::array<double, kRegions> leak_reversal;  ///< mV
  std::array<double, kRegions> calcium_decay;  ///< ms; soma and axon only
  std::array<double, kRegions> calcium_gamma;  ///< share of the entering calcium that stays free
};

Conductances base_conductances(ElectricalType type);
ElectricalConstants electrical_constants(ElectricalType type);

/// One varied conductance. Each is base x 10^u with u uniform in [-1, 1).
struct Parameter {
  const char* name;
  Region region;
  Channel channel;
  double lowest, highest;  ///< S/cm2: range of the base values over the data set's 157 cells; 0 without a label
};
inline constexpr int kLabels = 19;
inline constexpr int kParameters = 23;  ///< the labels, then four that vary unlabelled (absent in some types)

/// The labels in the order of the data sets, then the unlabelled ones.
std::span<const Parameter, kParameters> parameters();

/// Centre and half-width of a label's log10 conductance.
double centre(const Parameter& p);
double half_width(const Parameter& p);

/// u* = (u + log10(base) - centre) / half width: a label means the same conductance for every cell.
double label_of(const Parameter& p, double base, double u);
/// The conductance for a label, S/cm2.
double conductance_of(const Parameter& p, double label);

/// `base` with parameter k multiplied by 10^u[k].
Conductances scaled(const Conductances& base, std::span<const double, kParameters> u);

inline constexpr double kCapacitance = 1;         ///< uF/cm2
inline constexpr double kAxialResistivity = 100;  ///< ohm cm
inline constexpr double kRestVoltage = -65;       ///< mV, at the start
inline constexpr double kSegmentLength = 40;      ///< um: a section of length L has 1 + 2 int(L / 40) compartments

/// An unbranched cable, cut into equal cylinders.
struct Section {
  std::string name;
  Region region = Region::soma;
  int parent = -1;                ///< a section; dendrites and axon start at the middle of the soma
  double length = 0;              ///< um
  std::vector<double> diameters;  ///< um, per compartment
  double distance = 0;            ///< um along the path from the middle of the soma to its start
};

/// One cylinder. Compartments are numbered so that a parent comes before its children.
struct Compartment {
  int parent = -1;
  int section = 0;
  Region region = Region::soma;
  double area = 0;       ///< cm2
  double to_parent = 0;  ///< S, axial conductance between the two centres
  double distance = 0;   ///< um along the path from the middle of the soma to its centre
};

inline constexpr int kProbes = 3;  ///< soma, axon, dendrite: the channels of a sample

struct Cell {
  std::string name;  ///< e.g. "bNAC_002": type and number
  ElectricalType type = ElectricalType::cAC;
  std::vector<Section> sections;
  std::vector<Compartment> compartments;
  std::array<int, kProbes> probes{};  ///< compartments: soma, nearest 150 um in the axon, nearest 50 um in a dendrite
  Conductances base;
  ElectricalConstants constants;
};

/// Cell `number` >= 0; electrical types take turns.
Cell make_cell(int number);

/// Cuts sections into compartments; parents come before children.
std::vector<Compartment> compartments_of(const std::vector<Section>& sections);

/// The factor by which a dendrite's Ih grows with the distance (um) from the soma.
double ih_factor(double distance);

// Ion channels: their kinetics, their places in a compartment's lanes, and tables of them.
//
// Kinetics of the Blue Brain Project's rat somatosensory cells (Markram et al., Cell 163, 2015): steady state and time
// constant of every gate as a function of the membrane potential, in mV and ms, at 34 degrees Celsius. Each equation is
// written only here; the tables and both integrators are made from it.

/// One gating variable: dx/dt = (steady - x) / tau.
struct Gate {
  double steady = 1;
  double tau = 1e30;  ///< ms; the default is a gate that is always open
};

/// Activation and inactivation of one channel.
struct Gates {
  Gate m, h;
};

inline constexpr double kSpeedUp = 2.952882641412121;        ///< 2.3^1.3: rates measured at 21 degrees, used at 34
inline constexpr double kSpeedUpStoch = 2.4997732686681893;  ///< 2.3^1.1: the same for StochKv, measured at 23

/// a x / (1 - exp(-x / k)), with its limit a k at x = 0.
inline double linoid(double a, double x, double k) {
  const double y = x / k;
  return std::abs(y) < 1e-6 ? a * k * (1 + y / 2) : a * x / (1 - std::exp(-y));
}

/// 1 / (1 + exp(-(v - half) / slope)); a negative slope falls with v.
inline double sigmoid(double v, double half, double slope) { return 1 / (1 + std::exp(-(v - half) / slope)); }

inline double square(double x) { return x * x; }

/// From opening and closing rates per ms.
inline Gate from_rates(double opening, double closing, double speed_up) {
  return {opening / (opening + closing), 1 / (opening + closing) / speed_up};
}

/// Transient sodium of the axon (NaTa_t, shift 0) and of soma and dendrites (NaTs2_t, shift 6 mV): m^3 h.
inline Gates sodium_transient(double v, double shift) {
  const double vm = v + 38 - shift, vh = v + 66 - shift;
  return {from_rates(linoid(0.182, vm, 6), linoid(0.124, -vm, 6), kSpeedUp),
          from_rates(linoid(0.015, -vh, 6), linoid(0.015, vh, 6), kSpeedUp)};
}

/// Persistent sodium (Nap_Et2): m^3 h.
inline Gates sodium_persistent(double v) {
  const double rate_m = linoid(0.182, v + 38, 6) + linoid(0.124, -(v + 38), 6);
  const double rate_h = linoid(2.88e-6, -(v + 17), 4.63) + linoid(6.94e-6, v + 64.4, 2.63);
  return {{sigmoid(v, -52.6, 4.6), 6 / rate_m / kSpeedUp}, {sigmoid(v, -48.8, -10), 1 / rate_h / kSpeedUp}};
}

/// Transient potassium (K_Tst): m^4 h. This and the next assume a liquid junction potential of 10 mV.
inline Gates potassium_transient(double v) {
  const double u = v + 10;
  return {{sigmoid(u, 0, 19), (0.34 + 0.92 * std::exp(-square((u + 71) / 59))) / kSpeedUp},
          {sigmoid(u, -66, -10), (8 + 49 * std::exp(-square((u + 73) / 23))) / kSpeedUp}};
}

/// Persistent potassium (K_Pst): m^2 h.
inline Gates potassium_persistent(double v) {
  const double u = v + 10;
  const double tau_m = u < -50 ? 1.25 + 175.03 * std::exp(0.026 * u) : 1.25 + 13 * std::exp(-0.026 * u);
  const double tau_h = 360 + (1010 + 24 * (u + 55)) * std::exp(-square((u + 75) / 48));
  return {{sigmoid(u, -1, 12), tau_m / kSpeedUp}, {sigmoid(u, -54, -11), tau_h / kSpeedUp}};
}

/// Fast potassium (SKv3_1): m.
inline Gates potassium_fast(double v) { return {{sigmoid(v, 18.7, 9.7), 4 * sigmoid(v, -46.56, 44.14)}, {}}; }

/// Muscarinic potassium (Im): m.
inline Gates potassium_muscarinic(double v) {
  return {from_rates(0.0033 * std::exp(0.1 * (v + 35)), 0.0033 * std::exp(-0.1 * (v + 35)), kSpeedUp), {}};
}

/// High-voltage activated calcium (Ca): m^2 h.
inline Gates calcium_high(double v) {
  return {from_rates(linoid(0.055, v + 27, 3.8), 0.94 * std::exp((-75 - v) / 17), 1),
          from_rates(0.000457 * std::exp((-13 - v) / 50), 0.0065 / (std::exp((-v - 15) / 28) + 1), 1)};
}

/// Low-voltage activated calcium (Ca_LVAst): m^2 h.
inline Gates calcium_low(double v) {
  const double u = v + 10;
  return {{sigmoid(u, -30, 6), (5 + 20 * sigmoid(u, -25, -5)) / kSpeedUp},
          {sigmoid(u, -80, -6.4), (20 + 50 * sigmoid(u, -40, -7)) / kSpeedUp}};
}

/// Hyperpolarisation-activated cation current (Ih): m.
inline Gates cation_h(double v) {
  return {from_rates(linoid(0.00643, -(v + 154.9), 11.9), 0.193 * std::exp(v / 33.1), 1), {}};
}

/// Slow potassium (StochKv), the mean of the stochastic original: m, with a conductance of 1e-4 g kSpeedUpStoch.
inline Gates potassium_stochastic(double v) {
  return {from_rates(linoid(0.02, v + 40, 9), linoid(0.002, -(v + 40), 9), kSpeedUpStoch), {}};
}

/// Slowly inactivating potassium (KdShu2007): m h.
inline Gates potassium_delay(double v) { return {{sigmoid(v, -43, 8), 0.6}, {sigmoid(v, -67, -7.3), 1500}}; }

// Calcium in a shell under the membrane, and the potassium channel it opens (SK_E2): z.
inline constexpr double kFaraday = 96485.3321233100;          ///< C/mol
inline constexpr double kNernstCalcium = 13.234069557339458;  ///< R T / 2 F at 34 degrees, mV
inline constexpr double kCalciumOutside = 2;                  ///< mM
inline constexpr double kCalciumRest = 1e-4;                  ///< mM
inline constexpr double kShellDepth = 0.1;                    ///< um
inline constexpr double kSkHalf = 0.00043;                    ///< mM
inline constexpr double kSkPower = 4.8;
inline constexpr double kSkTau = 1;  ///< ms

inline double calcium_reversal(double inside) { return kNernstCalcium * std::log(kCalciumOutside / inside); }
inline double sk_steady(double inside) { return 1 / (1 + std::pow(kSkHalf / inside, kSkPower)); }

/// mM of calcium per mA/cm2 of inward current flowing for 1 ms, when a share gamma of it stays free.
inline double calcium_per_current(double gamma) { return 1e4 * gamma / (2 * kFaraday * kShellDepth); }

// The channels of one compartment, eight side by side: one SIMD lane per channel. A channel's lane depends only on the
// region, so the gates of all lanes come from one table row and the exponents are fixed:
//
//   lane        0        1       2         3              4               5             6        7
//   soma        NaTs2    K_Tst   Nap_Et2   Ca_LVAst       K_Pst           Ca            SKv3_1   Im
//   axon        NaTa     K_Tst   Nap_Et2   Ca_LVAst       K_Pst           Ca            SKv3_1   Im
//   dendrite    NaTs2    K_Tst   Nap_Et2   Ih             StochKv         KdShu2007     SKv3_1   Im
//   exponent    3        4       3         2 or 1         2 or 1          2 or 1        1        1
//
// The soma of some types also has StochKv and KdShu2007: a second block with the dendrite's lanes.

inline constexpr int kLanes = 8;

template <class T>
using PerLane = std::array<T, kLanes>;

struct ChannelBlock {
  int compartment = 0;
  Region lanes = Region::soma;  ///< which row of the table above
  PerLane<double> reversal{};   ///< mV; calcium's lanes hold 0, because their potential follows the concentration
  bool calcium() const { return lanes != Region::dendrite; }
};

/// Lanes of the two calcium channels, in soma and axon.
inline constexpr int kCalciumLow = 3, kCalciumHigh = 5;

/// The exponent of the activation gate.
int exponent(Region lanes, int lane);

/// The gates of all lanes at potential v.
PerLane<Gates> gates_at(Region lanes, double v);

/// Every compartment's block, then the soma's second one if the type has those channels.
std::vector<ChannelBlock> channel_blocks(const Cell& cell);

/// Maximal conductances, S/cm2, of a region's blocks with these lanes. Lanes that belong to the region's other block
/// are 0. Ih is the value at the soma's end of the dendrite: a compartment multiplies it by its ih_factor().
PerLane<double> block_conductances(const Conductances& g, Region region, Region lanes);
inline constexpr int kCation = 3;  ///< the lane of Ih, in the dendrite

inline constexpr float kTableLowest = -256, kTableHighest = 256;  ///< mV; beyond them the end values apply
inline constexpr float kTablePerMillivolt = 16;

/// One row; x(t + dt) = x + factor (steady - x), factor = 1 - exp(-dt / tau).
struct alignas(64) GateRow {
  float m[kLanes], m_factor[kLanes], h[kLanes], h_factor[kLanes];
};

/// Steady states and update factors of a region's gates, tabulated over the membrane potential for one time step.
class GateTable {
 public:
  GateTable(Region lanes, double dt);
  const GateRow* rows() const { return rows_.data(); }
  static int size() { return static_cast<int>((kTableHighest - kTableLowest) * kTablePerMillivolt) + 2; }

 private:
  std::vector<GateRow> rows_;
};

// The fast integrator for samples of one cell, eight at a time.

enum class InstructionSet { generic, avx2 };
/// The widest set that this processor has. All sets give the same bits.
InstructionSet best_instruction_set();

/// The gates of every region for one size of the time step; shared by all cells.
class GateTables {
 public:
  explicit GateTables(double dt);
  double dt() const { return dt_; }
  const GateTable& of(Region lanes) const { return tables_[static_cast<std::size_t>(lanes)]; }

 private:
  double dt_;
  std::array<GateTable, kRegions> tables_;
};

/// Eight values, one per sample or per channel.
struct alignas(32) Row {
  float value[kSamples];
};

/// A thread's working memory and result.
struct CableWork {
  std::vector<Row> memory;
  std::vector<Row> bins;  ///< (bin, probe): mean potential, mV, one value per sample
  Row peak{};             ///< highest potential of the soma, mV
};

/// One cell under one current, ready to run with any conductances. Immutable, so threads may share it.
class Cable {
 public:
  /// `current` (nA) has one value per step; its length is a multiple of steps_per_bin.
  Cable(const Cell& cell, std::shared_ptr<const GateTables> tables, std::span<const double> current, int steps_per_bin,
        InstructionSet set = best_instruction_set());

  Cable(Cable&&) = default;  // no copies: blocks_ points into reversal_
  Cable& operator=(Cable&&) = default;

  /// Runs 1 to 8 samples; a sample's result does not depend on the others. The last one also fills unused lanes.
  void run(std::span<const Conductances> samples, CableWork& work) const;

  const Cell& cell() const { return cell_; }
  int bins() const { return static_cast<int>(current_.size()) / steps_per_bin_; }

 private:
  struct Samples {  // values that differ between samples, laid out as in CableKernel
    float *conductance, *leak, *leak_drive, *sk;
  };
  void fill(const Conductances& g, std::size_t lane, const Samples& to) const;

  Cell cell_;
  std::shared_ptr<const GateTables> tables_;  // blocks_ points into them
  int steps_per_bin_;
  RunCable run_;
  float sk_factor_;
  std::vector<ChannelBlock> channel_blocks_;
  std::vector<Row> reversal_;
  std::vector<KernelBlock> blocks_;
  std::vector<int> parent_;
  std::vector<float> to_parent_, from_child_, fixed_diagonal_, calcium_gain_, calcium_factor_, current_;
};

}  // namespace mrmf::neuron
