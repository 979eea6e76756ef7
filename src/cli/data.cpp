// `mrmf data`: what the data of a configuration are, and what will be slow or go wrong with them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "io/rows/split.hpp"
#include "kernels/errors.hpp"
#include "src/cli/commands.hpp"
#include "src/data/classes.hpp"
#include "src/data/data.hpp"
#include "src/inspection/survey.hpp"
#include "src/plan/output_and_label_shapes.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kMostLines = 32;  // most lines of channels, or of classes

struct DataOptions {
  std::string config;
  std::vector<std::string> overrides;
  bool headers = false, json = false;
};

// Names of classes or channels, or their numbers, from 0 on.
class Names {
 public:
  explicit Names(const std::vector<std::string>& names = {}) : names_(names) {
    for (const std::string& name : names) width_ = std::max(width_, name.size());
    width_ = std::min<std::size_t>(width_, 40);
  }
  std::string operator[](std::size_t c) const { return c < names_.size() ? names_[c] : std::to_string(c); }
  std::size_t width() const { return width_; }

 private:
  std::vector<std::string> names_;
  std::size_t width_ = 7;
};

std::string channels_text(const ChannelFacts& facts, const Names& names) {
  std::string text = fmt::format("    {:>{}} {:>12} {:>12} {:>12} {:>12}\n", "channel", names.width(), "least", "mean",
                                 "deviation", "most");
  for (std::size_t c = 0; c < std::min(facts.mean.size(), kMostLines); ++c)
    text += fmt::format("    {:>{}} {:>12.5g} {:>12.5g} {:>12.5g} {:>12.5g}\n", names[c], names.width(), facts.least[c],
                        facts.mean[c], facts.deviation[c], facts.most[c]);
  if (facts.mean.size() > kMostLines) text += fmt::format("    ... {} channels; --json has all\n", facts.mean.size());
  return text;
}

// What was done to stored numbers, and how many were missing.
std::string packing_text(const NumbersFound& found) {
  const double missing = found.missing.value_or(0);
  std::string text = fmt::format("{}", fmt::join(found.packing, "\n    "));
  if (missing > 0) text += fmt::format("{}{:.0f} numbers missing", text.empty() ? "" : "; ", missing);
  return text.empty() ? "" : "    " + text + "\n";
}

std::string numbers_text(const std::string& what, const NumbersFound& found, const Names& names) {
  const std::string storage = found.storage.empty() ? "" : fmt::format(", {}", fmt::join(found.storage, ", "));
  return fmt::format("  {} '{}': {}{}, each {}\n", what, found.name, fmt::join(found.types, ", "), storage,
                     found.shape) +
         packing_text(found) + (found.facts ? channels_text(*found.facts, names) : "");
}

std::string split_text(const SplitFound& split, const Names& names) {
  std::string text = fmt::format("{}: {} samples in {} file{}, {:.3g} GB\n", split.part, split.shape.samples,
                                 split.spec.files.size(), split.spec.files.size() == 1 ? "" : "s", split.bytes / 1e9);
  if (split.part == "training" && !split.shape.unused.empty()) text += "  " + split.shape.unused + "\n";
  if (!split.not_finite.empty()) {
    text += fmt::format("  {} rows hold NaN or infinity:\n", split.not_finite.size());
    for (const std::string& rows : some_rows(split.spec, split.shape, split.not_finite)) text += "    " + rows + "\n";
  }
  text += numbers_text("samples", split.samples, Names()) + numbers_text("labels", split.labels, names);
  if (!split.class_counts.empty()) text += fmt::format("    {:>{}} {:>12}\n", "class", names.width(), "labels");
  for (std::size_t c = 0; c < std::min(split.class_counts.size(), kMostLines); ++c)
    text += fmt::format("    {:>{}} {:>12}\n", names[c], names.width(), split.class_counts[c]);
  return text + "\n";
}

nlohmann::json to_json(const NumbersFound& found) {
  nlohmann::json json{{"name", found.name},
                      {"types", found.types},
                      {"packing", found.packing},
                      {"storage", found.storage},
                      {"shape", found.shape}};
  if (found.missing) json["missing"] = *found.missing;
  if (!found.facts) return json;
  json["channels"] = {{"least", found.facts->least},
                      {"mean", found.facts->mean},
                      {"deviation", found.facts->deviation},
                      {"most", found.facts->most}};
  return json;
}

std::string to_json(const DataFound& found, const std::vector<std::string>& names) {
  nlohmann::json json{{"advice", found.advice}, {"names", names}};
  for (const SplitFound& split : found.splits)
    json[split.part] = {
        {"samples", split.shape.samples},   {"files", split.spec.files},      {"bytes", split.bytes},
        {"unused", split.shape.unused},     {"not_finite", split.not_finite}, {"class_counts", split.class_counts},
        {"sample", to_json(split.samples)}, {"label", to_json(split.labels)}};
  for (const SplitFound& split : found.splits)
    if (split.rows)
      json[split.part]["rows"] = {{"looked_at", split.rows->looked()},
                                  {"constant", split.rows->constant()},
                                  {"zeros", split.rows->zeros()},
                                  {"missing", split.rows->missing()},
                                  {"repeated", split.rows->repeated()}};
  return json.dump() + "\n";
}

// Names of classes, or of the labels' channels, as a run has them; none where they have none, or do not fit: an advice
// then.
std::vector<std::string> find_names(Config config, DataFound& found) {
  const SplitFound& train = found.splits.front();
  const bool classes = train.spec.form.kind == LabelKind::classes;
  const Index outputs = classes ? train.spec.form.classes : train.shape.label.channels;
  if (outputs <= 0) return {};
  config.data.train = train.spec;
  try {
    std::ranges::copy(resolve_names(config, outputs, train.shape), std::back_inserter(found.advice));
    return names_of(config);
  } catch (const ConfigError& error) {  // on every rank alike
    found.advice.emplace_back(error.what());
    return {};
  }
}

// Why training would refuse these data, or nothing.
std::string misfit(Config config, const DatasetShape& train) {
  try {
    require_channels(config.data, train.sample);
  } catch (const ConfigError& error) {
    return error.what();
  }
  try {
    const bool chosen = config.method.name == MethodName::automatic;  // the plan, whose resolutions fit
    resolve_labels(config, train, chosen ? std::vector{Extent{1, 1, 1}} : make_plan(config).resolutions());
  } catch (const ConfigError& error) {
    return std::string("the model does not fit the data: ") + error.what();
  }
  return {};
}

void print_data(const DataOptions& options, Comm& world) {
  const Config config = read_config(options.config, options.overrides);
  DataFound found = survey(config, options.headers, world);
  for (const SplitFound& split : found.splits) require_same_names(found.splits.front().shape, split.shape, split.part);
  const std::vector<std::string> names = find_names(config, found);
  if (!world.root()) return;
  if (const std::string why = misfit(config, found.splits.front().shape); !why.empty()) found.advice.push_back(why);
  if (options.json) {
    std::cout << to_json(found, names);
    return;
  }
  for (const SplitFound& split : found.splits) std::cout << split_text(split, Names(names));
  for (const std::string& line : found.advice) std::cout << "advice: " << line << "\n";
  if (found.advice.empty())
    std::cout << (options.headers ? "the headers give no cause for advice\n"
                                  : "nothing stands in the way of training\n");
}

}  // namespace

void add_data(Subcommands& commands) {
  CLI::App* data = commands.app.add_subcommand(
      "data",
      "print what the data files hold (shapes, types, ranges, gaps, classes) and what will be slow or go wrong, with "
      "what to do about it");
  auto options = std::make_shared<DataOptions>();
  add_config(*data, options->config, options->overrides);
  data->add_flag("--headers", options->headers, "read no samples or labels: no ranges, no search for NaN");
  add_json(*data, options->json);
  add_example(*data, "mrmf data mine.toml");
  commands.run(*data, [=, &world = commands.world] { print_data(*options, world); });
}

}  // namespace mrmf
