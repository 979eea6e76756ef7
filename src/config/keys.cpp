// The table of options, but for the two lists of tables (layer_keys.cpp). Also the keys whose values need their own
// reading.
#include "src/config/keys.hpp"

#include <array>
#include <sstream>
#include <utility>

#include "kernels/check.hpp"

#define MRMF_FIELD(member) \
  [](auto& s) -> auto& { return s.member; }

namespace mrmf {
namespace {

constexpr const char* kPadding =
    "\"valid\", \"same\", a number, or one to three entries, each a number or a pair [before, after] of at least 0";
constexpr const char* kSize =
    "an integer for every axis, or one to three per axis such as [3] or [3, 3, 3], each at least 1";

int numbers_of(const Value& value) {
  return value.kind == Value::Kind::list ? static_cast<int>(value.items.size()) : 1;
}

void read_size(const Value& value, const std::string& path, Extent& size) {
  const std::vector<Value> items = read_list(value);
  if (items.empty() || items.size() > size.size()) refuse(value, path, kSize);
  size = {1, 1, 1};
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool good = items[i].kind == Value::Kind::integer && items[i].integer >= 1 && items[i].integer <= (1 << 20);
    if (!good) refuse(value, path, kSize);
    size[size.size() - items.size() + i] = items[i].integer;
  }
}

// Reads the padding before and after one axis; false when it is invalid.
bool read_pads(const Value& value, Index& before, Index& after) {
  const std::vector<Value> numbers = read_list(value);
  if (numbers.size() > 2 || numbers.empty() || (numbers.size() == 1 && value.kind == Value::Kind::list)) return false;
  for (const Value& number : numbers) {
    const bool good = number.kind == Value::Kind::integer && number.integer >= 0 && number.integer <= (1 << 20);
    if (!good) return false;
  }
  before = numbers.front().integer;
  after = numbers.back().integer;
  return true;
}

void read_padding(LayerSpec& spec, const Value& value, const std::string& path) {
  spec.same_padding = spec.one_for_all.padding = false;
  spec.pad_before = spec.pad_after = {0, 0, 0};
  if (value.kind == Value::Kind::text) {
    if (value.text != "valid" && value.text != "same") refuse(value, path, kPadding);
    spec.same_padding = value.text == "same";
    return;
  }
  spec.one_for_all.padding = value.kind != Value::Kind::list;
  const std::vector<Value> entries = read_list(value);
  bool good = !entries.empty() && entries.size() <= spec.pad_before.size();
  for (std::size_t i = 0; good && i < entries.size(); ++i) {
    const std::size_t axis = spec.pad_before.size() - entries.size() + i;
    good = read_pads(entries[i], spec.pad_before[axis], spec.pad_after[axis]);
  }
  if (!good) refuse(value, path, kPadding);
}

std::string write_padding(const LayerSpec& spec) {
  if (spec.same_padding) return "\"same\"";
  if (spec.one_for_all.padding) return std::to_string(spec.pad_before.back());
  std::string text;
  for (std::size_t axis = 0; axis < spec.pad_before.size(); ++axis) {
    const Index before = spec.pad_before[axis], after = spec.pad_after[axis];
    if (text.empty() && before == 0 && after == 0) continue;  // leading axes need no entry
    text += (text.empty() ? "" : ", ") +
            (before == after ? std::to_string(before) : fmt::format("[{}, {}]", before, after));
  }
  return text.empty() ? "\"valid\"" : "[" + text + "]";
}

void read_resolutions(MethodConfig& method, const Value& value, const std::string& path) {
  method.resolutions.clear();
  method.axes = 0;
  for (const Value& item : read_list(value)) {
    method.resolutions.push_back(read_extent(item, path, at_least(1)));
    const int numbers = numbers_of(item);
    if (numbers == 1 && method.resolutions.back() == Extent{1, 1, 1}) continue;  // [1]: the data as it is
    if (method.axes == 0) method.axes = numbers;
    if (method.axes == numbers) continue;
    throw ConfigError(fmt::format("{}: {} has entries of {} and of {} numbers; give each as many as the data has axes",
                                  item.where, path, method.axes, numbers));
  }
}

constexpr const char* kMemory = "a number of GB above 0, or a text such as \"8 GB\", \"500 MB\" or \"1.5 TB\"";

// "8 GB" in GB; 0 for any other kind of text.
double gigabytes(const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 6> units{
      {{"MB", 1e-3}, {"GB", 1}, {"TB", 1e3}, {"MiB", 0x1p20 / 1e9}, {"GiB", 0x1p30 / 1e9}, {"TiB", 0x1p40 / 1e9}}};
  std::istringstream words(text);
  double number = 0;
  std::string unit, rest;
  words >> number >> unit;
  if (words.fail() || words >> rest) return 0;
  for (const auto& [name, size] : units)
    if (unit == name) return number * size;
  return 0;
}

using Keys = std::vector<Key<Config>>;

// Such a batch does not overflow when multiplied by the bytes of the largest sample (io/limits.hpp), or summed over all
// ranks.
constexpr double kMostBatch = 1 << 22;

template <class Field>
void add(Keys& keys, const std::string& path, Field field, const Rule& rule, const std::string& meaning) {
  keys.push_back(make_key<Config>(path, field, rule, meaning));
}

template <class E>
std::string word_of(E value) {
  return words_of<E>().at(static_cast<std::size_t>(value));
}

// Turns a key of one section's struct into a key of the whole configuration.
template <class Section, class Field>
Key<Config> lift(const std::string& section, Field field, const Key<Section>& key) {
  return {section + key.path, key.expected, key.meaning,
          [=](Config& c, const Value& value, const std::string& path) { key.read(field(c), value, path); },
          [=](const Config& c) { return key.write(field(c)); }};
}

// `settings` and `stop` are the tables with a role's training settings and its stop rule.
template <class S, class Role>
void add_role(std::vector<Key<S>>& keys, const std::string& settings, const std::string& stop, Role role) {
  const auto key = [&](const std::string& path, auto member, const Rule& rule, const std::string& meaning) {
    keys.push_back(make_key<S>(
        path, [=](auto& s) -> auto& { return member(role(s)); }, rule, meaning));
  };
  const std::string as_training = "; as under [training] unless set";
  key(settings + "batch", MRMF_FIELD(batch), within(1, kMostBatch), "samples per rank and step" + as_training);
  key(settings + "learning_rate", MRMF_FIELD(learning_rate), above(0), "learning rate" + as_training);
  key(settings + "rule", MRMF_FIELD(rule), one_of(words_of<RateRule>()), "learning-rate rule" + as_training);
  key(stop + "threshold", MRMF_FIELD(threshold), above(0),
      "stop when the training loss falls by less than this per epoch, `patience` times running (paper 3.2)");
  key(stop + "patience", MRMF_FIELD(patience), at_least(1), "epochs running below the threshold; 3 unless set");
  key(stop + "metric", MRMF_FIELD(metric), above_to(0, 1),
      "stop when training.metric of the validation data is as high");
  key(stop + "epochs", MRMF_FIELD(epochs), at_least(1), "largest number of epochs" + as_training);
}

void add_data(Keys& keys) {
  add(keys, "data.files", MRMF_FIELD(data.train.files), {},
      "HDF5 files, read as one data set; relative paths start at the current directory");
  add(keys, "data.train.samples", MRMF_FIELD(data.train.samples), {}, "data set of the training samples");
  add(keys, "data.train.labels", MRMF_FIELD(data.train.labels), {}, "data set of the training labels");
  add(keys, "data.validation.files", MRMF_FIELD(data.validation.files), {},
      "files of the validation split; data.files unless set");
  add(keys, "data.validation.samples", MRMF_FIELD(data.validation.samples), {}, "data set of the validation samples");
  add(keys, "data.validation.labels", MRMF_FIELD(data.validation.labels), {}, "data set of the validation labels");
  add(keys, "data.channels", MRMF_FIELD(data.channels), at_least(1),
      "channels of a sample, its last axis: other data is refused, and a shape that looks unusual is taken as meant");
  add(keys, "data.layout", MRMF_FIELD(data.train.layout), one_of({"transpose", "reinterpret"}),
      "how a stored sample is seen: positions by channels, or its flat buffer read the other way round");
  add(keys, "data.missing", MRMF_FIELD(data.train.missing), one_of(words_of<MissingRule>()),
      "rows that were never written, or come from a file that is not there: end with an error, or take the file's fill "
      "value for them");
  add(keys, "data.shards", MRMF_FIELD(data.shards), at_least(0),
      "pieces the training data is cut into, a multiple of the ranks; 0 for one per rank");
  add(keys, "data.shuffle", MRMF_FIELD(data.shuffle), {}, "visit the samples in a new order every epoch");
  add(keys, "data.shuffle_over", MRMF_FIELD(data.shuffle_over), one_of({"shard", "all"}),
      "shuffle each shard's samples, which are then always the same rank's, or all samples: then every rank keeps, or "
      "streams, the whole data set");
  add(keys, "data.load", MRMF_FIELD(data.load), one_of({"auto", "memory", "stream"}),
      "read all samples at the start, or each when its batch comes; auto: at the start where they fit in data.memory");
  keys.push_back(lift("data.", MRMF_FIELD(data), memory_key()));
  add(keys, "data.averaging", MRMF_FIELD(data.averaging), one_of({"load", "epoch"}),
      "average samples to a lower resolution once and keep the result, or whenever a batch is made of them");
  add(keys, "data.coarse_labels", MRMF_FIELD(data.coarse_labels), one_of({"shares", "majority"}),
      "classes with positions at a lower resolution: the share of each class, or the class that most positions have");
}

void add_optimizer(Keys& keys) {
  const std::string path = "training.optimizer.";
  add(keys, path + "name", MRMF_FIELD(training.optimizer.name), one_of(words_of<OptimizerKind>()), "optimizer");
  add(keys, path + "learning_rate", MRMF_FIELD(training.optimizer.learning_rate), above(0), "learning rate");
  add(keys, path + "rule", MRMF_FIELD(training.optimizer.rule), one_of(words_of<RateRule>()), "learning-rate rule");
  add(keys, path + "warmup", MRMF_FIELD(training.optimizer.warmup), at_least(0),
      "epochs of linear warm-up: rate * (epoch + 1) / warmup");
  add(keys, path + "boundaries", MRMF_FIELD(training.optimizer.boundaries), above(0),
      "piecewise: epochs at which the rate is multiplied by `factor`");
  add(keys, path + "factor", MRMF_FIELD(training.optimizer.factor), above(0),
      "piecewise, plateau: multiplies the rate");
  add(keys, path + "patience", MRMF_FIELD(training.optimizer.patience), at_least(0),
      "plateau: epochs without improvement before the rate falls");
  add(keys, path + "cooldown", MRMF_FIELD(training.optimizer.cooldown), at_least(0),
      "plateau: epochs to wait after the rate fell");
  add(keys, path + "plateau_threshold", MRMF_FIELD(training.optimizer.plateau_threshold), from_below(0, 1),
      "plateau: relative improvement that counts");
  add(keys, path + "momentum", MRMF_FIELD(training.optimizer.momentum), from_below(0, 1), "sgd: momentum");
  add(keys, path + "beta1", MRMF_FIELD(training.optimizer.beta1), from_below(0, 1), "adam, adamw: decay of the mean");
  add(keys, path + "beta2", MRMF_FIELD(training.optimizer.beta2), from_below(0, 1),
      "adam, adamw: decay of the mean square");
  add(keys, path + "epsilon", MRMF_FIELD(training.optimizer.epsilon), above(0), "adam, adamw: added to the root");
  add(keys, path + "weight_decay", MRMF_FIELD(training.optimizer.weight_decay), at_least(0),
      "sgd, adam: added to the gradient; adamw: decoupled");
}

void add_training(Keys& keys) {
  add_optimizer(keys);
  for (const Key<TrainingConfig>& key : task_keys()) keys.push_back(lift("training.", MRMF_FIELD(training), key));
  add(keys, "training.batch", MRMF_FIELD(training.batch), within(1, kMostBatch), "samples per rank and step");
  add(keys, "training.seed", MRMF_FIELD(training.seed), at_least(0), "of parameters, sample order and dropout");
  add(keys, "training.epochs", MRMF_FIELD(training.epochs), at_least(1),
      "largest number of epochs of every phase of the plan");
  add(keys, "training.batch_norm", MRMF_FIELD(training.global_batch_norm), one_of({"local", "global"}),
      "batch-norm statistics: of each rank's rows, or of the batch over all ranks");
  add(keys, "training.precise_batch_norm", MRMF_FIELD(training.precise_batch_norm), at_least(0),
      "batches from which batch norms take new statistics, without training, before a validation that may end a phase; "
      "0 keeps the running averages");
}

void add_method(Keys& keys) {
  add(keys, "method.name", MRMF_FIELD(method.name), one_of(words_of<MethodName>()),
      "how to get to a model at the last resolution");
  keys.push_back(lift("method.", MRMF_FIELD(method), resolutions_key()));
  add(keys, "method.bottom", MRMF_FIELD(method.bottom), one_of({"coarse", "fresh"}),
      "mrmf with one fusion and top = dense only, the bottom layers at fusion: of the coarse model (the paper), or new "
      "ones, and no coarse model is trained: to measure what the top alone adds");
  add(keys, "method.top", MRMF_FIELD(method.top), one_of(words_of<TopRule>()),
      "mrmf only, the top layers at fusion: of the dense model (the paper), new ones, or the coarse ones interpolated");
  add(keys, "method.moments", MRMF_FIELD(method.moments), one_of({"reset", "carry"}),
      "what becomes of the optimizer's moments at fusion");
  add(keys, "method.curve", MRMF_FIELD(method.curve), one_of({"stage", "run"}),
      "one learning-rate curve per phase, or one over the whole run (constant, cosine and linear rules)");
  add(keys, "method.teams", MRMF_FIELD(method.teams), one_of({"sequential", "concurrent"}),
      "mrmf: a stage's coarse and dense model one after the other on all ranks, or at once, each on a team of them");
  add(keys, "method.split", MRMF_FIELD(method.split), at_least(1),
      "concurrent: shares of the ranks for the dense and the coarse team, such as [5, 3]; measured unless set");
  add_role(keys, "method.coarse.", "method.stop.coarse.", MRMF_FIELD(method.coarse));
  add_role(keys, "method.dense.", "method.stop.dense.", MRMF_FIELD(method.dense));
  add_role(keys, "method.finetune.", "method.stop.finetune.", MRMF_FIELD(method.finetune));
  keys.push_back(lift("method.", MRMF_FIELD(method), stage_list_key()));
  add(keys, "method.target.validation_loss", MRMF_FIELD(method.target), above(0),
      "stop the last phase of the plan when the validation loss is this low");
  for (const Key<MethodConfig>& key : metric_target_keys()) keys.push_back(lift("method.", MRMF_FIELD(method), key));
}

void add_run(Keys& keys) {
  add(keys, "run.folder", MRMF_FIELD(run.folder), {}, "where the run's files go");
  add(keys, "run.device", MRMF_FIELD(run.device), one_of(words_of<Device>()), "what to compute on");
  add(keys, "run.backend", MRMF_FIELD(run.backend), one_of(words_of<CpuBackend>()), "library for the CPU");
  add(keys, "run.ranks", MRMF_FIELD(run.ranks), at_least(0),
      "the number of ranks that this run is meant for, another one is refused; 0 for any");
  add(keys, "run.threads", MRMF_FIELD(run.threads), at_least(0),
      "per rank; 0 for OMP_NUM_THREADS, or else the cores this rank may use over the ranks that share them");
  add(keys, "run.checkpoint.epochs", MRMF_FIELD(run.checkpoint.epochs), at_least(0),
      "save the run under way every so many epochs; 0 for never by epochs");
  add(keys, "run.checkpoint.minutes", MRMF_FIELD(run.checkpoint.minutes), at_least(0),
      "save the run under way every so many minutes; 0 for never by time");
  add(keys, "run.check_ranks", MRMF_FIELD(run.check_ranks), at_least(0),
      "compare the parameters of the ranks every so many minutes; 0 for only when a phase of the plan begins and "
      "when the run is saved");
  add(keys, "run.deterministic", MRMF_FIELD(run.deterministic), {},
      "the same bits in every run, somewhat slower: on a GPU; on the CPU in whatever order ranks add, and with "
      "data.shards set on any number of ranks and threads");
  add(keys, "run.tensorboard", MRMF_FIELD(run.tensorboard), {}, "also write the epochs as a file for TensorBoard");
  add(keys, "run.precision", MRMF_FIELD(run.precision), one_of(words_of<Precision>()),
      "GPU: of activations and products; parameters and sums are always float32");
  add(keys, "run.graphs", MRMF_FIELD(run.graphs), {}, "GPU: record a training step once and replay it");
  add(keys, "run.resident", MRMF_FIELD(run.resident), {},
      "GPU: keep the samples in its memory where they take less than 40 % of what is free");
  add(keys, "run.ranks_share_gpu", MRMF_FIELD(run.ranks_share_gpu), {},
      "GPU: let several ranks compute on one GPU, for tests; it is slow");
  add(keys, "run.timeout", MRMF_FIELD(run.timeout), above(0),
      "seconds that a rank waits for the others in training before it ends the run");
  add(keys, "run.plans", MRMF_FIELD(run.plans), {},
      "GPU: file that keeps the fastest convolution plans; mrmf/plans.json in the user's cache folder unless set");
}

}  // namespace

template <>
std::vector<std::string> words_of<MissingRule>() {
  return {"refuse", "fill"};
}

template <>
std::vector<std::string> words_of<OptimizerKind>() {
  return {"adam", "adamw", "sgd"};
}
std::string to_string(OptimizerKind kind) { return word_of(kind); }

template <>
std::vector<std::string> words_of<RateRule>() {
  return {"constant", "cosine", "linear", "piecewise", "plateau"};
}
std::string to_string(RateRule rule) { return word_of(rule); }

template <>
std::vector<std::string> words_of<MethodName>() {
  return {"baseline", "mrt", "mrmf", "progressive", "auto"};
}
std::string to_string(MethodName name) { return word_of(name); }

template <>
std::vector<std::string> words_of<TopRule>() {
  return {"dense", "fresh", "interpolated"};
}
std::string to_string(TopRule top) { return word_of(top); }

template <>
std::vector<std::string> words_of<Device>() {
  return {"auto", "cpu", "cuda"};
}

template <>
std::vector<std::string> words_of<CpuBackend>() {
  return {"onednn", "reference"};
}

template <>
std::vector<std::string> words_of<Precision>() {
  return {"fp32", "tf32", "bf16"};
}

Key<LayerSpec> size_key(const std::string& path, Extent LayerSpec::*size, bool OneForAll::*once,
                        const std::string& meaning) {
  return {path, kSize, meaning,
          [=](LayerSpec& spec, const Value& value, const std::string& full) {
            read_size(value, full, spec.*size);
            spec.one_for_all.*once = value.kind != Value::Kind::list;
          },
          [=](const LayerSpec& spec) {
            return spec.one_for_all.*once ? std::to_string((spec.*size).back()) : write_extent(spec.*size);
          }};
}

Key<LayerSpec> padding_key() {
  return {"padding", kPadding,
          "of a conv: none, such that the output has ceil(input / stride) positions, or zeros before and after each "
          "axis: 1 for every axis, [[1, 2]] for one, [1, 1, 1] for three; a list shorter than the axes counts from the "
          "last; a conv_transpose leaves as many out of its output, and with \"same\" has input * stride positions",
          read_padding, write_padding};
}

Key<MethodConfig> resolutions_key() {
  return {"resolutions", expected<std::vector<Extent>>({}),
          "averaging factors, coarse to fine: [[4], [2], [1]] for data of one axis, [[2, 2, 2], [1, 1, 1]] for three; "
          "as many per resolution as the data has axes, or [1] for the data as they are",
          read_resolutions, [](const MethodConfig& method) {
            std::string text;
            for (const Extent& extent : method.resolutions)
              text += (text.empty() ? "" : ", ") + write_extent(extent, method.axes);
            return "[" + text + "]";
          }};
}

Key<DataConfig> memory_key() {
  return {"memory", kMemory,
          "memory of a node for samples, shared by its ranks; half of what the job may use there unless set",
          [](DataConfig& data, const Value& value, const std::string& path) {
            const bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::real;
            const double wanted = number                            ? read_real(value, path, {})
                                  : value.kind == Value::Kind::text ? gigabytes(value.text)
                                                                    : 0;
            if (!(wanted > 0) || wanted > 1e9) refuse(value, path, kMemory);
            data.memory = wanted;
          },
          [](const DataConfig& data) { return data.memory ? fmt::format("{}", *data.memory) : ""; }};
}

std::vector<Key<StageOverride>> stage_keys() {
  std::vector<Key<StageOverride>> keys;
  add_role(keys, "coarse.", "coarse.", MRMF_FIELD(coarse));
  add_role(keys, "dense.", "dense.", MRMF_FIELD(dense));
  return keys;
}

std::vector<Key<Config>> config_keys() {
  Keys keys;
  add_data(keys);
  for (const Key<ModelConfig>& key : preset_keys()) keys.push_back(lift("model.", MRMF_FIELD(model), key));
  keys.push_back(lift("model.", MRMF_FIELD(model), layer_list_key()));
  add(keys, "model.cut", MRMF_FIELD(model.bottom.cut), {},
      "name of the first top layer: fusion hands over those below it; the first flatten unless set");
  add(keys, "model.bottom", MRMF_FIELD(model.bottom.layers), {},
      "instead of model.cut: names of the layers that fusion hands over; \"down*\" stands for all that begin with "
      "down");
  add_training(keys);
  add_method(keys);
  add_run(keys);
  return keys;
}

}  // namespace mrmf

#undef MRMF_FIELD
