// A comparison as CSV and as JSON.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>

#include "src/compare/runs.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

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

}  // namespace mrmf
