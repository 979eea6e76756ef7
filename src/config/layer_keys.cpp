// Keys of layers and of stages, and those whose values are positions along axes. Paths are within an entry of
// [[model.layers]]; defaults: LayerSpec in layers/spec.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/errors.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

using enum LayerKind;

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

/// Not written where it is 1, as in files of versions that had none.
Key<LayerSpec> dilation_key(const std::string& per_axis) {
  Key<LayerSpec> key = size_key("dilation", &LayerSpec::dilation, &OneForAll::dilation,
                                "distance between the kernel's taps: " + per_axis + "; 1 unless set");
  key.read = [read = key.read](LayerSpec& spec, const Value& value, const std::string& path) {
    read(spec, value, path);
    if (spec.dilation == Extent{1, 1, 1}) spec.one_for_all.dilation = false;
  };
  key.write = [write = key.write](const LayerSpec& spec) {
    return spec.dilation == Extent{1, 1, 1} ? std::string() : write(spec);
  };
  return key;
}

constexpr const char* kPerAxis =
    "3 for every axis of the data, or a list, first axis first, such as [3, 3, 3]; a list shorter than the axes counts "
    "from the last, and the other axes have 1";

std::vector<Key<LayerSpec>> keys_of(LayerKind kind) {
  std::vector<Key<LayerSpec>> keys;
  for (const LayerKey& entry : layer_keys()) {
    if (std::find(entry.kinds.begin(), entry.kinds.end(), kind) != entry.kinds.end()) keys.push_back(entry.key);
  }
  return keys;
}

// In the order of LayerKind, because a word is read by its position.
std::vector<std::string> layer_kind_words() {
  std::vector<std::string> words;
  for (const LayerKindFacts& kind : kLayerKinds) words.emplace_back(kind.word);
  return words;
}

constexpr const char* kFrom = "the name of an earlier layer, or a list of such names";

void read_from(LayerSpec& spec, const Value& value, const std::string& path) {
  const bool list = value.kind == Value::Kind::list;
  if (!list && value.kind != Value::Kind::text) refuse(value, path, kFrom);
  spec.from.clear();
  for (const Value& name : read_list(value)) {
    if (name.kind != Value::Kind::text || name.text.empty()) refuse(name, path, kFrom);
    spec.from.push_back(name.text);
  }
  if (spec.from.empty()) refuse(value, path, kFrom);
}

Key<LayerSpec> from_key() {
  return {"from", kFrom,
          "what the layer reads, \"input\" for the network's input; two or more for add and concat; the layer before "
          "unless set",
          read_from,
          [](const LayerSpec& spec) { return spec.from.size() == 1 ? quoted(spec.from[0]) : write(spec.from, {}); }};
}

Key<LayerSpec> weights_of_key() {
  return make_key<LayerSpec>("weights_of", MRMF_FIELD(weights_of), {},
                             "name of an earlier layer of the same kind and shapes, whose weights this one has");
}

// Not written where it is the reconstruction, as in files of versions that had nothing else.
Key<LayerSpec> output_key() {
  Key<LayerSpec> key = make_key<LayerSpec>("output", MRMF_FIELD(output), one_of({"reconstruction", "features"}),
                                           "what comes out: the input put together again of the features, or the "
                                           "features, without a penalty; \"reconstruction\" unless set");
  key.write = [write = key.write](const LayerSpec& spec) {
    return spec.output == RicaOutput::reconstruction ? std::string() : write(spec);
  };
  return key;
}

// Not written where it is 0, as in files of versions that had none.
Key<LayerSpec> every_key() {
  Key<LayerSpec> key = make_key<LayerSpec>("every", MRMF_FIELD(every), at_least(1),
                                           "with weights_of: a frozen copy of the weights, which nothing trains, taken "
                                           "anew after so many steps; the weights themselves unless set");
  key.write = [](const LayerSpec& spec) { return spec.every == 0 ? std::string() : std::to_string(spec.every); };
  return key;
}

LayerSpec read_layer(const Value& value, const std::string& path) {
  const Rule kinds = one_of(layer_kind_words());
  if (value.kind != Value::Kind::table)
    refuse(value, path, "a table such as { type = \"conv\", filters = 30, kernel = 4 }");
  const Value* type = value.find("type");
  if (!type) throw ConfigError(value.where + ": " + path + " has no type; it must be " + expected<LayerKind>(kinds));
  LayerSpec spec;
  read(*type, path + ".type", kinds, spec.kind);
  KeyLocations locations;
  read_table(value, path + ".", "", keys_of(spec.kind), spec, locations);
  for (const LayerKey& entry : layer_keys()) {
    const bool applies = std::find(entry.kinds.begin(), entry.kinds.end(), spec.kind) != entry.kinds.end();
    if (!entry.required || !applies || value.find(entry.key.path)) continue;
    throw ConfigError(value.where + ": " + path + " is a " + type->text + " without '" + entry.key.path + "', " +
                      entry.key.expected);
  }
  if (!value.find("stride")) {
    spec.stride = is_pool(spec.kind) ? spec.window : Extent{1, 1, 1};
    spec.one_for_all.stride = is_pool(spec.kind) && spec.one_for_all.window;
  }
  return spec;
}

template <class S>
std::string write_table(const S& s, const std::vector<Key<S>>& keys) {
  std::string text;
  for (const Key<S>& key : keys) {
    const std::string value = key.write(s);
    if (!value.empty()) text += (text.empty() ? "" : ", ") + key.path + " = " + value;
  }
  return text.empty() ? "{}" : "{ " + text + " }";
}

std::string write_lines(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) text += "  " + entry + ",\n";
  return text.empty() ? "" : "[\n" + text + "]";
}

std::string indexed(const std::string& path, std::size_t i) { return path + "[" + std::to_string(i) + "]"; }

const std::vector<Value>& tables(const Value& value, const std::string& path) {
  if (value.kind != Value::Kind::list) refuse(value, path, "a list of tables, [[" + path + "]]");
  return value.items;
}

}  // namespace

std::vector<LayerKey> layer_keys() {
  std::vector<LayerKey> keys;
  const auto add = [&](const std::string& path, auto field, const Rule& rule, std::vector<LayerKind> kinds,
                       const std::string& meaning, bool required = false) {
    keys.push_back({make_key<LayerSpec>(path, field, rule, meaning), std::move(kinds), required});
  };
  std::vector<LayerKind> all;
  for (const LayerKindFacts& every : kLayerKinds) all.push_back(every.kind);
  add("type", MRMF_FIELD(kind), one_of(layer_kind_words()), all, "kind of layer", true);
  add("name", MRMF_FIELD(name), {}, all, "unique; made from kind and position unless set");
  keys.push_back({from_key(), all});
  add("filters", MRMF_FIELD(units), at_least(1), {conv, conv_transpose, locally_connected, rica}, "output channels",
      true);
  keys.push_back({size_key("kernel", &LayerSpec::window, &OneForAll::window, kPerAxis),
                  {conv, conv_transpose, locally_connected, rica},
                  true});
  add("units", MRMF_FIELD(units), at_least(1), {dense, labels, noise},
      "outputs; of labels, all numbers that a sample's labels have", true);
  add("channels", MRMF_FIELD(units), at_least(1), {slice}, "channels that it takes of its input", true);
  add("first", MRMF_FIELD(first), at_least(0), {slice}, "the first of them, counted from 0");
  keys.push_back({weights_of_key(), {conv, conv_transpose, locally_connected, rica, dense, group_norm, layer_norm}});
  keys.push_back({every_key(), {conv, conv_transpose, locally_connected, rica, dense, group_norm, layer_norm}});
  keys.push_back({size_key("window", &LayerSpec::window, &OneForAll::window, kPerAxis),
                  {max_pool, average_pool, l2_pool, local_contrast_norm},
                  true});
  keys.push_back({size_key("stride", &LayerSpec::stride, &OneForAll::stride,
                           std::string(kPerAxis) + "; for a conv 1 and for a pool the window unless set"),
                  {conv, conv_transpose, locally_connected, rica, max_pool, average_pool, l2_pool}});
  keys.push_back({padding_key(), {conv, conv_transpose}, false});
  keys.push_back({dilation_key(kPerAxis), {conv, conv_transpose}, false});
  keys.push_back({size_key("factor", &LayerSpec::window, &OneForAll::window,
                           std::string("output positions per input position: ") + kPerAxis),
                  {upsample},
                  true});
  add("mode", MRMF_FIELD(mode), one_of({"nearest", "linear"}), {upsample},
      "repeat the values, or go linearly from one to the next (PyTorch's align_corners = false)");
  add("groups", MRMF_FIELD(groups), at_least(1), {group_norm},
      "groups of neighbouring channels, a divisor of their number", true);
  add("initialiser", MRMF_FIELD(initialiser), one_of({"pytorch", "glorot", "he"}),
      {conv, conv_transpose, locally_connected, rica, dense}, "how weights start");
  add("pooled", MRMF_FIELD(groups), at_least(0), {rica, l2_pool},
      "groups of neighbouring channels whose squares are added, a divisor of their number; 0: each by itself");
  add("sparsity", MRMF_FIELD(sparsity), at_least(0), {rica}, "weight of the penalty of features");
  add("decoder", MRMF_FIELD(decoder), one_of({"tied", "own"}), {rica},
      "what puts the input together again: the same weights, or some of their own");
  keys.push_back({output_key(), {rica}});
  add("row_length", MRMF_FIELD(row_length), at_least(0), {rica},
      "length that the weights of every feature have, always; 0: any");
  add("epsilon", MRMF_FIELD(root_epsilon), above(0), {rica, l2_pool}, "added to squares below their root");
  add("floor", MRMF_FIELD(floor), above(0), {local_contrast_norm}, "what smaller deviations count as");
  add("rate", MRMF_FIELD(rate), from_below(0, 1), {dropout}, "share of the values that are dropped", true);
  add("slope", MRMF_FIELD(slope), above(0), {leaky_relu}, "for negative values");
  add("scale", MRMF_FIELD(scale), above(0), {tanh}, "largest magnitude of the output: scale * tanh(x)");
  add("momentum", MRMF_FIELD(momentum), above_to(0, 1), {batch_norm},
      "weight of the new batch in the running statistics (PyTorch's meaning)");
  add("epsilon", MRMF_FIELD(epsilon), above(0), {batch_norm, group_norm, layer_norm}, "added to the variance");
  return keys;
}

void add_layers_key(KeyList<ModelConfig>& keys) {
  Key<ModelConfig> key;
  key.path = "layers";
  key.expected = "a list of tables";
  key.meaning = "the network as [[model.layers]], where no preset is named";
  key.read = [](ModelConfig& model, const Value& value, const std::string& path) {
    model.layers.clear();
    const std::vector<Value>& entries = tables(value, path);
    for (std::size_t i = 0; i < entries.size(); ++i) model.layers.push_back(read_layer(entries[i], indexed(path, i)));
  };
  key.write = [](const ModelConfig& model) {
    std::vector<std::string> entries;
    if (!model.preset.empty()) return std::string();  // the preset already says it
    for (const LayerSpec& spec : model.layers) entries.push_back(write_table(spec, keys_of(spec.kind)));
    return write_lines(entries);
  };
  keys.add(std::move(key));
}

void add_stages_key(KeyList<MethodConfig>& keys) {
  Key<MethodConfig> key;
  key.path = "stages";
  key.expected = "a list of tables";
  key.meaning = "per fusion stage, what [[method.stages]] sets differently from the roles' own settings";
  key.read = [](MethodConfig& method, const Value& value, const std::string& path) {
    method.stages.clear();
    const std::vector<Value>& entries = tables(value, path);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].kind != Value::Kind::table) refuse(entries[i], indexed(path, i), "a table");
      StageOverride stage;
      KeyLocations locations;
      read_table(entries[i], indexed(path, i) + ".", "", stage_keys(), stage, locations);
      method.stages.push_back(stage);
    }
  };
  key.write = [](const MethodConfig& method) {
    std::vector<std::string> entries;
    for (const StageOverride& stage : method.stages) entries.push_back(write_table(stage, stage_keys()));
    return write_lines(entries);
  };
  keys.add(std::move(key));
}

void add_resolutions_key(KeyList<MethodConfig>& keys) {
  keys.add(
      {"resolutions", expected<std::vector<Extent>>({}),
       "averaging factors, coarse to fine: [[4], [2], [1]] for data of one axis, [[2, 2, 2], [1, 1, 1]] for three; "
       "as many per resolution as the data has axes, or [1] for the data as they are",
       read_resolutions, [](const MethodConfig& method) {
         std::string text;
         for (const Extent& extent : method.resolutions)
           text += (text.empty() ? "" : ", ") + write_extent(extent, method.axes);
         return "[" + text + "]";
       }});
}

void add_grid_key(KeyList<RunConfig>& keys) {
  keys.add(
      {"grid", kGrid,
       "blocks of every sample along its axes, each on a rank of its own: [2, 1, 1] cuts the first of three in two; "
       "training.batch is then the samples of such a group of ranks; [[1], [2]] shares samples at the second of two "
       "resolutions alone",
       [](RunConfig& run, const Value& value, const std::string& path) { read_grids(value, path, run.grid); },
       [](const RunConfig& run) {
         return run.grid.size() == 1 ? write_extent(run.grid.front()) : write(run.grid, {});
       }});
}

}  // namespace mrmf
