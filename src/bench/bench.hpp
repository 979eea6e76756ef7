// `mrmf bench`: the benchmarks and their common parts.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "kernels/backend.hpp"
#include "kernels/tensor.hpp"
#include "layers/network.hpp"
#include "layers/partition.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/rank_planner/rank_planner.hpp"
#include "src/training/model_and_optimizer.hpp"

namespace mrmf {

/// Standard normal values, the same for the same seed. They repeat after a million.
void fill_normal(Span values, std::uint64_t seed);

/// The shape of a loss's targets for such outputs, and made-up targets: class numbers, or standard normal numbers.
Shape target_shape(const LossSettings& loss, const Shape& output);
void fill_targets(Span targets, const LossSettings& loss, Index classes);

/// `mrmf bench network`: sums over ranks by scheme and length.
struct SumBenchSettings {
  std::vector<Index> values{1 << 12, 1 << 16, 1 << 20, 9'440'000};  ///< the last: a CosmoFlow network's
  int times = 5;
  double gbit = 0;  ///< what each rank's link lets pass, in Gbit/s; 0: it is measured
  bool print_json = false;
};
/// ConfigError for one rank. Collective.
void bench_network(const SumBenchSettings& settings, Comm& world, std::ostream& out);

/// What is timed or compared on made-up data: the steps of one network.
struct BenchSettings {
  std::string name;         ///< the network's, for people: a preset's, or the file that configures it
  NetworkSettings network;  ///< with the rows of a step
  LossSettings loss = LossSettings::single(LossKind::mse);
  int steps = 10;         ///< timed, after some that are not
  int first = 0;          ///< training: steps before all others whose losses are written
  bool profile = false;   ///< training: one more step at the end, which a profiler sees
  bool fuse = true;       ///< layers are fused where the backend offers it
  bool in_place = false;  ///< as training.update_in_place
  OptimizerSettings optimizer{};
  OutputOption json;  ///< for the figures

  int batch() const { return static_cast<int>(network.max_rows); }
  ModelSettings model() const { return {.network = network, .fuse = fuse, .in_place = in_place}; }
  /// "resnet, sample 64x64x3, batch 32"
  std::string title() const;
};

/// A model in training on one batch of normal random samples and labels.
class BenchSteps {
 public:
  BenchSteps(Backend& backend, const BenchSettings& settings);

  /// Puts the batch where a step finds it; copies it anew to a device.
  void load();
  /// One optimizer step on the batch loaded last; keeps its loss. On a device, returns before the step is done.
  void step();
  std::vector<float> losses();  ///< per sample, of the steps so far; waits for them

  ModelState& model_state() { return model_state_; }

 private:
  Backend& backend_;
  ModelState model_state_;
  int batch_;
  std::vector<float> x_, targets_;
  std::vector<std::int64_t> ids_;
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<LossOp> loss_;
  Feed::Batch loaded_;
  Arena losses_;
  Index done_ = 0;
  int loads_ = 0;
};

/// Runs steps until graphs are captured and a device's clocks are up.
void warm_up(Backend& backend, BenchSteps& steps);
/// Seconds of the timed steps, a few at a time on a device. With `load`, each step is on a batch copied anew.
std::vector<double> step_times(Backend& backend, BenchSteps& steps, int timed, bool load);
/// Their median.
double step_seconds(Backend& backend, BenchSteps& steps, int timed, bool load);

/// Prints samples per second with the batch in the backend's memory and, on a device, also with its loading. The last
/// line is JSON: {"samples_per_second": ..., "step_seconds": ..., "mean_step_seconds": ..., ...}.
void bench_training(Backend& backend, const BenchSettings& settings, std::ostream& out);

/// The same steps on `device` and on `host`: prints both losses per step and a hash of the device's parameters.
/// FaultError when losses differ by more than `tolerance` of the largest so far.
struct Parity {
  Backend& device;
  Backend& host;
  double tolerance;
};
void bench_parity(const Parity& parity, const BenchSettings& settings, std::ostream& out);

/// `mrmf bench layers`: where a training step's time goes, beside the times of oneDNN's own primitives in the same run.
/// Times the layers one by one. For the convolutions but the first and the
/// dense layers, measures oneDNN's best alone (the best of channels-last, plain and its own layouts, reorders not
/// counted). Prints both times per layer, ours / oneDNN's and GFLOP/s, then the sums and the ratio of a whole step.
void bench_layers(Backend& backend, const BenchSettings& settings, std::ostream& out);

/// The best that a device can do.
struct DevicePeak {
  double bytes_per_second = 0, flops = 0;
};
/// The peak of the named device in a precision; nothing for devices that have not been measured.
std::optional<DevicePeak> device_peak(const std::string& description, Precision precision);

/// Bytes that a unit must move and operations it must do in a training step, forward and backward. Assumes cuDNN's
/// fusions: convolution + bias + activation in one kernel, pooling apart, backward of pooling and activation in one.
/// Batch norm reads its input twice in each direction.
struct UnitWork {
  double bytes = 0, flop = 0;
};
UnitWork unit_work(const Network& network, const Unit& unit, double element_bytes);

/// `mrmf bench layers` on a device: each unit's time beside what the device's memory and arithmetic allow. Prints one
/// line per unit. With --json: {"layers": [{name, forward_us, backward_us, roofline_us}], "step_us",
/// "step_roofline_us"}.
void bench_device_layers(Backend& backend, const BenchSettings& settings, Precision precision, std::ostream& out);

/// The error of one parameter tensor's gradient.
struct GradientError {
  std::string name;     ///< "conv1 weight"
  Index values = 0;     ///< elements
  double distance = 0;  ///< root mean square of the difference over that of the expected values
  double along = 0;     ///< share of the expected gradient that is there: <got, expected> / <expected, expected>
  bool counts = true;   ///< false: only rounding is expected (a bias before a batch norm), so `along` is noise

  /// What distance and along are made of: means over the elements.
  struct Squares {
    double difference = 0, product = 0, expected = 0, of_layer = 0;
  } squares{};
};

/// One error per parameter tensor. Spans are laid out as Model::grads(). A tensor whose expected values are less than a
/// tenth of its layer's is measured by the layer's.
std::vector<GradientError> gradient_errors(const Network& network, ConstSpan got, ConstSpan expected);

/// Takes the errors of another step: of a large tensor the worse one, of a small one the error over all steps so far.
void keep_worst(std::vector<GradientError>& worst, const std::vector<GradientError>& errors);

inline bool is_small(Index values) { return values < 256; }

/// The allowed error of a precision.
struct GradientTolerance {
  double distance, along;

  /// Roundings average over fewer values in a small tensor, as a batch norm's: half as much again, and twice.
  GradientTolerance of(Index values) const {
    return is_small(values) ? GradientTolerance{1.5 * distance, 2 * along} : *this;
  }
};

/// `mrmf bench gradients`: compares a device's gradients with the CPU's, layer by layer. For every parameter tensor,
/// prints the worst of `steps` training steps, each from the same parameters. A small tensor is compared over all steps
/// together: the few values of one step may nearly cancel, and then rounding is as large as they are. The device makes
/// the first call by call, captures the second and replays the third. FaultError names the worst tensor when one is off
/// by more than the tolerance, or not finite.
struct GradientCheck {
  Backend& device;
  Backend& host;
  GradientTolerance tolerance;
  bool fuse = true;  ///< the device's layers, where it can; off: each alone, to tell which of them an error is of
};
void bench_gradients(const GradientCheck& check, const BenchSettings& settings, std::ostream& out);

/// `mrmf bench io`: how fast samples come out of the files, beside a plain read of the same bytes.
struct BenchIo {
  Config config;      ///< data, batch, resolution of the last phase of the plan
  int rounds = 1;     ///< medians are printed
  OutputOption json;  ///< for the figures
};

/// Collective. Each rank takes its part of the training samples through the loader as training does, streamed, twice.
/// The first time is from the disk: the operating system's copies of the files are dropped before, as far as it allows.
/// The second time uses what the first epoch left in memory. Beside both, read(2) reads the same bytes from front to
/// back. Prints GB/s over all ranks and their ratios; the last line is JSON. read(2) counts the files' bytes, the
/// loader the unpacked samples': these differ for compressed files, and for files that hold more. With run.grid, ranks
/// read their blocks with the positions beside them that training needs, which are counted for every rank.
void bench_io(const BenchIo& bench, Comm& world, std::ostream& out);

/// `mrmf bench scaling`: epochs of one model on 1, 2, ... ranks of the same job, and where their time goes.
struct ScalingSettings {
  std::vector<int> ranks;  ///< teams to measure, at most the world's size; empty: 1, 2, 4, ... groups of ranks, and all
  bool weak = false;       ///< batch of a group as configured; else the mini-batch that this makes on the largest team
  int epochs = 3;          ///< measured, after one that is not; the median epoch is shown
  std::vector<Grid> grids;  ///< grids of all teams, or one for each of `ranks`; empty: that of run.grid
  bool planned = false;     ///< the planner's grid for every team, by the times in `tables`
  std::string tables;       ///< file; empty: this machine's
  int mini_batch = 0;       ///< strong: over all ranks; 0: as the largest team makes it of the configured batch
  OutputOption csv, json, plot;
};

/// One number of ranks, and how they share the samples out.
struct ScalingTeam {
  int ranks = 1;
  Grid grid{};    ///< ranks that share a sample are a group
  int batch = 1;  ///< batch of a group
  int groups() const { return ranks / grid.ranks(); }
};

/// One team's median epoch. Seconds are means over its ranks.
struct ScalingPoint {
  int ranks = 1, batch = 1;  ///< batch of a group
  std::string grid = "1";    ///< blocks of a sample along its axes: "2x1x1"
  double read = 0;           ///< reading the files, once
  double epoch = 0, io = 0, compute = 0, waited = 0, hidden = 0;
  double samples_per_second = 0;
  double speedup = 1, efficiency = 1, ideal = 0;  ///< against the smallest team, with its work shared out evenly
};

/// The teams to measure, in increasing order: those wanted, or powers of two of groups of so many ranks, and the most
/// that `world` has. ConfigError for a number outside 1 to `world`.
std::vector<int> scaling_teams(const std::vector<int>& wanted, int world, int group = 1);

/// The batch of a group. Strong: the mini-batch of the largest team, shared out among the groups. ConfigError when they
/// cannot share it evenly.
int scaling_batch(const ScalingSettings& settings, int configured, int groups, int most_groups);

/// The teams with their grids and batches, in increasing order. `last` is the phase that is measured. ConfigError where
/// grids, ranks and batches do not fit each other, and for weak scaling with several grids: it keeps the ranks of a
/// sample.
std::vector<ScalingTeam> scaling_plan(const ScalingSettings& settings, const Phase& last, int world);

/// "2,1,1" as blocks along the axes of samples. ConfigError for anything else.
Grid parse_grid(const std::string& text);

/// The last phase of the plan as a run of its own, of exactly so many epochs.
Config last_step_alone(const Config& config, int epochs);

/// Fills in speedup, efficiency and ideal seconds, relative to the first point.
void compare_with_first(std::vector<ScalingPoint>& points);

std::string scaling_table(const std::vector<ScalingPoint>& points);
std::string scaling_csv(const std::vector<ScalingPoint>& points);
std::string scaling_json(const std::vector<ScalingPoint>& points);  ///< {"points": [...]}

/// Measures the plan's final model at its resolution. Collective; the root prints and writes. ConfigError as above, and
/// when the files cannot be written.
void bench_scaling(const Config& config, ScalingSettings settings, Comm& world, std::ostream& out);

// `mrmf bench tables`: what the planner's predictions need to know of this machine.

struct TablesSettings {
  std::optional<Config> config;  ///< its networks; none: every preset at two sizes
  Shape sample;                  ///< shape of a sample of the configuration's data
  int ranks = 0;                 ///< grids of so many ranks are measured, too; 0: of this job's
  int threads = 1;               ///< threads of this rank
  int rounds = 3;                ///< all but reading is measured so often, one round after the other
  double seconds = 0.3;          ///< seconds of timed steps for every network and block, over all rounds
};

/// Tables of this machine and library, without any measurement.
CostTables no_tables(Backend& backend);

/// Measures with as many ranks as take part, all at once, as in training. Times are medians over the rounds, so one
/// slow round does no harm to them. How long ranks wait for each other is a mean. Collective; the root has the result.
/// Prints a line for each network, and how far the rounds differ. ConfigError for a device: tables are for the CPU.
CostTables measure_tables(const TablesSettings& settings, Backend& backend, Comm& world, std::ostream& out);

// Training steps with a clock around every unit, and tables made of several rounds of them.

/// The times of one unit of the model in all timed steps.
struct UnitTimes {
  std::vector<double> forward, backward;
};

/// Runs training steps as Model does, on made-up data. Of a grid, one block by itself: its messages bring nothing, and
/// nothing is summed over ranks.
class TimedSteps {
 public:
  TimedSteps(Backend& backend, const ModelSettings& settings, const OptimizerSettings& optimizer,
             const LossSettings& loss);

  void run(bool timed);
  /// Backward of a convolution or dense layer by itself: both passes, and the weights' alone. requires: a unit with an
  /// input other than the network's; run() before.
  struct Backward {
    double both = 0, weights = 0;
  };
  Backward backward_alone(std::size_t unit, int repeats);

  Model& model() { return model_state_.model; }
  std::vector<UnitTimes> units;
  std::vector<double> loss, update;

 private:
  StepContext step();

  Backend& backend_;
  ModelState model_state_;
  std::unique_ptr<Messages> silence_;   // messages that a grid would send
  std::unique_ptr<AllReduce> own_sum_;  // stands for a grid's sums
  Arena input_, target_;
  std::unique_ptr<LossOp> loss_op_;
  std::vector<std::int64_t> ids_;
  Shape target_shape_;
};

// One measurement out of several rounds, so that one slow round does not spoil the times of the planner's tables.

/// A network's step in one round.
struct MeasuredStep {
  std::string network;
  double seconds = 0;
  RankWaiting waiting{};
};

struct TableRound {
  TeamTables times;
  std::vector<MeasuredStep> steps;
};

/// How far the rounds differ: (most - least) / median of a network's step, forward and backward.
struct RoundSpread {
  double median = 0, most = 0;  ///< over the networks
  std::string worst;            ///< the network of `most`
};

/// requires: at least one round; all of the same networks, in the same order.
RoundSpread spread_of(const std::vector<TableRound>& rounds);
/// The median of every time, of two the lower one; of lines, that of the round which is the median at a middle amount.
/// Also the spread's median, and the mean of the waiting. requires: as spread_of().
TeamTables median_of(const std::vector<TableRound>& rounds);

}  // namespace mrmf
