// Sums over ranks in fewer bits than float32, or of the directions of Lion's steps (training.communication). The codes
// that travel: gradient_codes.cpp. Their sizes, and which of them pays: gradient_compression_and_worker_momenta.cpp.
// The sum itself: compressed_all_reduce.cpp. Momenta that each worker has of its own:
// gradient_compression_and_worker_momenta.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/step_and_collectives.hpp"
#include "kernels/tensor.hpp"
#include "mpi/coded_and_fixed_point_sums.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/training/data_and_spatial_parallel.hpp"
#include "src/training/model_and_optimizer.hpp"

namespace mrmf {

// The codes in which ranks send gradients, or the directions of Lion's steps: training.communication.

/// Some neighbouring tensors of an arena, whose values are numbered one after the other without what lies between.
class PackedTensors {
 public:
  struct Part {
    std::size_t first = 0, at = 0, count = 0;  ///< in the numbering, in the arena
    std::size_t tensor = 0;
  };
  void add(std::size_t at, std::size_t count, std::size_t tensor) {
    if (count > 0) parts_.push_back({count_, at, count, tensor}), count_ += count;
  }
  std::size_t count() const { return count_; }
  /// Where the value of a number lies in the arena.
  std::size_t offset_of(std::size_t number) const;
  const std::vector<Part>& parts() const { return parts_; }
  void read(ConstSpan arena, const SumPiece& piece, float* to) const;
  void write(const float* from, const SumPiece& piece, Span arena) const;
  /// Calls body(offset in the piece, part of it) in their order.
  template <class Body>
  void for_each(const SumPiece& piece, const Body& body) const {
    for (const Part& part : parts_) {
      const std::size_t first = std::max(part.first, piece.first), end = std::min(part.first + part.count, piece.end());
      if (first < end) body(first - piece.first, Part{first, part.at + (first - part.first), end - first, part.tensor});
    }
  }

 private:
  std::vector<Part> parts_;
  std::size_t count_ = 0;
};

/// What one of this rank's workers brings to a sum. Arenas are laid out as the parameters.
struct WorkerValues {
  Span values;
  Span residual{};                 ///< what its codes have left out so far (training.error_feedback); empty: none
  const float* factors = nullptr;  ///< levels: by tensor, what values are multiplied by before they are rounded
  std::uint32_t rows = 1;          ///< votes: its weight; none of weight 0 votes
};

struct CodingSettings {
  Communication scheme = Communication::fp32;  ///< none of fp32 and automatic
  int most_level = 1;                          ///< levels
  std::uint64_t tie_key = 0;                   ///< votes: what the bits of ties are a function of, besides the offset
};

/// Sums of these tensors; `result` gets it: the sum, or of levels and votes its sign, and NaN where a value was not
/// finite. Keeps what spans and pointers refer to. `sum_residual`, laid out as the result: what the codes of sums have
/// left out so far, in the pieces that this rank adds, and zero elsewhere; empty: it is not kept.
std::unique_ptr<SumCoding> make_sum_coding(const CodingSettings& settings, PackedTensors tensors,
                                           std::vector<WorkerValues> workers, Span result, Span sum_residual = {});

/// Workers whose sums the counters of a way hold.
int most_workers(const SumSettings& sums);
/// The largest level that so many workers can add up in a byte, or in four bits; 0: more than its counters hold. With
/// full levels, the largest that a byte, or half of one, carries: sums are added unpacked.
int most_level(const SumSettings& sums, int workers);

/// The size, in means of a tensor's, that becomes the largest level. Levels that fill their bytes have room for larger
/// ones than Lion Cub's.
double cut_off(const SumSettings& sums);

/// Values of a sum over so many ranks below which its messages are so short that what each costs shows.
std::size_t fewest_values(Communication scheme, int ranks);

/// Bytes of the codes of so many values, as a worker sends them and as the sum comes back; of votes without zeros.
struct CodeBytes {
  double there = 0, back = 0;
};
CodeBytes code_bytes(Communication scheme, double values);
/// Bytes that a rank sends in a sum of so many values over so many ranks, of which each has some workers.
double sum_bytes(Communication scheme, double values, int ranks, int workers = 1);

}  // namespace mrmf

namespace mrmf::coding {

// What the codings of sums share. Private to gradient_compression_and_worker_momenta.cpp and gradient_codes.cpp.

constexpr std::size_t kBlock = SumCoding::kBlock;
constexpr std::size_t kScaled = 256;  ///< values with one scale

using Floats = std::array<float, kBlock>;

/// Calls body(block of the piece, its number) for all of them, which OpenMP's threads share; the last block may be
/// shorter. Blocks have nothing in common that a body changes.
template <class Body>
void for_blocks(const SumPiece& piece, const Body& body) {
  constexpr std::size_t kFewest = 32;  // fewer take no longer than to start the threads
  const std::size_t blocks = (piece.count + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (blocks >= kFewest)
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t first = piece.first + i * kBlock;
    body(SumPiece{first, std::min(kBlock, piece.end() - first)}, i);
  }
}

/// What a coding is of, and where its sum goes.
struct Values {
  PackedTensors tensors;
  std::vector<WorkerValues> workers;
  Span result;
  Span sum_residual{};
};

std::unique_ptr<SumCoding> make_levels(bool halves, int most, Values values);
std::unique_ptr<SumCoding> make_votes(std::uint64_t tie_key, Values values);
std::unique_ptr<SumCoding> make_bf16(Values values);
std::unique_ptr<SumCoding> make_scaled(Values values);

}  // namespace mrmf::coding

namespace mrmf {

// How long a sum over ranks takes, by the way in which its values travel: for `mrmf bench network`, and for
// training.communication = "auto".

/// Times of one sum on the slowest rank: the median of several.
struct SumTrial {
  Communication scheme = Communication::fp32;
  double seconds = 0;  ///< from its start until every rank has the result
  double packing = 0;  ///< seconds of these that a rank encodes, adds and decodes, measured without messages
  double sent = 0;     ///< bytes that a rank sends
};

/// Sums of as many values on every rank, each several times. Collective, the same on every rank.
SumTrial try_sum(Communication scheme, std::size_t values, int times, Comm& team);

/// Seconds that a rank computes for each value of such sums, by the name of the way. Collective.
std::map<std::string, double> coding_times(Comm& team);

/// Bytes per second that each rank sends, where all send to all at once. Collective.
double measured_link(Comm& team);

/// What training.communication = "auto" takes for a model of so many parameters: fp32, unless another way takes at most
/// kWorthIt of its time. Of gradients that is bf16; of Lion's directions, levels8.
constexpr double kWorthIt = 0.8;
/// Shorter sums, and smaller gains, are a matter of chance.
constexpr std::size_t kFewestValues = std::size_t{1} << 16;
constexpr double kLeastGain = 1e-3;  ///< seconds of a sum
struct CommunicationChoice {
  Communication scheme = Communication::fp32;
  std::string text;  ///< a line for the run's log
};
CommunicationChoice choose_communication(const TrainingConfig& training, std::size_t values, Comm& team);

// Momenta that each worker has of its own gradients: when they are averaged, and how far apart they are.

/// Whether the momenta are averaged after this step, from 1. A function of the step alone, so that a run continues as
/// if it had never stopped. spaced: after step 1, and 2^(j / k) steps, for j = 0, 1, ..., from one to the next.
bool averages_momenta(const MomentaSettings& settings, std::uint64_t step);

/// The share of so many steps after which they are averaged.
double averages_share(const MomentaSettings& settings, double steps);

/// Whether a name is what a pattern stands for, in which * is any characters.
bool matches(std::string_view pattern, std::string_view name);
/// What is averaged of momenta with so many floats, whose tensors these are: all, or those that settings.tensors name.
/// Neighbours together.
std::vector<ArenaSpan> averaged_spans(const MomentaSettings& settings, const std::vector<TensorSpan>& tensors,
                                      Index floats);
/// How many values that are, of a whole network's; 0 where none is ever averaged.
double averaged_count(const MomentaSettings& settings, const Network& network);
/// ConfigError for a name in settings.tensors that no parameter of the network has.
void require_averaged_tensors(const MomentaSettings& settings, const Network& network);

/// Every worker's momentum becomes the sum of all, times their weights, which are this rank's workers'. `all` workers
/// of the team. The momenta are in the backend's memory, and are added in the host's. Collective; returns the bytes
/// that a rank sends for it.
double average_momenta(Backend& backend, const std::vector<Span>& momenta, const std::vector<float>& weights, int all,
                       Comm& team);

/// All workers' momenta become their mean, as they do where a phase ends. Collective; returns the bytes as above.
double average_momenta(Backend& backend, const std::vector<Span>& momenta, int all, Comm& team);

/// How far the momenta of each tensor are apart: of some thousand of its values. Collective, the same on every rank.
std::vector<MomentaSpread> momenta_spread(Backend& backend, const std::vector<Span>& momenta, int all,
                                          const std::vector<TensorSpan>& tensors, Comm& team);

// Sums over workers where values travel as codes, or where each worker has a momentum of its own and directions are
// added in place of gradients (training.communication, training.momenta). Backward starts them as it starts all sums.

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
  std::vector<ArenaSpan> averaged_;  // where the momenta lie
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
