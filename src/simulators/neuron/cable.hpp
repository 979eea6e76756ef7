// The fast integrator for samples of one cell, eight at a time.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "src/simulators/neuron/cable_kernel.hpp"
#include "src/simulators/neuron/channels.hpp"

namespace mrmf::neuron {

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
