// Everything that a user sets, as structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/operations.hpp"
#include "layers/parts.hpp"
#include "layers/spec.hpp"
#include "src/config/metric.hpp"
#include "src/config/presets.hpp"

namespace mrmf {

// Settings of a tournament: several trainers, each with a team of ranks and a part of the training rows, that play
// against each other (docs/guide/tournaments.md).

template <class E>
std::vector<std::string> words_of();

/// pairwise: each trainer meets one other, and keeps the better of the two models. truncation: the models of the best
/// few go to all others. none: trainers do not meet.
enum class Selection { pairwise, truncation, none };
template <>
std::vector<std::string> words_of<Selection>();
std::string to_string(Selection selection);

/// What a trainer that takes another's model changes at random.
enum class Mutated { learning_rate, weight_decay, dropout };
template <>
std::vector<std::string> words_of<Mutated>();

/// When an error ends one trainer: the run ends, too, or the others play on.
enum class TrainerError { end, drop };

/// Which training rows a trainer has: one of as many equal parts as there are trainers, or all of them.
enum class TrainerRows { part, all };

struct TournamentConfig {
  int trainers = 1;          ///< 1: no tournament
  std::vector<int> share{};  ///< shares of the ranks, by trainer; empty: equal
  int rounds = 0;            ///< meetings; 0: as many as the epochs have room for
  int steps = 0;             ///< steps of the plan's last phase from one meeting to the next; 0: of an epoch
  Selection selection = Selection::pairwise;
  int best = 1;          ///< truncation: so many trainers feed the others
  std::string metric{};  ///< "loss", or a metric's name, which is then training.metric, too; empty: training.monitor's
  std::vector<std::string> exchange{};  ///< layers that travel, "conv*" for all that begin so; empty: the whole model
  double held_out = 0.1;                ///< share of a trainer's training rows that scores models at meetings
  TrainerRows rows = TrainerRows::part;
  std::vector<Mutated> mutate{};
  TrainerError on_error = TrainerError::end;
  std::vector<std::vector<std::string>> settings{};  ///< by trainer, as --set takes them; empty: all are alike
  bool operator==(const TournamentConfig&) const = default;
};

// The configuration: one TOML file, one struct, one table of keys. Unknown keys are errors with file:line and the
// nearest key. `--set section.key=value` overrides any key. The effective configuration is written to the run folder.

/// The words of an option in files and on command lines, in the order of its enumerators. An enum has none here if only
/// its key knows its words.
template <class E>
std::vector<std::string> words_of();

template <>
std::vector<std::string> words_of<MissingRule>();

template <>
std::vector<std::string> words_of<NotFiniteRule>();

template <>
std::vector<std::string> words_of<PackingRule>();

enum class OptimizerKind { adam, adamw, sgd, lion };
template <>
std::vector<std::string> words_of<OptimizerKind>();
std::string to_string(OptimizerKind kind);

template <>
std::vector<std::string> words_of<NormKind>();

enum class RateRule { constant, cosine, linear, piecewise, plateau };
template <>
std::vector<std::string> words_of<RateRule>();
std::string to_string(RateRule rule);

/// How the values that ranks add travel (docs/guide/communication.md). The last four are of Lion's directions alone.
enum class Communication { fp32, bf16, int8, levels8, levels8_l0, levels4, vote, automatic };
template <>
std::vector<std::string> words_of<Communication>();
std::string to_string(Communication scheme);

/// Whose Lion's momenta are. `shared`: gradients are added, so they are the same on all ranks. Else each rank has one
/// of its own gradients, and directions are added: they stay apart, or are averaged every few steps, or ever more
/// rarely.
enum class MomentaRule { shared, local, every, spaced };
template <>
std::vector<std::string> words_of<MomentaRule>();

struct MomentaSettings {
  MomentaRule rule = MomentaRule::shared;
  int every = 100;   ///< steps from one average to the next
  int spacing = 16;  ///< spaced: 2^(j / spacing) steps from the j-th average to the next
  /// Names of the parameters whose momenta are averaged, with * for any characters: "dense*". Empty: all.
  std::vector<std::string> tensors{};
  /// Whether they are averaged at some steps.
  bool averaged() const { return rule == MomentaRule::every || rule == MomentaRule::spaced; }
  bool operator==(const MomentaSettings&) const = default;
};

/// How the gradients of a phase are added over ranks.
struct SumSettings {
  Communication communication = Communication::fp32;
  bool error_feedback = false;  ///< what a sum's codes leave out is added to the next one's values
  bool full_levels = false;     ///< each worker's levels fill a byte, or half of one, in place of their sum
  MomentaSettings momenta{};
  /// Whether the directions of the ranks' own momenta are added, in place of gradients.
  bool adds_directions() const { return momenta.rule != MomentaRule::shared; }
  /// Whether it is gradients that are added, in float32.
  bool adds_plainly() const { return communication == Communication::fp32 && !adds_directions(); }
  bool operator==(const SumSettings&) const = default;
};
/// These settings with another scheme of communication. Momenta become each rank's own where the new scheme needs that,
/// and shared where only the old one did. Errors are no longer fed back where the new scheme leaves nothing out.
SumSettings in_another_way(const SumSettings& sums, Communication scheme);

/// Lion's beta2 where a configuration gives none: its momentum is ten times as short-lived as Adam's mean square.
constexpr double kLionBeta2 = 0.99;

struct OptimizerSettings {
  OptimizerKind name = OptimizerKind::adam;
  double learning_rate = 1e-3;
  RateRule rule = RateRule::constant;
  double warmup = 0;                ///< epochs of linear warm-up: rate * (epoch + 1) / warmup, as the paper's code does
  std::vector<double> boundaries;   ///< piecewise: epochs at which the rate is multiplied by `factor`
  double factor = 0.1;              ///< piecewise and plateau
  int patience = 8, cooldown = 2;   ///< plateau: epochs
  double plateau_threshold = 1e-4;  ///< plateau: relative improvement that counts
  double momentum = 0.9;            ///< sgd
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< a configuration that gives Lion no beta2 has kLionBeta2
  double weight_decay = 0;                            ///< sgd, adam: L2 in the gradient; adamw, lion: decoupled
  std::optional<int> tuned_batch;  ///< rows of a step, over all ranks, for which the rate was tuned; empty: not known
  bool operator==(const OptimizerSettings&) const = default;
};

/// What tells whether one epoch's model is better than another's: the validation loss, or training.metric.
enum class Monitor { loss, metric };

/// Ends a phase when validation has not improved for so many epochs. 0: it never does.
struct EarlyStopping {
  int patience = 0;
  double least_change = 0;  ///< relative to the best value so far; a smaller one is no improvement
  bool operator==(const EarlyStopping&) const = default;
};

/// When a phase of the plan ends: whichever comes first. `epochs` is always the upper bound.
struct StopSettings {
  int epochs = 100;
  std::optional<double> threshold;  ///< paper 3.2: training-loss reduction per epoch that still counts
  int patience = 3;                 ///< paper 3.2: consecutive epochs below it
  std::optional<double> target;     ///< validation loss; method.target sets it for the plan's last phase
  std::optional<MetricTarget>
      metric_target;             ///< the value that a metric must reach: a role's, or method.target's in the last phase
  EarlyStopping early_stopping;  ///< by `monitor`
  Monitor monitor = Monitor::loss;  ///< also tells which epoch was the best
  int probe_epochs = 0;             ///< epochs from one probe to the next (plan/stop_rule.hpp); 0: no probes
  /// Whether the phase may end before its epochs are done.
  bool early() const { return ends_by_loss() || probe_epochs > 0; }
  /// Whether a loss or a metric of its own epochs may end it early; probes are no epochs of its own.
  bool ends_by_loss() const { return threshold || target || metric_target || early_stopping.patience > 0; }
};

/// Settings of one role (coarse, dense, finetune); empty means "as under [training]".
struct RoleSettings {
  std::optional<int> batch;
  std::optional<double> learning_rate;
  std::optional<RateRule> rule;
  std::optional<int> epochs;
  std::optional<double> threshold;
  std::optional<int> patience;
  std::optional<double> metric;  ///< training.metric of the validation data that ends the phase
  std::optional<Communication> communication;
  bool operator==(const RoleSettings&) const = default;
};

/// Settings for one fusion stage; `stage` entries of the configuration override the roles' own.
struct StageOverride {
  RoleSettings coarse, dense;
  bool operator==(const StageOverride&) const = default;
};

/// `automatic` is chosen for the data at hand (src/method/auto_schedule_and_tune.hpp) before anything is planned.
enum class MethodName { baseline, mrt, mrmf, progressive, automatic };
template <>
std::vector<std::string> words_of<MethodName>();
std::string to_string(MethodName name);

enum class TopRule { dense, fresh, interpolated, stem };
template <>
std::vector<std::string> words_of<TopRule>();
std::string to_string(TopRule top);
enum class BottomRule { coarse, fresh };
/// Which of a coarse model's epochs a fusion transfers.
enum class TransferEpoch { last, best };
enum class MomentTransfer { reset, carry };
/// When a coarse phase ends: after its epochs (or by its stop rule), or also when it stops paying.
enum class SwitchRule { epochs, slope };
/// What "auto" does about detail that coarse data lack (src/inspection/detail_measurement.hpp).
enum class DetailRule { measure, ignore };
enum class RateScope { stage, run };
enum class ShuffleOver { shard, all };
enum class LoadRule { automatic, memory, stream };
enum class TeamMode { sequential, concurrent };

/// How training and validation samples come out of the same files. given: by data.train and data.validation.
enum class SplitBy { given, rows, files, column, arrays, groups, folds };

/// A split that the program makes (io/rows/split.hpp).
struct SplitSettings {
  SplitBy by = SplitBy::given;
  double validation = 0.2;  ///< rows, files, groups: the share that validates
  double test = 0;          ///< rows, files, groups, folds: the share that tests
  /// column: a data set with a number or a word per row; groups: what rows belong to; folds: the same, or the fold
  std::string column;
  /// column: values whose rows train or validate, as texts (io/rows/split_column_and_groups.hpp: roles_of); empty: rows
  /// of 0 train, those of the one other number validate. arrays: names of the arrays that list or mark these rows.
  std::vector<std::string> train_roles, validation_roles;
  std::vector<std::string> test_roles;  ///< column, folds: values whose rows test; arrays: as above
  int folds = 0;                        ///< folds: so many are made; 0: the column's values are folds
  int fold = 0;                         ///< folds: the one that validates, from 0
  std::optional<bool> stratify;         ///< shares of every class; unset: of groups and folds
  std::uint64_t seed = 1;
  bool operator==(const SplitSettings&) const = default;
};

/// Samples or labels in other units: (f(x) - mean) / std per channel, with f(x) = log(1 + x) or x. Averaging to lower
/// resolutions comes first.
struct Normalisation {
  bool log1p = false;
  bool mean_std = false;          ///< with `mean` empty: both are measured over the training samples
  std::vector<double> mean, std;  ///< one number for all channels, or one per channel
  bool operator==(const Normalisation&) const = default;
};

/// Training samples changed at random, by a function of seed, epoch and sample. Axes count from 0, the first spatial
/// one.
struct Augmentation {
  std::vector<int> flip;     ///< axes that may be mirrored
  std::vector<int> turn;     ///< axes that may change places: turns by right angles in their planes
  std::vector<Index> shift;  ///< per axis: most positions of a periodic shift either way
  double noise = 0;          ///< most deviation of normal noise that is added, in the network's units
  double intensity = 0;      ///< most change: values are times 1 +- so much, and plus or minus so much, in those units
  double zoom = 0;    ///< most change of size: positions are apart by 1 / (1 + zoom) to 1 + zoom of what they were
  double rotate = 0;  ///< most degrees of a turn in each plane of axes
  bool any() const { return moves() || noise > 0 || intensity > 0; }
  /// Whether positions change, and labels' with them.
  bool moves() const { return !flip.empty() || !turn.empty() || !shift.empty() || resamples(); }
  /// Whether values are taken between positions.
  bool resamples() const { return zoom > 0 || rotate > 0; }
  bool operator==(const Augmentation&) const = default;
};

/// Channels that are components of vectors, along the first axis, the second, and so on; several vectors follow each
/// other. Flips and turns of axes (data.augment) turn them, too.
struct VectorChannels {
  std::vector<int> samples, labels;
  bool operator==(const VectorChannels&) const = default;
};

/// Which training samples an epoch takes: each once, or as many draws so that classes are equally frequent.
enum class Sampling { all, balanced };

/// What classes and outputs are called, in their order; empty: their numbers.
struct Names {
  std::vector<std::string> classes, labels;
  std::vector<std::string> stored{};  ///< what files call the numbers of labels (LabelNames::texts())
  bool operator==(const Names&) const = default;
};

/// Units of the arrays of samples and of labels, in the order of their names; empty: unresolved, or nothing says them.
struct Units {
  std::vector<std::string> samples, labels;
  bool operator==(const Units&) const = default;
};

/// What to do where the same rows are named twice, or train and validate.
enum class DuplicateRule { refuse, allow };
template <>
std::vector<std::string> words_of<DuplicateRule>();

struct DataConfig {
  DatasetSpec train, validation;  ///< one layout; validation.files default to train.files
  DatasetSpec test;               ///< never read in training; samples empty: there is none
  SplitSettings split;
  Normalisation normalise_samples, normalise_labels;
  std::vector<double> fill;  ///< what the network sees of missing numbers: one, or one per channel; empty: unresolved
  Augmentation augment;
  VectorChannels vectors;
  PatchSettings patch;  ///< boxes that training takes of samples, and windows over whole ones
  Names names;
  Units units;
  Sampling sampling = Sampling::all;
  int shards = 0;  ///< 0: one per rank
  bool shuffle = true;
  ShuffleOver shuffle_over = ShuffleOver::shard;
  LoadRule load = LoadRule::automatic;
  std::optional<double> memory;  ///< GB (1e9 bytes) per node for samples; empty: half of its memory
  Averaging averaging = Averaging::load;
  CoarseLabels coarse_labels = CoarseLabels::shares;  ///< labels of averaged classes with positions
  DuplicateRule duplicates = DuplicateRule::refuse;
  std::optional<int> channels;  ///< required size of a sample's last axis: a check that changes no result
  bool operator==(const DataConfig&) const = default;
};

struct ModelConfig {
  std::string preset;             ///< a name of preset_list(); empty: `layers`
  PresetSizes sizes;              ///< sizes of the preset
  std::vector<LayerSpec> layers;  ///< filled from the preset if one is named
  std::string start;              ///< a run's folder or a model file whose parameters training begins with
  BottomSettings bottom;          ///< which layers a fusion transfers
  bool operator==(const ModelConfig&) const = default;
};

/// A part of a network: its layers, and what its optimizer has of its own; empty: as training.optimizer.
struct PartConfig {
  std::string name;
  std::vector<std::string> layers;  ///< "encoder*" for all that begin with encoder
  std::optional<OptimizerKind> optimizer;
  std::optional<double> learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
  OptimizerSettings settings(const OptimizerSettings& common) const;
  bool operator==(const PartConfig&) const = default;
};

/// What a network of several parts trains for (layers/parts.hpp).
struct PartsConfig {
  std::vector<LossTerm> terms;
  std::vector<PartConfig> parts;
  std::vector<Turn> turns;
  PartSettings network() const;
  bool operator==(const PartsConfig&) const = default;
};

struct TrainingConfig {
  OptimizerSettings optimizer;
  PartsConfig parts;
  LossSettings loss;              ///< with the weights of classes
  bool balanced_weights = false;  ///< class_weights = "balanced": from the training labels, before training
  std::optional<int> classes;     ///< labels are 0 to classes - 1; empty: as many as the network has output channels
  std::optional<int> ignore;      ///< a label that says that there is none
  /// Labels that stand for class 0, 1, ...: numbers as texts, or words; empty: the classes' numbers.
  std::vector<std::string> class_values;
  std::optional<Metric> metric;  ///< measured after every epoch; empty: the task's own (src/training/metrics.hpp)
  std::string metric_class;  ///< the name of the class or output that `metric` is of, until names are known; then empty
  Monitor monitor = Monitor::loss;
  std::optional<Metric> monitored;  ///< what `monitor` has named, until the configuration is complete: then `metric`
  EarlyStopping early_stopping;
  double clip_norm = 0;  ///< largest L2 norm of all gradients together; 0: any
  SumSettings sums;
  bool update_in_place = false;  ///< untied weights are updated where their gradient is computed, which nobody keeps
  bool keep_best = true;         ///< keep the best epoch's model beside the last one's
  int accumulate = 1;            ///< micro-batches of a step, computed one after the other
  int batch = 512;               ///< per rank
  std::uint64_t seed = 1;
  int epochs = 100;               ///< upper bound of every phase unless its role sets another
  bool global_batch_norm = true;  ///< batch_norm = "global" | "local"
  int precise_batch_norm = 0;  ///< batches that recalibrate batch norms at a phase's end; 0: the running averages stay
  /// Rows of a batch of this size that are computed at once: of its largest micro-batch.
  int rows_at_once(int of_batch) const { return (of_batch + accumulate - 1) / accumulate; }
  bool operator==(const TrainingConfig&) const = default;
};

struct MethodConfig {
  MethodName name = MethodName::baseline;
  std::vector<Extent> resolutions{{1, 1, 1}};  ///< coarse to fine; right-aligned as Extents are
  int axes = 0;  ///< factors per resolution, as many as the data have axes; 0: only [1], which suits any data
  DetailRule detail = DetailRule::measure;
  BottomRule bottom = BottomRule::coarse;
  TopRule top = TopRule::dense;
  TransferEpoch transfer = TransferEpoch::last;
  MomentTransfer moments = MomentTransfer::reset;
  RateScope curve = RateScope::stage;
  SwitchRule switch_by = SwitchRule::epochs;
  int probe_epochs = 2;  ///< slope: epochs from one probe of the coarse model to the next
  double probe = 0.125;  ///< slope: share of the next phase's first epoch that a probe trains
  TeamMode teams = TeamMode::sequential;
  std::vector<int> team_shares;  ///< concurrent: shares of the ranks for the dense and the coarse team; empty: measured
  RoleSettings coarse, dense, finetune;
  std::vector<StageOverride> stages;
  std::optional<double> target;               ///< target = { validation_loss = ... }
  std::optional<MetricTarget> metric_target;  ///< target = { validation_dice = ... }
  bool operator==(const MethodConfig&) const = default;
};

/// When a run under way is saved, besides at the end of its phases and on a signal. 0: not by this count.
struct CheckpointConfig {
  int epochs = 0;       ///< every this many epochs
  double minutes = 10;  ///< at the first step after this many minutes
  bool operator==(const CheckpointConfig&) const = default;
};

enum class Device { automatic, cpu, cuda };
template <>
std::vector<std::string> words_of<Device>();

enum class CpuLibrary { onednn, reference };
template <>
std::vector<std::string> words_of<CpuLibrary>();

template <>
std::vector<std::string> words_of<Precision>();

struct RunConfig {
  std::string folder = "runs/mrmf";
  Device device = Device::automatic;
  CpuLibrary backend = CpuLibrary::onednn;
  int ranks = 0;    ///< the run's number of ranks; 0: as many as are started
  int threads = 0;  ///< per rank; 0: cores of the node / ranks on it
  /// Blocks of a sample along its axes, each on a rank of its own: of every resolution, or one for each of them.
  std::vector<Extent> grid{{1, 1, 1}};
  CheckpointConfig checkpoint;
  double check_ranks = 1;      ///< minutes between two comparisons of the ranks' parameters; 0: not by time
  bool deterministic = false;  ///< the same bits in every run: no sum depends on the order in which ranks add
  bool tensorboard = false;    ///< TensorBoard's event file beside epochs.jsonl
  double timeout = 300;        ///< seconds that a sum over ranks may take
  std::string plans;           ///< file of a GPU's plans, or of the CPU's kernels; empty: in the user's cache folder
  Precision precision = Precision::tf32;
  // GPU only:
  bool graphs = true;            ///< record a training step once and replay it
  bool resident = true;          ///< keep the samples in device memory where they fit
  bool ranks_share_gpu = false;  ///< let several ranks compute on one GPU: for tests
  bool operator==(const RunConfig&) const = default;
};

struct Config {
  DataConfig data;
  ModelConfig model;
  TrainingConfig training;
  MethodConfig method;
  TournamentConfig tournament;
  RunConfig run;
  /// A line for each word of an earlier version that a person wrote: a warning (config_warnings).
  std::vector<std::string> deprecation_warnings{};
  bool operator==(const Config&) const = default;
};

/// Who wrote a configuration: a person, or an earlier run into its folder. A run's file keeps its meaning, whatever is
/// required of people since.
enum class Writer { person, run };

/// Reads a file and applies `overrides` ("training.batch=256"; bare words count as texts). Throws ConfigError
/// "<file>:<line>: what is wrong; did you mean ...", or "--set <override>: ..." for an override's error. The result is
/// complete: preset layers are filled in, every layer has a name, pools have strides. Paths of data files stay as
/// written: they are relative to the current directory, not to the configuration.
Config read_config(const std::string& path, const std::vector<std::string>& overrides, Writer writer = Writer::person);
/// The same for text; `origin` replaces the file name in messages.
Config parse_config(const std::string& text, const std::string& origin, const std::vector<std::string>& overrides,
                    Writer writer = Writer::person);
/// The effective configuration as TOML. parse_config reads it back to an equal one.
std::string to_toml(const Config& config);
/// Every key with its type, default and meaning, for the documentation and `mrmf presets --keys`.
std::string describe_keys();

/// The number of epochs of the plan's last phase, and a change of it that leaves the phases before it as they are.
int last_epochs(const Config& config);
void set_last_epochs(Config& config, int epochs);

/// A key in which two configurations differ.
struct KeyDifference {
  std::string key, was, is;  ///< values as TOML; "" when a key is not set
};

/// Compares every key that decides what is computed. Leaves out those about where and how ([run], data.load,
/// data.memory), the check data.channels, and method.detail, whose answer is the rest of [method].
std::vector<KeyDifference> differences(const Config& was, const Config& is);

}  // namespace mrmf
