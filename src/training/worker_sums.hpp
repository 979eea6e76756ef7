// Sums over workers where values travel as codes, or where each worker has a momentum of its own and directions are
// added in place of gradients (training.communication, training.momenta). Backward starts them as it starts all sums.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/coded_reduce.hpp"
#include "mpi/comm.hpp"
#include "src/run/model_file.hpp"
#include "src/training/model_state.hpp"
#include "src/training/pending_sums.hpp"
#include "src/training/sum_coding.hpp"

namespace mrmf {

/// ConfigError: more workers than the scheme's counters hold; sums that a device does not have.
void require_communication(const SumSettings& sums, int workers, bool on_cpu);

class WorkerSums final : public AllReduce {
 public:
  /// Keeps references. `plain`: the team's own sums; null: the team is one rank. The model's worker arrays are ready.
  WorkerSums(ModelState& model_state, const SumSettings& settings, Backend& backend, Comm& team, AllReduce* plain);

  /// The step whose sums begin next, and the rows that each of this rank's workers has in it, of so many of all. `step`
  /// must live until it is done.
  void begin(const StepContext& step, std::vector<Index> rows, Index all_rows);
  /// What a device multiplies gradients by where it takes directions: LionStep::gain of this step.
  float gain() const;

  // The sums of this rank's gradients, if it is one worker, in place of what the model has of them.
  void sum(std::span<double> values) override;
  void start(Span part) override;
  void finish() override;
  SumTime take_time() override { return pending_.take_time(); }

  /// Sums the gradients of several workers of each rank, each laid out as the model's. The model's get the sum.
  /// Collective.
  void sum(const std::vector<Span>& gradients);

  /// Whether what was summed are directions: the step then ends with move().
  bool adds_directions() const { return settings_.adds_directions(); }
  void move();
  /// Once the step is queued, outside of its captured graph: averages momenta when it is time. Collective.
  void end_step();
  /// Where a phase ends: all momenta become their mean, which the next one begins with. Collective.
  void end();

  /// Gradients that are best ready when a sum starts, so that its messages are not too short.
  Index bucket() const { return static_cast<Index>(fewest_values(settings_.communication, team_.size())); }

  /// Bytes sent to other ranks since the last call; of sums in float32 what a reduce-scatter sends.
  double take_sent();

 private:
  void start_range(std::size_t first, std::size_t end);
  void take_directions(std::size_t first, std::size_t end);
  void weigh(std::size_t first, std::size_t end);
  void find_factors(const PackedTensors& tensors);
  void start_coded(const PackedTensors& tensors);
  void start_on_device(std::size_t first, std::size_t end);
  void average(const ArenaSpan& span, const std::vector<float>& weights);
  void add_plainly(std::size_t first, std::size_t end);
  const std::vector<PackedTensors>& tensors_in(std::size_t first, std::size_t end);
  float weight(std::size_t worker) const;

  ModelState& model_state_;
  const SumSettings& settings_;
  Backend& backend_;
  Comm& team_;
  AllReduce* plain_;
  CodedAllReduce* device_;  // null: codes are made on the host
  std::vector<TensorSpan> tensors_;
  std::vector<ArenaSpan> averaged_;  // of the momenta
  std::vector<Span> values_;         // by own worker: gradients, then what is sent of them
  std::vector<Index> rows_;          // by own worker
  Index all_rows_ = 1;
  const StepContext* step_ = nullptr;
  std::vector<std::vector<float>> factors_;                   // by own worker and tensor: of levels
  std::map<std::size_t, std::vector<PackedTensors>> packed_;  // by the first float; the same in every step
  CodeMemory memory_;
  PendingSums pending_;
  double sent_ = 0;                          // besides what memory_ has counted
  std::map<std::size_t, double> part_sent_;  // on a device, in every step: by the part's first float
};

}  // namespace mrmf
