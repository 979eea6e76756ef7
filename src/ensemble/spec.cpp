#include "src/ensemble/spec_and_design.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "io/files/file_names.hpp"
#include "io/files/input_file.hpp"
#include "io/files/text.hpp"
#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "src/config/key_table.hpp"
#include "src/config/toml.hpp"

namespace mrmf {
namespace {

constexpr Index kMostBytes = 1 << 20;
const std::vector<std::string> kAxisWords{"from", "to", "values", "scale", "count"};

/// What a file says, before it is known what members are.
struct Written {
  EnsembleSpec spec;
  Value simulate, axes, collect;
  TrainSpec train;
  CommandSpec command;
};

Key<Written> tree_key(const std::string& path, Value Written::*tree, const std::string& expected,
                      const std::string& meaning) {
  return {path, expected, meaning, [=](Written& w, const Value& value, const std::string&) { w.*tree = value; },
          [](const Written&) { return std::string(); }};
}

std::vector<Key<Written>> ensemble_keys() {
  return {
      make_key<Written>("ensemble.folder", MRMF_FIELD(spec.folder), {},
                        "where everything is kept; the same command continues there"),
      make_key<Written>("ensemble.seed", MRMF_FIELD(spec.seed), at_least(0),
                        "seed of the design and of the validation share"),
      make_key<Written>("ensemble.retries", MRMF_FIELD(spec.retries), within(0, 1000),
                        "how often a failed member is tried again"),
      make_key<Written>("ensemble.most_failed", MRMF_FIELD(spec.most_failed), at_least(0),
                        "members that may fail for good without an error at the end"),
      make_key<Written>("ensemble.side_by_side", MRMF_FIELD(spec.side_by_side), within(0, 4096),
                        "members at once on a rank; 0: as many as it has cores"),
      make_key<Written>("ensemble.ranks_per_member", MRMF_FIELD(spec.ranks_per_member), within(1, 1 << 20),
                        "ranks that train one member together, under mpirun or srun"),
      make_key<Written>("ensemble.validation", MRMF_FIELD(spec.validation), from_below(0, 1),
                        "share of the members that the data set marks for validation"),
      make_key<Written>("ensemble.rounds.count", MRMF_FIELD(spec.rounds.count), within(0, 1000),
                        "how often members are added where models disagree"),
      make_key<Written>("ensemble.rounds.members", MRMF_FIELD(spec.rounds.members), at_least(0),
                        "members added by a round"),
      make_key<Written>("ensemble.rounds.models", MRMF_FIELD(spec.rounds.models), within(2, 64),
                        "models that are trained in a round, each with its own seed"),
      make_key<Written>("ensemble.rounds.candidates", MRMF_FIELD(spec.rounds.candidates), within(2, 1e7),
                        "points among which a round chooses"),
      make_key<Written>("ensemble.rounds.config", MRMF_FIELD(spec.rounds.config), {},
                        "configuration of the models; it trains on the ensemble's data set"),
      make_key<Written>("ensemble.rounds.set", MRMF_FIELD(spec.rounds.settings), {},
                        "keys that it sets, as \"key=value\""),
      make_key<Written>("design.kind", MRMF_FIELD(spec.design.kind),
                        one_of({"latin-hypercube", "sobol", "grid", "list"}), "how points are chosen"),
      make_key<Written>("design.members", MRMF_FIELD(spec.design.members), within(0, kMostMembers),
                        "how many; of a grid or list all unless given"),
      make_key<Written>("design.file", MRMF_FIELD(spec.design.file), {}, "of a list: CSV with a header, or HDF5"),
      make_key<Written>("design.dataset", MRMF_FIELD(spec.design.dataset), {},
                        "of a list in HDF5: the data set (members, keys); without it each key is a data set"),
      make_key<Written>("design.columns", MRMF_FIELD(spec.design.columns), {},
                        "the keys that design.dataset's columns are"),
      tree_key("design.keys", &Written::axes,
               "a table of keys, each [from, to] or { from, to, scale, count } or { values }",
               "the keys that differ between members, and their values"),
      tree_key("simulate", &Written::simulate, "a table: simulator, and values of its keys", "members are simulated"),
      make_key<Written>("train.config", MRMF_FIELD(train.config), {},
                        "configuration of which each member sets the design's keys"),
      make_key<Written>("train.set", MRMF_FIELD(train.settings), {}, "keys that all members set, as \"key=value\""),
      make_key<Written>("command.line", MRMF_FIELD(command.line), {},
                        "line of the shell that makes a member, with {key}, {member}, {seed} and {output}"),
      make_key<Written>("command.output", MRMF_FIELD(command.output), {},
                        "HDF5 file that it writes, in the member's folder"),
      tree_key("command.collect", &Written::collect,
               "a table of data sets and their shapes, such as { field = [32, 32] }", "what is taken from that file"),
      make_key<Written>("command.writable", MRMF_FIELD(command.writable), {},
                        "folders beside its own that a member may write to"),
  };
}

double number_of(const Value& value, const std::string& path) { return read_real(value, path, within(-1e300, 1e300)); }

void set_values(Axis& axis, const Value& value, const std::string& path) {
  for (const Value& item : read_list(value)) {  // whatever a key takes: words, true, lists
    if (item.kind == Value::Kind::table) refuse(item, path, "a list of values");
    axis.values.push_back(item.kind == Value::Kind::text ? item.text : render(item));
  }
  if (axis.values.empty()) refuse(value, path, "a list of one value or more");
  axis.words =
      !std::ranges::all_of(axis.values, [](const std::string& text) { return number_in_text(text).has_value(); });
  std::vector<double> numbers;
  for (std::size_t i = 0; i < axis.values.size(); ++i)
    numbers.push_back(axis.words ? static_cast<double>(i) : *number_in_text(axis.values[i]));
  axis.from = std::ranges::min(numbers), axis.to = std::ranges::max(numbers);
}

Axis read_axis(const Value& value, const std::string& path) {
  Axis axis;
  axis.key = path, axis.where = value.where;
  const std::string full = "design.keys." + path;
  if (value.kind == Value::Kind::list) {
    if (value.items.size() != 2) refuse(value, full, "[from, to], or { values = [...] } for values of a list");
    axis.from = number_of(value.items[0], full), axis.to = number_of(value.items[1], full);
  } else {
    for (const Value& item : value.items) {
      if (item.key == "values")
        set_values(axis, item, full + ".values");
      else if (item.key == "from")
        axis.from = number_of(item, full + ".from");
      else if (item.key == "to")
        axis.to = number_of(item, full + ".to");
      else if (item.key == "count")
        axis.count = static_cast<int>(read_integer(item, full + ".count", within(1, 1e6)));
      else if (item.key == "scale")
        axis.logarithmic = read_word(item, full + ".scale", one_of({"linear", "log"})) == 1;
      else
        unknown_key(item, full + "." + item.key, kAxisWords);
    }
    if (axis.values.empty() && (value.find("from") == nullptr || value.find("to") == nullptr))
      throw ConfigError(value.where + ": " + full + " needs from and to, or values");
    if (!axis.values.empty() && value.items.size() > 1)
      throw ConfigError(value.where + ": " + full + " has values; leave out from, to, scale and count");
  }
  if (axis.values.empty() && !(axis.from < axis.to))
    throw ConfigError(
        fmt::format("{}: {} goes from {} to {}; the first must be the smaller", value.where, full, axis.from, axis.to));
  if (axis.logarithmic && !(axis.from > 0))
    throw ConfigError(
        fmt::format("{}: {} begins at {}; scale = \"log\" needs numbers above 0", value.where, full, axis.from));
  return axis;
}

// Dotted keys are tables in tables.
void read_axes(const Value& table, const std::string& prefix, std::vector<Axis>& axes) {
  for (const Value& value : table.items) {
    const std::string path = prefix + value.key;
    const bool is_table = value.kind == Value::Kind::table;
    const bool own =
        is_table && std::ranges::any_of(kAxisWords, [&](const auto& word) { return value.find(word) != nullptr; });
    if (is_table && !own) {
      read_axes(value, path + ".", axes);
    } else if (is_table || value.kind == Value::Kind::list) {
      axes.push_back(read_axis(value, path));
    } else {
      refuse(value, "design.keys." + path, "[from, to], { from, to } or { values }");
    }
  }
}

void read_design(Written& written, const Value& root) {
  DesignSpec& design = written.spec.design;
  const auto missing = [&](const std::string& what) { throw ConfigError(written.spec.origin + ": " + what); };
  if (root.find("design") == nullptr || root.find("design")->find("kind") == nullptr)
    missing("design.kind is missing; give \"latin-hypercube\", \"sobol\", \"grid\" or \"list\"");
  if (written.axes.kind != Value::Kind::table) refuse(written.axes, "design.keys", "a table of keys");
  read_axes(written.axes, "", design.axes);
  const bool list = design.kind == DesignKind::list;
  if (list && design.file.empty()) missing("design.file is missing; a list needs a CSV or HDF5 file");
  if (!list && !design.file.empty()) missing("design.file is for design.kind = \"list\"");
  if (list && !design.axes.empty())
    missing("design.keys are those of design.file; leave them out, or take another design.kind");
  if (!list && design.axes.empty()) missing("design.keys is missing; name the keys that differ between members");
  const bool random = design.kind == DesignKind::latin_hypercube || design.kind == DesignKind::sobol;
  if (random && design.members < 1) missing("design.members is missing; say how many members there are");
  for (const Axis& axis : design.axes) {
    if (design.kind == DesignKind::grid && axis.values.empty() && axis.count < 1)
      throw ConfigError(
          fmt::format("{}: design.keys.{} of a grid needs values or a count, as in {{ from = {}, to = {}, count = 5 }}",
                      axis.where, axis.key, axis.from, axis.to));
    if (design.kind != DesignKind::grid && axis.count > 0)
      throw ConfigError(fmt::format("{}: design.keys.{}.count is for design.kind = \"grid\"", axis.where, axis.key));
  }
}

void read_simulate(EnsembleSpec& spec, const Value& table) {
  if (table.kind != Value::Kind::table) refuse(table, "simulate", "a table");
  const Value* name = table.find("simulator");
  if (name == nullptr)
    throw ConfigError(fmt::format("{}: simulate.simulator is missing; there are {}", table.where,
                                  fmt::join(simulator_names(), ", ")));
  SimulateSpec simulate;
  simulate.simulator = simulator_names().at(read_word(*name, "simulate.simulator", one_of(simulator_names())));
  simulate.keys = simulator_keys(simulate.simulator);
  std::vector<std::string> known{"simulate.simulator"};
  for (const SimulatorKey& key : simulate.keys)
    known.push_back("simulate." + key.name), simulate.values.push_back(key.standard);
  for (const Value& value : table.items) {
    if (value.key == "simulator") continue;
    const auto key = std::ranges::find(simulate.keys, value.key, &SimulatorKey::name);
    if (key == simulate.keys.end()) unknown_key(value, "simulate." + value.key, known);
    const Rule rule = within(key->least, key->most);
    simulate.given.push_back(key->name);
    simulate.values[static_cast<std::size_t>(key - simulate.keys.begin())] =
        key->whole ? static_cast<double>(read_integer(value, "simulate." + value.key, rule))
                   : read_real(value, "simulate." + value.key, rule);
  }
  spec.simulate = std::move(simulate);
}

// The path of a file or folder that a member has in its own folder.
void require_inside(const std::string& path, const std::string& key, const std::string& origin) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  if (path.empty() || normal.is_absolute() || normal.begin()->string() == ".." || normal == ".")
    throw ConfigError(origin + ": " + key + " = " + mrmf::quoted(path) +
                      " is outside of the member's folder; give a name without a path");
}

void read_command(Written& written) {
  CommandSpec& command = written.command;
  const std::string& origin = written.spec.origin;
  if (command.line.empty()) throw ConfigError(origin + ": command.line is missing");
  require_inside(command.output, "command.output", origin);
  for (const std::string& folder : command.writable)
    if (std::error_code none; !std::filesystem::is_directory(folder, none))
      throw ConfigError(fmt::format("{}: command.writable: {} is no folder; make it first", origin, folder));
  if (written.collect.kind != Value::Kind::table || written.collect.items.empty())
    throw ConfigError(
        origin +
        ": command.collect is missing; name the data sets of {output} and their shapes, such as { field = [32, 32] }");
  for (const Value& value : written.collect.items) {
    MemberArray part{value.key, {}};
    for (const Value& size : read_list(value))
      part.shape.push_back(read_integer(size, "command.collect." + value.key, within(1, 1e9)));
    command.collect.push_back(std::move(part));
  }
  written.spec.command = command;
}

void read_members(Written& written, const Value& root) {
  EnsembleSpec& spec = written.spec;
  std::vector<std::string> given;
  for (const char* section : {"simulate", "train", "command"})
    if (root.find(section) != nullptr) given.emplace_back(section);
  if (given.size() != 1)
    throw ConfigError(fmt::format("{}: {}; give one of [simulate], [train] and [command]", spec.origin,
                                  given.empty()
                                      ? std::string("nothing says what members are")
                                      : fmt::format("[{}] both say what members are", fmt::join(given, "] and ["))));
  if (given.front() == "simulate") return read_simulate(spec, written.simulate);
  if (given.front() == "command") return read_command(written);
  if (written.train.config.empty()) throw ConfigError(spec.origin + ": train.config is missing");
  spec.train = written.train;
}

void check_rounds(const EnsembleSpec& spec) {
  const RoundsSpec& rounds = spec.rounds;
  if (rounds.count == 0) return;
  const auto refuse_rounds = [&](const std::string& what) { throw ConfigError(spec.origin + ": " + what); };
  if (rounds.members < 1) refuse_rounds("ensemble.rounds.members is missing; say how many a round adds");
  if (rounds.config.empty()) refuse_rounds("ensemble.rounds.config is missing; name the configuration of the models");
  if (rounds.candidates < rounds.members)
    refuse_rounds(fmt::format("ensemble.rounds.candidates = {} are fewer than the {} members that a round adds",
                              rounds.candidates, rounds.members));
  read_config(rounds.config, rounds.settings);  // before any member is made
  if (spec.train) refuse_rounds("ensemble.rounds is for members that are simulated, by [simulate] or [command]");
  if (spec.design.kind == DesignKind::list || spec.design.kind == DesignKind::grid)
    refuse_rounds("ensemble.rounds needs ranges to choose from: design.kind = \"latin-hypercube\" or \"sobol\"");
}

}  // namespace

std::string Axis::text(double coordinate) const {
  if (words) return values.at(static_cast<std::size_t>(coordinate));
  return whole ? fmt::format("{:.0f}", coordinate) : fmt::format("{}", coordinate);
}

EnsembleSpec read_ensemble(const std::string& path, const std::vector<std::string>& settings) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) throw ConfigError(path + ": there is no such file");
  Written written;
  EnsembleSpec& spec = written.spec;
  spec.origin = path;
  Value root = parse_toml(read_file(path, kMostBytes), path);
  for (const std::string& setting : settings) apply_override(root, setting);
  KeyLocations locations;
  read_table(root, "", "", ensemble_keys(), written, locations);
  if (spec.folder.empty())
    throw ConfigError(path + ": ensemble.folder is missing; name the folder that keeps the ensemble");
  if (const std::string advice = advice_on_output(spec.folder); !advice.empty())
    throw ConfigError(path + ": ensemble.folder = \"" + spec.folder + "\": " + advice);
  read_members(written, root);
  read_design(written, root);
  check_rounds(spec);
  if (spec.design.kind != DesignKind::list) place_axes(spec);
  return spec;
}

std::string identity(const EnsembleSpec& spec) {
  std::string text = fmt::format("seed = {}\nvalidation = {}\nkind = {}\nmembers = {}\n", spec.seed, spec.validation,
                                 static_cast<int>(spec.design.kind), spec.design.members);
  for (const Axis& axis : spec.design.axes)
    text += fmt::format("design.{} = [{}, {}, {}, {}, \"{}\"]\n", axis.key, axis.from, axis.to, axis.logarithmic,
                        axis.count, fmt::join(axis.values, "|"));
  if (spec.simulate) {
    text += "simulator = " + spec.simulate->simulator + "\n";
    for (std::size_t k = 0; k < spec.simulate->keys.size(); ++k)
      text += fmt::format("simulate.{} = {}\n", spec.simulate->keys[k].name, spec.simulate->values[k]);
  }
  if (spec.train)
    text += fmt::format("train = {}\n{}", fmt::join(spec.train->settings, " "),
                        to_toml(read_config(spec.train->config, spec.train->settings)));
  if (spec.command) {
    text += fmt::format("command = {}\noutput = {}\n", spec.command->line, spec.command->output);
    for (const MemberArray& part : spec.command->collect)
      text += fmt::format("collect.{} = [{}]\n", part.name, fmt::join(part.shape, ", "));
  }
  if (spec.rounds.count > 0)
    text += fmt::format("rounds = {} {} {} {} {} {}\n", spec.rounds.count, spec.rounds.members, spec.rounds.models,
                        spec.rounds.candidates, spec.rounds.config, fmt::join(spec.rounds.settings, " "));
  return text;
}

std::string ensemble_keys_text() {
  std::string text;
  for (const Key<Written>& key : ensemble_keys())
    text += fmt::format("{:<28} {} ({})\n", key.path, key.meaning, key.expected);
  for (const std::string& name : simulator_names()) {
    text += "\nsimulate.simulator = \"" + name + "\"\n";
    for (const SimulatorKey& key : simulator_keys(name))
      text +=
          fmt::format("  {:<30} {} ({}{} to {}{}{})\n", key.name, key.meaning, key.whole ? "whole, " : "", key.least,
                      key.most, std::isnan(key.standard) ? "" : fmt::format("; {} unless given", key.standard),
                      key.fixed ? "; the same for all members" : "");
  }
  return text;
}

}  // namespace mrmf
