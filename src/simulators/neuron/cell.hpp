// A cell: a reduced morphology cut into compartments, its electrical type, and the conductances and labels of both.
//
// The morphology replaces the reconstructed ones. It has a soma, an axon (initial segment, then a tapering cable) and
// three tapering dendrites, each the equivalent cylinder of about two real ones. Lengths and diameters are drawn per
// cell number, so cell 3 is the same neuron in every file, whatever its seed.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

namespace mrmf::neuron {

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

}  // namespace mrmf::neuron
