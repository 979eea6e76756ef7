// What other programs get of a comparison: CSV, JSON, and the drawing scripts of jobs/plots (`mrmf plot`).
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "generated/version.hpp"
#include "kernels/errors.hpp"
#include "src/compare/compare.hpp"
#include "src/plan/plan.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {

// A comparison as CSV and as JSON.

namespace {

using Json = nlohmann::ordered_json;

std::string resolutions_text(const RunResult& r) {
  std::string text;
  for (const Extent& e : r.resolutions) text += (text.empty() ? "" : " ") + resolution_text(e, r.axes);
  return text;
}

// A cell for a name or a text with commas or quotes, by RFC 4180.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string settings_text(const RunSet& run_set) {
  std::string text;
  for (const auto& [key, value] : run_set.labels) text += (text.empty() ? "" : "; ") + key + " = " + value;
  return text;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// A run's final figures, in the order of the table.
Json figures(const Run& run, std::optional<double> target) {
  const RunResult& r = run.result;
  const Cost all = total_cost(run);
  Json json{{"seed", r.seed},
            {"ranks", r.ranks},
            {"validation_loss", number(r.validation_loss)},
            {"metric", r.metric ? Json(to_string(r.metric->metric)) : Json(nullptr)},
            {"metric_value", r.metric ? number(r.metric->value) : Json(nullptr)},
            {"target", r.target ? Json(*r.target) : Json(nullptr)},
            {"metric_target", r.metric_target ? Json(r.metric_target->least) : Json(nullptr)},
            {"target_reached", r.target || r.metric_target ? Json(r.target_reached) : Json(nullptr)},
            {"coarse_epochs", static_cast<int>(epochs_of(run, Role::coarse))},
            {"dense_epochs", static_cast<int>(epochs_of(run, Role::dense))},
            {"epochs_after_fusion", static_cast<int>(epochs_after(run))},
            {"seconds", number(all.seconds)},
            {"gflop", number(all.gflop)}};
  if (target) {
    const std::optional<Cost> cost = cost_to(run, *target);
    json["seconds_to_loss"] = cost ? number(cost->seconds) : Json(nullptr);
    json["gflop_to_loss"] = cost ? number(cost->gflop) : Json(nullptr);
  }
  json["folder"] = run.folder;
  return json;
}

Json spread_json(const Spread& s) {
  return {{"n", s.count},
          {"mean", number(s.mean)},
          {"standard_deviation", number(s.deviation)},
          {"standard_error", number(s.error())}};
}

Json comparison(const RunSet& run_set, MethodName method, const std::vector<RunSet>& sets) {
  const RunSet* other = reference_of(run_set, method, sets);
  if (!other) return nullptr;
  const auto add = [&](Json& json, const std::string& name, const Figure& figure, auto compare) {
    const std::optional<Comparison> c = compared(run_set, *other, figure, compare);
    if (!c) return;
    json[name] = spread_json(c->spread);
    json[name]["paired"] = c->paired;
  };
  const auto saving = [](double own, double of) { return 1 - own / of; };
  Json json = Json::object();
  add(json, "loss_difference", loss_of, std::minus<>());
  add(
      json, "seconds_saved", [](const Run& run) { return std::optional(total_cost(run).seconds); }, saving);
  add(
      json, "gflop_saved", [](const Run& run) { return std::optional(total_cost(run).gflop); }, saving);
  return json;
}

Json equal_loss(const RunSet& run_set, const std::vector<RunSet>& sets, const std::vector<RunSet>& from_file) {
  Json json = Json::object();
  for (const auto& [name, measure] :
       {std::pair("seconds_saved", &Cost::seconds), std::pair("gflop_saved", &Cost::gflop)}) {
    if (!from_file.empty() && measure == &Cost::seconds) continue;
    const std::optional<EqualLoss> saved = saved_at_equal_loss(run_set, from_file.empty() ? sets : from_file, measure);
    if (!saved) return nullptr;
    const char* bounds[] = {"none", "at least", "at most"};
    json[name] = {{"mean", number(saved->saved)},
                  {"standard_error", saved->error ? number(*saved->error) : Json(nullptr)},
                  {"bound", bounds[static_cast<int>(saved->bound)]},
                  {"paired", saved->paired}};
  }
  return json;
}

}  // namespace

std::string compare_csv(const std::vector<std::string>& folders, const CompareOptions& options) {
  const std::vector<RunSet> sets = run_sets(folders);
  std::string names, lines;
  for (std::size_t column = 0; column < sets.size(); ++column) {
    const RunSet& run_set = sets[column];
    for (const Run& run : run_set.runs) {
      std::string line = fmt::format("{},{},{},{},{},{}", column + 1, cell(method_name(run.result)),
                                     cell(resolutions_text(run.result)), to_string(run.result.top),
                                     fresh_bottom(run) ? "fresh" : "coarse", cell(settings_text(run_set)));
      names = "column,method,resolutions,top,bottom,settings";
      const Json values = figures(run, options.target);
      for (const auto& [name, value] : values.items()) {
        names += "," + name;
        line += "," + (value.is_null() ? "" : value.is_string() ? cell(value.get<std::string>()) : value.dump());
      }
      lines += line + "\n";
    }
  }
  return names + "\n" + lines;
}

std::string compare_json(const std::vector<std::string>& folders, const CompareOptions& options) {
  const std::vector<RunSet> sets = run_sets(folders);
  const std::vector<RunSet> from_file =
      options.baselines.empty() ? std::vector<RunSet>{} : read_baselines(options.baselines);
  Json columns = Json::array();
  for (const RunSet& run_set : sets) {
    Json runs = Json::array();
    for (const Run& run : run_set.runs) {
      Json json{{"resolutions", resolutions_text(run.result)}};
      json.update(figures(run, options.target));
      runs.push_back(std::move(json));
    }
    columns.push_back(
        {{"method", method_name(run_set.first())},
         {"top", to_string(run_set.first().top)},
         {"bottom", fresh_bottom(run_set.runs.front()) ? "fresh" : "coarse"},
         {"settings", run_set.labels},
         {"validation_loss",
          spread_json(spread_over(run_set, [](const Run& run) { return run.result.validation_loss; }))},
         {"seconds", spread_json(spread_over(run_set, [](const Run& run) { return total_cost(run).seconds; }))},
         {"gflop", spread_json(spread_over(run_set, [](const Run& run) { return total_cost(run).gflop; }))},
         {"against_baseline", comparison(run_set, MethodName::baseline, sets)},
         {"at_equal_loss", equal_loss(run_set, sets, from_file)},
         {"against_mrt", comparison(run_set, MethodName::mrt, sets)},
         {"runs", runs}});
  }
  const Json target = options.target ? Json(*options.target) : Json(nullptr);
  return Json{{"loss", target}, {"columns", columns}, {"warnings", warnings(sets)}}.dump(2) + "\n";
}

// `mrmf plot`: runs the drawing scripts of jobs/.

namespace {

// Looks where an installed or bundled program has them, beside a build folder, and in the sources that the program was
// built from.
std::string script_path(const std::string& name) {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path above = program.parent_path().parent_path();
  for (const std::filesystem::path& folder :
       {above / "share" / "mrmf", above / "jobs", std::filesystem::path(kSourceFolder) / "jobs"})
    if (std::filesystem::exists(folder / "plots" / name)) return folder / "plots" / name;
  throw ConfigError("jobs/plots/" + name + " is not beside the program; run it by hand: python3 jobs/plots/" + name +
                    " --help");
}

// Attributes of a program that gets its signals itself, whatever thread takes this one's (src/run/signals.hpp).
class SpawnAttributes {
 public:
  SpawnAttributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t none{};
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// Lets the script draw into the file, under its temporary name.
void run_script(const std::string& script, std::vector<std::string> options, const OutputFile& picture) {
  const std::string format = std::filesystem::path(picture.target()).extension().string().substr(1);
  options.insert(options.end(), {"-o", picture.path(), "--format", format});
  std::error_code ignored;  // elsewhere than where the program was built, another python3 may be the one
  const std::string python = std::filesystem::exists(kPython, ignored) ? kPython : "python3";
  std::vector<std::string> words{python, script_path(script)};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, argv[0], nullptr, SpawnAttributes().get(), argv.data(), environ) != 0)
    throw ConfigError("cannot start " + words.front() + " to draw the plot");
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) throw DataError("the plot was not made (see above)");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw ConfigError("the plot was not made (see above); needed is " + python + " with matplotlib and h5py");
}

void require_matching(const PlotOptions& options) {
  const bool of_labels = options.kind == PlotKind::labels || options.kind == PlotKind::confusion;
  const std::string what = options.kind == PlotKind::labels      ? "--what labels"
                           : options.kind == PlotKind::confusion ? "--what confusion"
                                                                 : "--what times";
  const bool curves =
      options.kind == PlotKind::loss || options.kind == PlotKind::metric || options.kind == PlotKind::training;
  if (!curves && (options.mean || options.x != "seconds"))
    throw ConfigError("--x and --mean are for losses over cost, not for " + what);
  if (!of_labels && !options.labels.empty()) throw ConfigError("--labels is for --what labels and --what confusion");
  if (of_labels && options.labels.empty())
    throw ConfigError(what + " needs the true labels: --labels FILE:DATASET, as in --labels data.h5:val_y");
  if (of_labels && options.inputs.size() != 1) throw ConfigError(what + " takes one file, which mrmf predict wrote");
}

}  // namespace

std::vector<std::string> draw(const PlotOptions& options) {
  require_matching(options);
  const bool of_runs = options.kind != PlotKind::labels && options.kind != PlotKind::confusion;
  std::vector<std::string> words = of_runs ? with_folds(options.inputs) : options.inputs;
  if (!options.labels.empty()) words.emplace_back("--labels");
  words.insert(words.end(), options.labels.begin(), options.labels.end());
  switch (options.kind) {
    case PlotKind::metric:
    case PlotKind::training:
      words.insert(words.end(), {"--what", options.kind == PlotKind::metric ? "metric" : "training"});
      [[fallthrough]];
    case PlotKind::loss:
      words.insert(words.end(), {"--x", options.x});
      if (options.mean) words.emplace_back("--mean");
      return draw_plot("plot.py", words, options.output);
    case PlotKind::times: return draw_plot("plot_times.py", words, options.output);
    case PlotKind::confusion: words.emplace_back("--matrix"); [[fallthrough]];
    case PlotKind::labels: break;
  }
  return draw_plot("plot_labels.py", words, options.output);
}

std::vector<OutputOption> pictures_of(const OutputOption& output) {
  const std::string suffix = std::filesystem::path(output.file).extension();
  std::vector<OutputOption> pictures{output};
  if (suffix.empty()) pictures = {{output.file + ".png", output.replace}, {output.file + ".svg", output.replace}};
  if (!suffix.empty() && suffix != ".png" && suffix != ".svg")
    throw ConfigError(output.file + ": the name of a plot ends in .png or .svg; without either, both are made");
  for (const OutputOption& picture : pictures) picture.require();
  return pictures;
}

std::vector<std::string> draw_plot(const std::string& script, const std::vector<std::string>& words,
                                   const OutputOption& output) {
  std::vector<std::unique_ptr<OutputFile>> files;
  for (const OutputOption& picture : pictures_of(output)) {
    files.push_back(std::make_unique<OutputFile>(picture.file, picture.replace));
    run_script(script, words, *files.back());
  }
  std::vector<std::string> drawn;
  for (const auto& file : files) {
    file->commit();
    drawn.push_back(file->target());
  }
  return drawn;
}

}  // namespace mrmf
