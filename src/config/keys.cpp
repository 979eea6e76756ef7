// The table of all keys, put together from the other files *_keys.cpp. The keys of [method], [run] and part of [model]
// are declared here, and those whose values need their own reading. Paths are whole; defaults: ModelConfig,
// MethodConfig and RunConfig in config.hpp.
#include "src/config/keys.hpp"

#include <utility>

#include "kernels/errors.hpp"

namespace mrmf {
namespace {

constexpr const char* kPadding =
    "\"valid\", \"same\", a number, or one to three entries, each a number or a pair [before, after] of at least 0";
constexpr const char* kGrid =
    "one to three integers such as [2] or [2, 2, 2], each at least 1, or a list of such grids, one for each of "
    "method.resolutions";
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

void read_grids(const Value& value, const std::string& path, std::vector<Extent>& grids) {
  const std::vector<Value> items = read_list(value);
  const bool several = !items.empty() && items.front().kind == Value::Kind::list;
  grids.clear();
  for (const Value& grid : several ? items : std::vector<Value>{value})
    grids.push_back(read_extent(grid, path, at_least(1)));
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
  key(settings + "communication", MRMF_FIELD(communication), one_of(words_of<Communication>()),
      "how the values that ranks add travel" + as_training);
  key(stop + "threshold", MRMF_FIELD(threshold), above(0),
      "stop when the training loss falls by less than this per epoch, `patience` times running (paper 3.2)");
  key(stop + "patience", MRMF_FIELD(patience), at_least(1), "epochs running below the threshold; 3 unless set");
  key(stop + "metric", MRMF_FIELD(metric), above(0),
      "stop when training.metric of the validation data is as good: as high, or as low where less is better");
  key(stop + "epochs", MRMF_FIELD(epochs), at_least(1), "largest number of epochs" + as_training);
}

void add_method(Keys<Config>& keys) {
  add_key(keys, "method.name", MRMF_FIELD(method.name), one_of(words_of<MethodName>()),
          "how to get to a model at the last resolution");
  keys.push_back(lift("method.", MRMF_FIELD(method), resolutions_key()));
  add_key(
      keys, "method.detail", MRMF_FIELD(method.detail), one_of({"measure", "ignore"}),
      "auto only: measure on training samples, and plan the baseline where the labels depend on detail that averages "
      "of 2 lose; or choose by the shape of a sample alone");
  add_key(
      keys, "method.bottom", MRMF_FIELD(method.bottom), one_of({"coarse", "fresh"}),
      "mrmf with one fusion and top = dense only, the bottom layers at fusion: of the coarse model (the paper), or new "
      "ones, and no coarse model is trained: to measure what the top alone adds");
  add_key(
      keys, "method.top", MRMF_FIELD(method.top), one_of(words_of<TopRule>()),
      "mrmf only, the top layers at fusion: of the dense model (the paper), new ones, or the coarse ones interpolated; "
      "stem: with two resolutions, the whole coarse model follows behind a new first layer that reads the finer data");
  add_key(keys, "method.transfer", MRMF_FIELD(method.transfer), one_of({"last", "best"}),
          "which epoch's coarse model a fusion transfers: the last one's, or the best one's by training.monitor");
  add_key(keys, "method.moments", MRMF_FIELD(method.moments), one_of({"reset", "carry"}),
          "what becomes of the optimizer's moments at fusion");
  add_key(keys, "method.curve", MRMF_FIELD(method.curve), one_of({"stage", "run"}),
          "one learning-rate curve per phase, or one over the whole run (constant, cosine and linear rules)");
  add_key(
      keys, "method.switch", MRMF_FIELD(method.switch_by), one_of({"epochs", "slope"}),
      "mrmf with one fusion and top = interpolated or stem, when the coarse phase ends: after its epochs, or before "
      "that, when a copy of it, transferred and trained for a short while, shows that full resolution now lowers the "
      "loss by more per arithmetic");
  add_key(keys, "method.probe_epochs", MRMF_FIELD(method.probe_epochs), at_least(1),
          "switch = slope: coarse epochs from one such copy to the next");
  add_key(keys, "method.probe", MRMF_FIELD(method.probe), above_to(0, 1),
          "switch = slope: share of the last phase's first epoch for which a copy is trained");
  add_key(
      keys, "method.teams", MRMF_FIELD(method.teams), one_of({"sequential", "concurrent"}),
      "mrmf: a stage's coarse and dense model one after the other on all ranks, or at once, each on a team of them");
  add_key(keys, "method.team_shares", MRMF_FIELD(method.team_shares), at_least(1),
          "concurrent: shares of the ranks for the dense and the coarse team, such as [5, 3]; measured unless set");
  add_role(keys, "method.coarse.", "method.stop.coarse.", MRMF_FIELD(method.coarse));
  add_role(keys, "method.dense.", "method.stop.dense.", MRMF_FIELD(method.dense));
  add_role(keys, "method.finetune.", "method.stop.finetune.", MRMF_FIELD(method.finetune));
  keys.push_back(lift("method.", MRMF_FIELD(method), stage_list_key()));
  add_key(keys, "method.target.validation_loss", MRMF_FIELD(method.target), above(0),
          "stop the last phase of the plan when the validation loss is this low");
  for (const Key<MethodConfig>& key : metric_target_keys()) keys.push_back(lift("method.", MRMF_FIELD(method), key));
}

void add_run(Keys<Config>& keys) {
  add_key(keys, "run.folder", MRMF_FIELD(run.folder), {}, "where the run's files go");
  add_key(keys, "run.device", MRMF_FIELD(run.device), one_of(words_of<Device>()), "what to compute on");
  add_key(keys, "run.backend", MRMF_FIELD(run.backend), one_of(words_of<CpuLibrary>()), "library for the CPU");
  add_key(keys, "run.ranks", MRMF_FIELD(run.ranks), at_least(0),
          "the number of ranks that this run is meant for, another one is refused; 0 for any");
  add_key(keys, "run.threads", MRMF_FIELD(run.threads), at_least(0),
          "per rank; 0 for OMP_NUM_THREADS, or else the cores this rank may use over the ranks that share them");
  keys.push_back({"run.grid", kGrid,
                  "blocks of every sample along its axes, each on a rank of its own: [2, 1, 1] cuts the first of three "
                  "in two; training.batch is then the samples of such a group of ranks; [[1], [2]] shares samples at "
                  "the second of two resolutions alone",
                  [](Config& c, const Value& value, const std::string& path) { read_grids(value, path, c.run.grid); },
                  [](const Config& c) {
                    return c.run.grid.size() == 1 ? write_extent(c.run.grid.front()) : write(c.run.grid, {});
                  }});
  add_key(keys, "run.checkpoint.epochs", MRMF_FIELD(run.checkpoint.epochs), at_least(0),
          "save the run under way every so many epochs; 0 for never by epochs");
  add_key(keys, "run.checkpoint.minutes", MRMF_FIELD(run.checkpoint.minutes), at_least(0),
          "save the run under way every so many minutes; 0 for never by time");
  add_key(keys, "run.check_ranks", MRMF_FIELD(run.check_ranks), at_least(0),
          "compare the parameters of the ranks every so many minutes; 0 for only when a phase of the plan begins and "
          "when the run is saved");
  add_key(keys, "run.deterministic", MRMF_FIELD(run.deterministic), {},
          "the same bits in every run, somewhat slower: on a GPU; on the CPU in whatever order ranks add, and with "
          "data.shards set on any number of ranks and threads");
  add_key(keys, "run.tensorboard", MRMF_FIELD(run.tensorboard), {}, "also write the epochs as a file for TensorBoard");
  add_key(
      keys, "run.precision", MRMF_FIELD(run.precision), one_of(words_of<Precision>()),
      "GPU: of activations and products; CPU: with bf16, factors are rounded where the processor multiplies in bf16; "
      "parameters and sums are always float32");
  add_key(keys, "run.graphs", MRMF_FIELD(run.graphs), {},
          "GPU: capture a training step once as a CUDA graph and replay it");
  add_key(keys, "run.resident", MRMF_FIELD(run.resident), {},
          "GPU: keep the samples in its memory where they take less than 40 % of what is free");
  add_key(keys, "run.ranks_share_gpu", MRMF_FIELD(run.ranks_share_gpu), {},
          "GPU: let several ranks compute on one GPU, for tests; it is slow");
  add_key(keys, "run.timeout", MRMF_FIELD(run.timeout), above(0),
          "seconds that a rank waits for the others in training before it ends the run; while a rank is stopped "
          "(suspended), they do not count");
  add_key(keys, "run.plans", MRMF_FIELD(run.plans), {},
          "file that keeps the fastest ways of convolutions; in the user's cache folder mrmf/plans.json (GPU) or "
          "mrmf/kernels.txt (CPU) unless set");
}

}  // namespace

template <>
std::vector<std::string> words_of<MethodName>() {
  return {"baseline", "mrt", "mrmf", "progressive", "auto"};
}
std::string to_string(MethodName name) { return word_of(name); }

template <>
std::vector<std::string> words_of<TopRule>() {
  return {"dense", "fresh", "interpolated", "stem"};
}
std::string to_string(TopRule top) { return word_of(top); }

template <>
std::vector<std::string> words_of<Device>() {
  return {"auto", "cpu", "cuda"};
}

template <>
std::vector<std::string> words_of<CpuLibrary>() {
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

std::vector<Key<StageOverride>> stage_keys() {
  std::vector<Key<StageOverride>> keys;
  add_role(keys, "coarse.", "coarse.", MRMF_FIELD(coarse));
  add_role(keys, "dense.", "dense.", MRMF_FIELD(dense));
  return keys;
}

Keys<Config> config_keys() {
  Keys<Config> keys;
  for (const Key<DataConfig>& key : data_keys()) keys.push_back(lift("data.", MRMF_FIELD(data), key));
  for (const Key<ModelConfig>& key : preset_keys()) keys.push_back(lift("model.", MRMF_FIELD(model), key));
  keys.push_back(lift("model.", MRMF_FIELD(model), layer_list_key()));
  add_key(keys, "model.start", MRMF_FIELD(model.start), {},
          "a run's folder or a model file: layers of the first model that is trained begin with the parameters of the "
          "layer of the same name and shapes there, the others anew");
  add_key(keys, "model.cut", MRMF_FIELD(model.bottom.cut), {},
          "name of the first top layer: fusion transfers those below it; the first flatten unless set");
  add_key(keys, "model.bottom", MRMF_FIELD(model.bottom.layers), {},
          "instead of model.cut: names of the layers that fusion transfers; \"down*\" stands for all that begin with "
          "down");
  for (const Key<TrainingConfig>& key : training_keys()) keys.push_back(lift("training.", MRMF_FIELD(training), key));
  add_method(keys);
  for (const Key<TournamentConfig>& key : tournament_keys())
    keys.push_back(lift("tournament.", MRMF_FIELD(tournament), key));
  add_run(keys);
  return keys;
}

}  // namespace mrmf
