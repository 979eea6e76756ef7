// Ion channels: their kinetics, their places in a compartment's lanes, and tables of them.
//
// Kinetics of the Blue Brain Project's rat somatosensory cells (Markram et al., Cell 163, 2015): steady state and time
// constant of every gate as a function of the membrane potential, in mV and ms, at 34 degrees Celsius. Each equation is
// written only here; the tables and both integrators are made from it.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "src/simulators/neuron/cell.hpp"

namespace mrmf::neuron {

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

}  // namespace mrmf::neuron
