// Predicts the seconds of an epoch and the memory of a rank, by what work costs on a machine, and searches the grid of
// ranks, the batches and the team sizes that a run goes fastest with.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/execution.hpp"
#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/system/host_info.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"

namespace mrmf {

// What the parts of a training step cost, in seconds on one rank: by times that were measured on a machine
// (cost_tables.cpp), or by a stated roofline of a GPU (layer_cost_and_gpu_roofline.cpp). And the work of a step that
// costs them, as operations (layer_cost_and_gpu_roofline.cpp).

inline constexpr double kFloatBytes = sizeof(float);  ///< bytes of a value

// What a rank computes in a training step, as cost models see it: the units of an execution on one block of a grid,
// each with its work, and what it exchanges with other ranks.

/// One unit of an execution: a layer, a fused run of layers, or a halo exchange. Amounts are those of one row.
struct Operation {
  std::string key;             ///< kinds and settings, without positions: "conv 16->32 3x3x3+batch_norm 32"
  std::string layer, last;     ///< names of its first and last layer, for people
  Shape in, out;               ///< on this block
  Shape whole;                 ///< `out` of whole samples; of a layer
  double flop = 0;             ///< forward; a multiply-add counts as two; convolution and dense only
  double elements = 0;         ///< elements of inputs and outputs
  Index parameters = 0;        ///< whatever the number of rows
  bool weighted = false;       ///< its backward has two passes, for data and for weights
  bool data_gradient = true;   ///< false: its input is the network's
  bool gives_no_work = false;  ///< a flatten
  int sums = 0;                ///< sums of statistics, or of products, over ranks, in forward and again in backward
  std::vector<double> sent;    ///< a halo exchange: floats to each other rank that gets some

  bool halo_exchange() const { return layer.empty(); }
  /// What its time grows with among operations of one key.
  double work() const { return flop > 0 ? flop : elements; }
};

/// A block's share of a step.
struct BlockWork {
  std::vector<Operation> operations;
  Index input = 0, output = 0;  ///< floats of a row
};

/// The operations of the rank with this block. `settings` are those that `execution` was planned with.
BlockWork block_work(const Network& network, const Execution& execution, const ModelSettings& settings);

/// Blocks that stand for all of a grid: of those with the same shapes and neighbours, the first.
std::vector<int> different_blocks(const Partition& partition, const Network& network);

/// How a grid places a network's layers, as names.
struct GridLayers {
  std::vector<std::string> cut, exchanged, gathered, whole;  ///< exchanged: of the cut ones, those that need messages
};
GridLayers grid_layers(const Partition& partition, const Network& network);
/// Names of layers for a line of text: at most four, else the first two and the last one, and how many.
std::string names_text(const std::vector<std::string>& names);

/// Seconds of an operation's three passes.
struct PassSeconds {
  double forward = 0, data = 0, weights = 0;
  double backward() const { return data + weights; }
};

/// Where a time comes from.
enum class CostSource { measured, between, fitted };

/// Ranks as they lie on the machine.
struct RankLayout {
  int ranks = 1;
  int per_node = 1;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  /// One line, for people.
  virtual std::string description() const = 0;
  /// What is taken for granted, one line each.
  virtual std::vector<std::string> assumptions() const = 0;

  /// `rows` need not be whole: steps of an epoch differ by one row.
  virtual PassSeconds operation(const Operation& operation, double rows) const = 0;
  /// Where the cost of the last pass of an operation like this comes from.
  virtual CostSource source(const Operation& operation, double rows) const = 0;
  /// The loss and its gradient, for so many numbers of output.
  virtual double loss(double outputs) const = 0;
  /// Messages of these lengths in bytes to as many other ranks, sent and received at once, between ranks of a group of
  /// so many neighbours.
  virtual double messages(const std::vector<double>& bytes, const RankLayout& group) const = 0;
  /// The sum of gradients over ranks, as far as it is waited for; backward takes so long.
  virtual double gradient_sum(double bytes, double backward, const RankLayout& ranks) const = 0;
  /// The wait for the sum where each rank updates the piece of the parameters that it adds
  /// (src/training/data_and_spatial_parallel.hpp); the update itself is not in it.
  virtual double update_sum(double bytes, double backward, const RankLayout& ranks) const {
    return gradient_sum(bytes, backward, ranks);
  }
  /// What a rank computes for a sum of so many values that travel as codes: it makes, adds and reads them.
  virtual double coding(Communication scheme, double values) const {
    (void)scheme, (void)values;
    return 0;
  }
  /// A sum of a few numbers over the ranks.
  virtual double small_sum(const RankLayout& ranks) const = 0;
  /// What ranks that compute at the same time wait for the slowest of them, as a part of what they compute.
  /// within_step: they also meet inside of a step, for messages or for statistics of batch norms. Then as if after
  /// every unit.
  virtual double waiting(bool within_step, const RankLayout& ranks) const {
    (void)within_step, (void)ranks;
    return 0;
  }
  virtual double update(OptimizerKind kind, Index parameters) const = 0;
  /// Bringing a batch of so many bytes to where the step finds it.
  virtual double load(double bytes) const = 0;
  /// Reading so many bytes from files, by all ranks of a node together; 0 where that is not known.
  virtual double read(double bytes) const = 0;
  /// Seconds in which so many bytes of a batch come from the host's memory, beside the step; 0: it computes there
  /// itself.
  virtual double feed(double bytes) const {
    (void)bytes;
    return 0;
  }
  /// Bytes of an activation's element, and of memory a rank may use (0: unknown).
  virtual double element_bytes() const { return 4; }
  virtual double memory() const { return 0; }
  /// How much longer computation takes because ranks share cores.
  virtual double crowding(const RankLayout& ranks) const {
    (void)ranks;
    return 1;
  }
};

// Times that `mrmf bench tables` measured on a machine, in a file, and what follows from them for other sizes;
// and the fits that it follows by.

// Fits of times by sums of terms that grow with the work, such as latency + bytes / bandwidth.

/// A measured time and what each term counts of it.
struct TimedWork {
  std::vector<double> terms;
  double seconds = 0;
};

/// Coefficients of the terms, none below zero, for the least sum of squared relative errors. Empty without
/// measurements. requires: at most eight terms, the same number everywhere; seconds above zero.
std::vector<double> fit_terms(const std::vector<TimedWork>& measured);

/// One operation at one size, measured in a training step. Amounts are those of all rows.
struct OperationTime {
  std::string key, shape;  ///< shape: of the input, for people
  double rows = 1;
  double work = 0, flop = 0, bytes = 0;  ///< Operation::work() etc.
  double forward = 0;
  std::optional<double> data{}, weights{};  ///< backward; none: not measured
};

struct UpdateTime {
  std::string optimizer;
  double parameters = 0, seconds = 0;
};

/// seconds = latency + amount * per_unit.
struct Line {
  double latency = 0, per_unit = 0;
  double at(double amount) const { return latency + amount * per_unit; }
  bool operator==(const Line&) const = default;
};
/// Through measured pairs of amount and seconds, by least squares; neither number below zero.
Line fit_line(const std::vector<std::pair<double, double>>& measured);

/// How much longer the slowest rank takes than all do on the mean, when they compute the same at the same time: 0.1 is
/// a tenth. Over whole steps, and where ranks wait for each other after every unit.
struct RankWaiting {
  double step = 0, unit = 0;
};

/// What ranks measured that worked at the same time.
struct TeamTables {
  int ranks = 1, threads = 1;  ///< on the node; of each rank
  std::vector<OperationTime> operations;
  std::vector<UpdateTime> updates;
  Line loss;                    ///< by numbers of output
  Line load;                    ///< by bytes
  std::optional<Line> message;  ///< by bytes; none: a rank alone has nobody to write to
  std::optional<Line> sum;      ///< a sum of gradients, by bytes
  /// A sum of gradients with the updates in between, without these; none: as `sum`.
  std::optional<Line> update_sum;
  std::map<std::string, double> codings;  ///< by training.communication: seconds for a value of a sum
  double small_sum = 0;
  RankWaiting waiting{};  ///< mean over networks and rounds
  /// How far rounds of measurement differ: (most - least) / median of a network's step, median over the networks.
  double spread = 0;
};

struct CostTables {
  Machine machine;
  std::string library;  ///< Backend::description(); with kDefaultKernels behind it where none were timed
  std::string version;  ///< version of the program
  double read = 0;      ///< bytes per second from a file; 0: not measured
  std::vector<TeamTables> teams;

  /// Takes over what `newer` has. Of a team with as many ranks and threads, operations of other sizes stay, and then
  /// the larger spread and waiting of both.
  void merge(const CostTables& newer);
};

/// Stands in CostTables::library: times of one kind of kernels say nothing about the other's.
inline constexpr std::string_view kDefaultKernels = ", default kernels";

std::string to_json(const CostTables& tables);
/// DataError, with the file's name, for anything else than such a file.
CostTables read_tables(const std::string& file);
/// tables-HOST.json in $XDG_CACHE_HOME/mrmf or ~/.cache/mrmf.
std::string tables_file();

/// A cost model of the measured team that is most like `wanted`. ConfigError for tables without a team. Keeps a copy.
std::unique_ptr<CostModel> table_costs(const CostTables& tables, const RankLayout& wanted);

// Costs on named GPUs by a stated roofline: each pass of each layer takes the larger of its bytes over the memory's
// bandwidth and its operations over the tensor cores' rate, and a launch. Nothing of it is measured by this program.

/// A GPU and the links between as many of them as a run may have. Data sheets' numbers, times the stated shares.
struct GpuMachine {
  std::string name, title;
  double memory = 0;                                      ///< bytes
  double bytes_per_second = 0;                            ///< data sheet
  double flops_bf16 = 0, flops_tf32 = 0, flops_fp32 = 0;  ///< data sheet, dense; bf16: fp16 on a V100
  int per_node = 8;
  double node_link = 0,
         outer_link = 0;  ///< bytes per second that a GPU sends within its node, and beyond it when all do
  double host_link = 0;   ///< bytes per second from the host's memory to a GPU
};

const std::vector<GpuMachine>& gpu_machines();

/// Shares of the data sheets' numbers that are taken as reached, and times of small things.
struct RooflineShares {
  double memory = 0.85;
  double tensor = 0.5;  ///< tensor cores: of convolutions and dense layers with 64 output channels and more
  double cores = 0.7;   ///< other cores (fp32; a V100's tf32): with 32 output channels and more
  double link = 0.75;
  double launch = 2.5e-6;  ///< seconds of a kernel in a captured step
  /// Seconds of the messages of a halo exchange, which go at once, or of a sum's round: within a node and between
  /// nodes.
  double node_latency = 10e-6, outer_latency = 20e-6;
};

/// `name` of gpu_machines(). ConfigError, with the names, for another.
std::unique_ptr<CostModel> roofline_costs(const std::string& name, Precision precision,
                                          const RooflineShares& shares = {});

// Seconds of an epoch and memory of a rank, for one phase of a plan on so many ranks with one grid. The slowest block
// counts.

/// Where an epoch's seconds go.
struct EpochSeconds {
  double compute = 0;   ///< forward, loss and backward
  double waiting = 0;   ///< for the slowest rank, in training and validation
  double messages = 0;  ///< between the ranks that share samples
  double sums = 0;      ///< over ranks: gradients and statistics
  double update = 0;    ///< optimizer
  double load = 0;      ///< batches from memory or, streamed, as far as files are slower than the rest
  double validation = 0;
  double all() const { return compute + waiting + messages + sums + update + load + validation; }
};

/// What is trained, and on what.
struct Workload {
  NetworkSettings network;  ///< max_rows does not matter
  Grid grid{};
  RankLayout ranks{};
  Index batch = 1;                    ///< batch of a sample group
  double samples = 0, validated = 0;  ///< training and validation samples of an epoch, over all ranks
  double sample_bytes = 0;            ///< bytes of a whole sample in its file, at full resolution; 0: unknown
  bool streamed = false;              ///< samples are read again in every epoch
  bool reproducible_sums = false;     ///< sums do not depend on the order of ranks (Comm::sum_reproducibly)
  TrainingConfig training{};

  int sample_groups() const { return ranks.ranks / grid.ranks(); }
};

/// What a unit of the slowest block costs in a training step: a layer, or several fused into one, with the exchange in
/// front of it.
struct LayerCost {
  std::string first, last;  ///< names of its layers; both empty: what the last layer's output is exchanged for
  Shape block, whole;       ///< its output on this block, and of whole samples
  double compute = 0;       ///< seconds, with the copies of a halo exchange
  double message_seconds = 0;
  int messages = 0;  ///< that this rank sends, forward and backward
  double sent = 0;   ///< bytes of them
  double seconds() const { return compute + message_seconds; }
};

struct Prediction {
  EpochSeconds epoch;
  Index steps = 0;
  RunMemory memory;  ///< memory of the rank that needs most; without the program and its libraries' scratch
  GridLayers layers;
  std::vector<LayerCost> costs;      ///< costs of the slowest block, in the order of execution
  int slowest = 0;                   ///< block
  double sent = 0;                   ///< bytes that the slowest block sends in a step's forward and backward
  double measured = 0, between = 0;  ///< shares of the computed time that come from exact or neighbouring sizes
};

/// ConfigError where the grid does not fit the network (Partition).
Prediction predict(Backend& backend, const CostModel& costs, const Workload& work);

// The choice of a grid for every phase of a plan: all grids whose groups fill the ranks are predicted, and the fastest
// that fits is taken. A grid cuts all of a network: where its layers are gathered follows from it
// (layers/partition.hpp). And what was found as keys of a configuration.

/// All grids of at most `most` blocks that divide `ranks`, along the last `axes` axes. Few blocks come first, and of as
/// many those that cut earlier axes, whose positions at a cut lie together. So these win where predictions are equal.
std::vector<Grid> grids_of(int ranks, int axes, int most = 512);

struct SearchSettings {
  RankLayout ranks{};
  double memory = 0;     ///< bytes that a rank may use; 0: any
  Index mini_batch = 0;  ///< samples of a step over all ranks, of the plan's last phase; 0: as configured
  Shape sample;          ///< at full resolution
  double samples = 0, validated = 0, sample_bytes = 0;
  bool streamed = false;
  bool on_cpu = true;  ///< where training would run: some rules hold there alone
};

struct GridChoice {
  Grid grid;
  Index batch = 1;  ///< training.batch with it
  Prediction prediction;
  double seconds() const { return prediction.epoch.all(); }
};

/// A phase's grids, the fastest first, and why others are not among them: one line for each reason.
struct PhaseChoices {
  Phase phase;
  Index mini_batch = 1;  ///< over all ranks, with every grid
  std::vector<GridChoice> fitting;
  std::vector<std::string> refused;
};

/// A phase of the plan as predict() takes it: with its configured grid and batch, on all ranks.
Workload workload_of(const Config& config, const Plan& plan, const SearchSettings& settings, const Phase& phase);

/// ConfigError where so many ranks, or sample groups, cannot take this batch of a phase, as training would refuse it.
void require_batch(const Config& config, const Plan& plan, const SearchSettings& settings, Phase phase, Index batch,
                   int groups);
/// "a rank would need ... and may use ..."; empty where it has the memory.
std::string memory_refusal(const Prediction& prediction, const SearchSettings& settings, const CostModel& costs);

/// One for each phase of the plan. The mini-batch over all ranks is the configured one, whatever the grid. Only what
/// training accepts is among them. ConfigError, with the reasons, where no grid fits a phase, or no ranks train these
/// settings.
std::vector<PhaseChoices> search_grids(Backend& backend, const CostModel& costs, const Config& config, const Plan& plan,
                                       const SearchSettings& settings);

/// The grid that fits all phases and takes the fewest seconds of their epochs together; none if there is none.
struct OneGrid {
  Grid grid;
  double seconds = 0;
};
std::vector<OneGrid> one_grid(const std::vector<PhaseChoices>& phases);

/// A grid for each of the plan's resolutions, coarse to fine.
struct GridPerResolution {
  std::vector<Grid> grids;
  double seconds = 0;  ///< seconds of all epochs, and of reading
  double reading = 0;  ///< reading the data anew wherever the grid changes
};
/// Those that take the fewest seconds together: the shortest path over resolutions and grids, where a change of grid
/// costs `reading` seconds. None where no grid fits all phases of some resolution.
std::optional<GridPerResolution> grid_per_resolution(const Plan& plan, const std::vector<PhaseChoices>& phases,
                                                     double reading);

// What a search found, as keys of a configuration.

struct ProposedRun {
  std::vector<Grid> grids;       ///< one for all resolutions, or one for each of them
  std::vector<Index> batches;    ///< batches of the plan's phases: of a rank, or of a sample group
  std::vector<int> team_shares;  ///< ranks of concurrent teams, dense and coarse; empty: as configured
  int ranks = 0;                 ///< that it is for
};

/// The batches with these grids, one for all phases or one for each of the plan's resolutions.
ProposedRun proposed_run(const Plan& plan, const std::vector<PhaseChoices>& phases, const std::vector<Grid>& grids);

/// The configuration with run.grid, method.team_shares, run.ranks where it is set, and the batches: training.batch is
/// that of the last phase, and roles or stages whose phases have another one name it.
Config proposed_config(const Config& config, const ProposedRun& found);

/// The keys that it sets, "run.grid = [2]". Samples have so many axes.
std::vector<std::string> proposed_keys(const Config& planned, const ProposedRun& found, int axes);

// The sizes of the two teams that train a stage's coarse and dense model at once (method.teams = "concurrent"), by
// prediction: every split of the ranks is tried.

/// What the teams of one stage take for all epochs of their models.
struct StageTeams {
  int stage = 1;
  double dense = 0, coarse = 0;  ///< seconds
  double seconds() const { return dense > coarse ? dense : coarse; }
};

struct TeamChoice {
  int dense = 1, coarse = 1;  ///< ranks
  std::vector<StageTeams> stages;
  double seconds() const;  ///< seconds of all stages: each takes as long as its slower team
};

/// All splits whose teams have a sample and the memory for each rank, the fastest first. Empty for a plan without
/// concurrent teams. `phases` are those that search_grids() found for the plan: a rank's batch is that of a phase
/// without a grid. ConfigError where no split fits, or for less than two ranks.
std::vector<TeamChoice> search_team_sizes(Backend& backend, const CostModel& costs, const Config& config,
                                          const Plan& plan, const SearchSettings& settings,
                                          const std::vector<PhaseChoices>& phases);

}  // namespace mrmf
