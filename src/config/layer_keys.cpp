// Keys of layers, of stages and of presets. Paths are within an entry of [[model.layers]], defaults: LayerSpec in
// layers/spec.hpp; or of [[method.stages]], defaults: StageOverride in config.hpp. Those of presets, at the end, are
// within [model]; defaults: PresetSizes in presets.hpp.
#include <algorithm>

#include "kernels/errors.hpp"
#include "src/config/keys.hpp"
#include "src/config/presets.hpp"

namespace mrmf {
namespace {

using enum LayerKind;

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

Key<ModelConfig> layer_list_key() {
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
  return key;
}

Key<MethodConfig> stage_list_key() {
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
  return key;
}

}  // namespace mrmf

// Keys of the named networks: which one, and its sizes.

namespace mrmf {

template <>
std::vector<std::string> words_of<NormKind>() {
  return {"batch", "group"};
}

std::vector<Key<ModelConfig>> preset_keys() {
  std::vector<std::string> presets;
  for (const Preset& preset : preset_list()) presets.push_back(preset.name);
  const std::string sized = " (unet, unet3d, resnet)";
  return {
      make_key<ModelConfig>("preset", MRMF_FIELD(preset), one_of(presets), "a network from the list of `mrmf presets`"),
      make_key<ModelConfig>("levels", MRMF_FIELD(sizes.levels), within(1, 8),
                            "levels of a preset" + sized + "; its own unless set"),
      make_key<ModelConfig>(
          "width", MRMF_FIELD(sizes.width), within(1, 4096),
          "channels of a preset's first level, doubled at each further one" + sized + "; its own unless set"),
      make_key<ModelConfig>(
          "outputs", MRMF_FIELD(sizes.outputs), within(1, 1 << 22),
          "channels of a preset's output: numbers, or classes (unet, unet3d, resnet; 1 unless set), or all scalars "
          "and pixels (jag; 16399 unless set)"),
      make_key<ModelConfig>("norm", MRMF_FIELD(sizes.norm), one_of(words_of<NormKind>()),
                            "norm of a preset" + sized + "; its own unless set")};
}

}  // namespace mrmf
