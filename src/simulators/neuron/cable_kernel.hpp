// The fast integrator's inner loop, compiled once per instruction set. Eight samples of one cell run together. Gates
// have one SIMD lane per channel: all gates of a compartment come from one table row, so there are no gathers. Then the
// membrane currents are transposed to one lane per sample for calcium and the implicit cable equation. Plain pointers
// only: the instruction-set files must compile nothing that they share with others.
#pragma once

namespace mrmf::neuron {

inline constexpr int kSamples = 8;  ///< samples that run together

struct KernelBlock {
  int compartment;
  bool calcium;
  const float* table;     ///< rows of 4 x 8: m, m factor, h, h factor
  const float* reversal;  ///< 8, mV
  int conductances;       ///< index of the set of maximal conductances
  float ih_factor;        ///< factor of lane 3, without calcium
};

/// All inputs and outputs of a run. Arrays "[c]" have one row of 8 samples per compartment, arrays "[b]" 8 x 8 (sample
/// by channel) per block. Conductances are per membrane area, S/cm2. Rows of 8 are 32-byte aligned.
struct CableKernel {
  int compartments, blocks;
  const int* parent;                    ///< one per compartment; compartment 0 is the root
  const float* to_parent;               ///< one per compartment: axial conductance by its own area
  const float* from_child;              ///< the same by its parent's area
  const float* fixed_diagonal;          ///< one per compartment: capacitance / dt and axial conductances
  const float* calcium_gain;            ///< one per compartment: mM per mA/cm2 in the steady state; 0 without calcium
  const float* calcium_factor;          ///< one per compartment: 1 - exp(-dt / decay)
  float sk_factor;                      ///< 1 - exp(-dt / 1 ms)
  const KernelBlock* block;             ///< block i belongs to compartment i; extra blocks follow
  const float* conductance;             ///< (set, sample, channel): maximal conductances
  const float *leak, *leak_drive, *sk;  ///< [c] leak, leak times its reversal potential, maximal SK conductance
  float *m, *h;                         ///< [b] gates
  float *voltage, *calcium, *sk_open;   ///< [c] mV, mM, gate z
  float *sum, *drive, *calcium_sum, *calcium_reversal, *calcium_current;  ///< [c] work
  float *diagonal, *right;                                                ///< [c] work
  const float* current;                                                   ///< per step, mA/cm2 into compartment 0
  int steps, steps_per_bin;
  int probes[3];
  float* bins;  ///< (steps / steps_per_bin, 3, 8): mean potential of each probe
  float* peak;  ///< 8: highest potential of probe 0
};

/// Table geometry.
struct TableGeometry {
  float lowest, highest, per_millivolt;
};

using RunCable = void (*)(const CableKernel&, const TableGeometry&);
void run_cable_generic(const CableKernel& k, const TableGeometry& table);
void run_cable_avx2(const CableKernel& k, const TableGeometry& table);

}  // namespace mrmf::neuron
