// Derivation of keys that follow from others, and checks that span several keys.
#include <fmt/format.h>

#include <algorithm>

#include "io/files/file_names.hpp"
#include "io/files/text.hpp"
#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "layers/stem.hpp"
#include "src/config/key_table.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

// Reports a key by the location where it was set.
class Checker {
 public:
  Checker(const KeyLocations& locations, const std::string& origin) : keys_{locations, origin} {}

  bool given(const std::string& path) const { return keys_.given(path); }

  /// The first key below `section` that was set, but for some.
  std::string first_given(const std::string& section, const std::vector<std::string>& but) const {
    for (const auto& [path, location] : keys_.locations)
      if (path.starts_with(section) && std::ranges::find(but, path) == but.end()) return path;
    return section;
  }

  [[noreturn]] void fail(const std::string& path, const std::string& message) const { keys_.fail(path, message); }

  void require(const std::string& path, bool present, const std::string& hint) const {
    if (!present) throw ConfigError(keys_.origin + ": " + path + " is missing; " + hint);
  }

 private:
  KeyOrigin keys_;
};

void check_bottom_layers(const ModelConfig& model, const Wiring& wiring, const Checker& checker) {
  const auto& [cut, layers] = model.bottom;
  std::vector<std::string> names;
  for (const LayerSpec& spec : model.layers) names.push_back(spec.name);
  const auto require_layer = [&](const std::string& key, const std::string& name, bool known) {
    if (!known)
      checker.fail(key, key + (key == "model.cut" ? " is " : " names ") + quoted(name) + ", which names no layer" +
                            did_you_mean(name, names, '"') + " (" + fmt::format("{}", fmt::join(names, ", ")) + ")");
  };
  for (const std::string& name : layers)
    require_layer("model.bottom", name,
                  std::ranges::any_of(model.layers, [&](const LayerSpec& l) { return names_layer(name, l); }));
  if (cut.empty()) return;
  if (!layers.empty()) checker.fail("model.bottom", "model.cut and model.bottom are both given; keep one");
  require_layer("model.cut", cut, std::ranges::find(names, cut) != names.end());
  if (cut == names.front())
    checker.fail("model.cut", "model.cut is the first layer, which leaves no bottom to transfer; name a later one");
  try {
    find_cut(model.layers, wiring, cut);
  } catch (const ConfigError& error) {
    checker.fail("model.cut", error.what());
  }
}

void complete_model(Config& config, const Checker& checker) {
  ModelConfig& model = config.model;
  PartsConfig& parts = config.training.parts;
  if (!model.preset.empty()) {
    if (!model.layers.empty()) {
      checker.fail("model.layers",
                   "model.preset = " + quoted(model.preset) + " and model.layers are both given; keep one");
    }
    try {
      model.layers = preset_layers(model.preset, model.sizes);
      if (parts.terms.empty()) {  // else a person, or a run, has said what it trains for
        const PartsConfig preset = preset_parts(model.preset, model.sizes, last_epochs(config));
        parts.terms = preset.terms;
        if (parts.parts.empty()) parts.parts = preset.parts;
        if (parts.turns.empty()) parts.turns = preset.turns;
      }
    } catch (const ConfigError& error) {
      checker.fail("model.preset", error.what());
    }
  } else if (model.sizes != PresetSizes{}) {
    checker.fail("model", "levels, width, outputs and norm are sizes of a preset; name one as model.preset");
  }
  checker.require("model", !model.layers.empty(), "give model.preset (mrmf presets lists them) or [[model.layers]]");
  Wiring wiring;
  try {
    name_layers(model.layers);
    name_terms(parts.terms);
    wiring = connect(model.layers, parts.terms);
  } catch (const ConfigError& error) {
    checker.fail("model.layers", error.what());
  }
  check_bottom_layers(model, wiring, checker);
}

void check_count(const MethodConfig& method, const Checker& checker) {
  const std::size_t count = method.resolutions.size();
  const std::string has = fmt::format("method.resolutions has {} {}; ", count, count == 1 ? "entry" : "entries");
  if (method.name == MethodName::baseline && count != 1) {
    checker.fail("method.resolutions", has + "baseline trains at one, such as [[1]]");
  }
  if (method.name == MethodName::mrt && count != 2) {
    checker.fail("method.resolutions", has + "mrt needs exactly two, such as [[2], [1]]");
  }
  if (method.name != MethodName::baseline && method.name != MethodName::automatic && count < 2) {
    checker.fail("method.resolutions", has + to_string(method.name) + " needs at least two, such as [[2], [1]]");
  }
}

void check_resolutions(const MethodConfig& method, const Checker& checker) {
  check_count(method, checker);
  for (std::size_t i = 1; i < method.resolutions.size(); ++i) {
    const Extent &coarse = method.resolutions[i - 1], &fine = method.resolutions[i];
    const std::string pair = write_extent(fine, method.axes) + " after " + write_extent(coarse, method.axes) + ": ";
    if (coarse == fine) checker.fail("method.resolutions", "method.resolutions has " + pair + "the same twice");
    for (std::size_t axis = 0; axis < fine.size(); ++axis) {
      if (coarse[axis] % fine[axis] == 0) continue;
      const char* why =
          fine[axis] > coarse[axis] ? "they must go from coarse to fine" : "each factor must divide the one before it";
      checker.fail("method.resolutions", "method.resolutions has " + pair + why);
    }
  }
}

// Only mrmf has a choice. The others may spell out the default, as effective configurations spell out every key.
void complete_top(MethodConfig& method, const Checker& checker) {
  if (method.name == MethodName::mrt) {
    if (checker.given("method.top") && method.top != TopRule::fresh) {
      checker.fail("method.top",
                   "method.top: mrt always starts from a fresh top; remove the key or set it to \"fresh\"");
    }
    method.top = TopRule::fresh;
  } else if (method.name != MethodName::mrmf && method.top != TopRule::dense) {
    checker.fail("method.top", "method.top: " + to_string(method.name) +
                                   " has no choice of top layers; remove the key or set it to \"dense\"");
  }
}

void check_teams(const MethodConfig& method, const Checker& checker) {
  const bool two_models = method.name == MethodName::mrmf && method.top == TopRule::dense;
  if (method.teams == TeamMode::concurrent && !two_models) {
    checker.fail(
        "method.teams",
        "method.teams = \"concurrent\" trains a coarse and a dense model at once, and only mrmf with method.top = "
        "\"dense\" trains both; set \"sequential\"");
  }
  if (!method.team_shares.empty() && method.team_shares.size() != 2) {
    checker.fail("method.team_shares",
                 fmt::format("method.team_shares has {} entries; give the shares of the ranks for the dense "
                             "and the coarse team, such as [5, 3]",
                             method.team_shares.size()));
  }
}

void check_bottom(const MethodConfig& method, const Checker& checker) {
  if (method.bottom == BottomRule::coarse) return;
  const bool one_fusion =
      method.name == MethodName::mrmf && method.top == TopRule::dense && method.resolutions.size() == 2;
  if (one_fusion && method.teams == TeamMode::sequential) return;
  checker.fail(
      "method.bottom",
      "method.bottom = \"fresh\" trains no coarse model: it goes with mrmf, one fusion, method.top = \"dense\" "
      "and method.teams = \"sequential\" alone; set it to \"coarse\"");
}

void check_switch(const MethodConfig& method, const Checker& checker) {
  if (method.switch_by == SwitchRule::epochs) return;
  const std::string slope = "method.switch = \"slope\" ";
  const bool transferred_whole = method.top == TopRule::interpolated || method.top == TopRule::stem;
  if (method.name != MethodName::mrmf || !transferred_whole || method.resolutions.size() != 2)
    checker.fail("method.switch", slope +
                                      "probes the one coarse model of mrmf with two resolutions and method.top = "
                                      "\"interpolated\" or \"stem\"; set these, or method.switch = \"epochs\"");
  if (method.transfer == TransferEpoch::best)
    checker.fail("method.switch", slope +
                                      "transfers the model that it looked at, the last epoch's; set "
                                      "method.transfer = \"last\"");
  if (method.curve == RateScope::run)
    checker.fail("method.switch", slope +
                                      "does not go with method.curve = \"run\", which divides one curve by epochs "
                                      "that are known beforehand; set method.curve = \"phase\"");
}

// What needs the samples' shape is checked with it (require_fusible).
void check_stem(const Config& config, const Checker& checker) {
  const MethodConfig& method = config.method;
  if (method.top != TopRule::stem) return;
  const std::string stem = "method.top = \"stem\" ", advice = "; use method.top = \"interpolated\"";
  if (method.resolutions.size() != 2)
    checker.fail("method.top", stem + fmt::format("puts one layer between two resolutions, and method.resolutions has "
                                                  "{}; give two, such as [[2], [1]], or use \"interpolated\"",
                                                  method.resolutions.size()));
  if (config.data.train.layout == SampleLayout::reinterpret)
    checker.fail("method.top", stem +
                                   "does not go with data.layout = \"reinterpret\", under which positions that are "
                                   "averaged are no neighbours in what the network reads" +
                                   advice);
  try {
    convolution_behind_stem(config.model.layers);
  } catch (const ConfigError& error) {
    checker.fail("method.top", stem + "cannot put a layer before this model: " + error.what() + advice);
  }
}

// The default may stand there: effective configurations spell every key out.
void check_automatic(const MethodConfig& method, const Checker& checker) {
  if (method.name != MethodName::automatic) return;
  MethodConfig plain;
  plain.name = method.name;
  plain.axes = method.axes;
  plain.detail = method.detail;
  plain.target = method.target;
  plain.metric_target = method.metric_target;
  if (method == plain) return;
  std::vector<std::string> targets{"method.name", "method.detail", "method.target.validation_loss"};
  for (const std::string& metric : metric_kind_words()) targets.push_back("method.target.validation_" + metric);
  const std::string key = checker.first_given("method.", targets);
  checker.fail(key, key +
                        ": \"auto\" chooses the schedule by itself; remove the key, or take what it chose "
                        "(mrmf plan --toml) and change that");
}

void complete_method(Config& config, const Checker& checker) {
  MethodConfig& method = config.method;
  check_automatic(method, checker);
  check_resolutions(method, checker);
  complete_top(method, checker);
  check_teams(method, checker);
  check_bottom(method, checker);
  check_switch(method, checker);
  check_stem(config, checker);
  if (method.stages.size() + 1 > method.resolutions.size()) {
    checker.fail("method.stages",
                 fmt::format("method.stages has {} entries, but {} resolutions make {} fusion stage{}",
                             method.stages.size(), method.resolutions.size(), method.resolutions.size() - 1,
                             method.resolutions.size() == 2 ? "" : "s"));
  }
  const std::vector<bool> top =
      top_layers(config.model.layers, connect(config.model.layers, config.training.parts.terms), config.model.bottom);
  if (std::ranges::find(top, true) == top.end() && method.name == MethodName::mrmf && method.top == TopRule::dense) {
    checker.fail(checker.given("method.top") ? "method.top" : "model.layers",
                 "a fusion transfers all of this model, and with method.top = "
                 "\"dense\" a dense model would be trained for nothing; set method.top to \"interpolated\", or name "
                 "the first top layer in model.cut, or fewer layers in model.bottom");
  }
  // Behind a stem the bottom does not matter: what is new has an age of its own.
  if (method.moments == MomentTransfer::carry && method.top != TopRule::stem && !std::ranges::is_sorted(top))
    checker.fail("method.moments",
                 "method.moments = \"carry\" needs a bottom of the first layers, and model.bottom names others; use "
                 "\"reset\"");
}

// Otherwise an empty folder would be noticed only after training.
void check_run(const RunConfig& run, const Checker& checker) {
  if (run.folder.empty()) {
    checker.fail("run.folder", "run.folder is empty; name the folder for the run's files, such as \"runs/first\"");
  }
  if (const std::string advice = advice_on_output(run.folder); !advice.empty())
    checker.fail("run.folder", "run.folder = \"" + run.folder + "\": " + advice);
}

// What the ranks that share samples do not do, on the CPU and on a GPU alike.
void check_grid(const Config& config, const Checker& checker) {
  const std::vector<Extent>& grids = config.run.grid;
  if (grids.size() > 1 && config.method.name == MethodName::automatic)
    checker.fail(
        "run.grid",
        fmt::format("run.grid has {} grids, and method.name = \"auto\" chooses the resolutions by itself; give "
                    "one grid for all of them",
                    grids.size()));
  if (grids.size() > 1 && grids.size() != config.method.resolutions.size())
    checker.fail("run.grid", fmt::format("run.grid has {} grids and method.resolutions {} {}; give one grid for all of "
                                         "them, or one for each, coarse to fine",
                                         grids.size(), config.method.resolutions.size(),
                                         config.method.resolutions.size() == 1 ? "entry" : "entries"));
  constexpr double most = 1 << 20;
  for (const Extent& grid : grids)
    if (static_cast<double>(grid[0]) * static_cast<double>(grid[1]) * static_cast<double>(grid[2]) > most)
      checker.fail("run.grid", fmt::format("run.grid cuts samples into more than {:.0f} blocks; give one for each rank "
                                           "that is to share a sample",
                                           most));
  if (std::ranges::all_of(grids, [](const Extent& grid) { return product(grid) == 1; })) return;
  if (config.method.teams == TeamMode::concurrent)
    checker.fail("run.grid",
                 "run.grid does not go with method.teams = \"concurrent\"; let the teams train one after the "
                 "other");
  if (!config.training.global_batch_norm)
    checker.fail("run.grid",
                 "run.grid does not go with training.batch_norm = \"local\", because statistics are of whole "
                 "samples; use \"global\"");
}

void complete_optimizer(OptimizerSettings& optimizer, const Checker& checker) {
  const std::string beta2 = "training.optimizer.beta2";
  if (optimizer.name == OptimizerKind::lion && !checker.given(beta2)) optimizer.beta2 = kLionBeta2;
}

void check_optimizer(const Config& config, const Checker& checker) {
  const OptimizerSettings& optimizer = config.training.optimizer;
  const std::vector<double>& boundaries = optimizer.boundaries;
  const std::string path = "training.optimizer.boundaries";
  if (std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) != boundaries.end()) {
    checker.fail(path, path + " is " + write(boundaries, {}) + "; the epochs must increase");
  }
  std::vector<std::pair<std::string, std::optional<RateRule>>> rules{
      {"training.optimizer.rule", optimizer.rule},
      {"method.coarse.rule", config.method.coarse.rule},
      {"method.dense.rule", config.method.dense.rule},
      {"method.finetune.rule", config.method.finetune.rule}};
  for (const StageOverride& stage : config.method.stages) {
    rules.emplace_back("method.stages", stage.coarse.rule);
    rules.emplace_back("method.stages", stage.dense.rule);
  }
  for (const auto& [key, rule] : rules) {
    if (rule == RateRule::piecewise && boundaries.empty()) {
      checker.fail(key, key + ": the rule \"piecewise\" needs " + path + ", such as [50, 75]");
    }
    if (config.method.curve == RateScope::run && (rule == RateRule::piecewise || rule == RateRule::plateau)) {
      checker.fail(key, key + ": the rule " + quoted(to_string(*rule)) +
                            " counts the epochs of one phase and makes no curve over the run; set "
                            "method.curve = \"phase\", or the rule constant, cosine or linear");
    }
  }
}

// `role` as overridden by the stage's own keys.
bool waits_for_nothing(const RoleSettings& role, const RoleSettings& stage = {}) {
  return (role.patience || stage.patience) && !role.threshold && !stage.threshold;
}

}  // namespace

std::string to_string(MethodName name) { return words_of<MethodName>().at(static_cast<std::size_t>(name)); }
std::string to_string(TopRule top) { return words_of<TopRule>().at(static_cast<std::size_t>(top)); }

void check_stops(const MethodConfig& method, const KeyLocations& locations, const std::string& origin) {
  const Checker checker(locations, origin);
  const auto fail = [&](const std::string& path, const std::string& key) {
    checker.fail(path, key + "patience counts epochs in which the training loss falls by less than " + key +
                           "threshold, which is not set; set it too, or remove the patience");
  };
  const auto check = [&](const std::string& name, const RoleSettings& role, auto stage_role) {
    const std::string key = "method.stop." + name + ".";
    bool by_stages = !method.stages.empty();  // every stage may set the threshold itself
    for (std::size_t i = 0; i < method.stages.size(); ++i) {
      const RoleSettings& stage = method.stages[i].*stage_role;
      by_stages = by_stages && stage.threshold;
      if (stage.patience && waits_for_nothing(role, stage))
        fail("method.stages", fmt::format("method.stages[{}].{}.", i, name));
    }
    if (!by_stages && waits_for_nothing(role)) fail(key + "patience", key);
  };
  check("coarse", method.coarse, &StageOverride::coarse);
  check("dense", method.dense, &StageOverride::dense);
  if (waits_for_nothing(method.finetune)) fail("method.stop.finetune.patience", "method.stop.finetune.");
}

void complete(Config& config, const KeyLocations& locations, const std::string& origin) {
  const Checker checker(locations, origin);
  complete_data(config.data, locations, origin);
  complete_model(config, checker);
  check_run(config.run, checker);
  complete_optimizer(config.training.optimizer, checker);
  complete_parts(config, locations, origin);
  check_optimizer(config, checker);
  complete_tournament(config, locations, origin);
  complete_task(config, locations, origin);
  complete_method(config, checker);
  check_grid(config, checker);
  complete_communication(config, locations, origin);
  check_training(config, locations, origin);
  check_tournament(config, locations, origin);
}

}  // namespace mrmf
