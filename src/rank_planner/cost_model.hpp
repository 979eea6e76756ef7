// What the parts of a training step cost, in seconds on one rank: by times that were measured on a machine
// (cost_tables.cpp), or by a stated roofline of a GPU (gpu_roofline.cpp). And the work of a step that costs them, as
// operations (layer_operations.cpp).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layers/execution.hpp"
#include "src/config/config.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {

inline constexpr double kFloatBytes = sizeof(float);  ///< of a value

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
  std::string library;  ///< Backend::description()
  std::string version;  ///< version of the program
  double read = 0;      ///< bytes per second from a file; 0: not measured
  std::vector<TeamTables> teams;

  /// Takes over what `newer` has. Of a team with as many ranks and threads, operations of other sizes stay, and then
  /// the larger spread and waiting of both.
  void merge(const CostTables& newer);
};

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

}  // namespace mrmf
