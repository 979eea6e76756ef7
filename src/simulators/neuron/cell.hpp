// A cell: a reduced morphology cut into compartments, and its electrical type.
//
// The morphology replaces the reconstructed ones. It has a soma, an axon (initial segment, then a tapering cable) and
// three tapering dendrites, each the equivalent cylinder of about two real ones. Lengths and diameters are drawn per
// cell number, so cell 3 is the same neuron in every file, whatever its seed.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "src/simulators/neuron/conductances.hpp"

namespace mrmf::neuron {

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
