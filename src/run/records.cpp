#include "src/run/records_and_train_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
#include "src/config/key_table.hpp"
#include "src/plan/plan.hpp"
#include "src/run/record_json.hpp"

namespace mrmf {
namespace {

// The enumerator of E, from the first one to `last`, that a word stands for.
template <class E>
E word(const std::string& text, E last) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (to_string(static_cast<E>(i)) == text) return static_cast<E>(i);
  throw std::out_of_range("there is no \"" + text + "\"");
}

Extent extent_of(const Json& json) {
  std::vector<Index> values;
  for (const Json& factor : json) values.push_back(whole_number<Index>(factor));
  Extent extent{1, 1, 1};
  if (values.empty() || values.size() > extent.size()) throw std::runtime_error("a resolution has 1 to 3 factors");
  if (std::ranges::any_of(values, [](Index factor) { return factor < 1; }))
    throw std::runtime_error("a resolution has a factor below 1");
  std::copy(values.begin(), values.end(), extent.end() - static_cast<std::ptrdiff_t>(values.size()));
  return extent;
}

// Means have the plain names; the ranks' least and most stand beside them.
void add_time_shares(Json& json, const TimeShares& split) {
  const auto add = [&](const std::string& part, const RankSeconds& s) {
    json[part + "_seconds"] = s.mean;
    json[part + "_range"] = {s.least, s.most};
  };
  add("io", split.io);
  add("compute", split.compute);
  add("communication", split.communication);
  json["hidden_seconds"] = split.hidden;
  json["averaging_seconds"] = split.averaging;
}

// Records of earlier versions have only one rank's seconds.
TimeShares time_shares_of(const Json& json) {
  const auto part = [&](const std::string& name) {
    const double mean = json.at(name + "_seconds");
    const auto range = json.find(name + "_range");
    if (range == json.end()) return RankSeconds{mean, mean, mean};
    return RankSeconds{mean, range->at(0), range->at(1)};
  };
  return {part("io"), part("compute"), part("communication"), json.value("hidden_seconds", 0.0),
          json.value("averaging_seconds", 0.0)};
}

std::string key_of(const Metric& metric) { return "validation_" + to_string(metric); }

std::optional<MetricValue> metric_of(const Json& j) {
  const std::string before = "validation_";
  for (const auto& [key, value] : j.items()) {
    if (!key.starts_with(before)) continue;
    if (const auto metric = metric_from(key.substr(before.size()))) return MetricValue{*metric, number_of(value)};
  }
  return {};
}

Json epoch_json(const EpochRecord& r) {
  Json json{{"stage", r.stage},
            {"role", to_string(r.role)},
            {"resolution", factors(r.resolution, r.axes)},
            {"epoch", r.epoch},
            {"samples", r.samples},
            {"train_loss", number(r.train_loss)},
            {"validation_loss", number(r.validation_loss)},
            {"seconds", r.seconds},
            {"learning_rate", r.learning_rate},
            {"batch", r.batch},
            {"ranks", r.ranks},
            {"total_seconds", r.total_seconds},
            {"gflop", r.gflop}};
  if (product(r.grid) > 1) json["grid"] = factors(r.grid, r.axes);
  if (r.statistics_gflop > 0) json["statistics_gflop"] = r.statistics_gflop;
  if (r.metric) json[key_of(r.metric->metric)] = number(r.metric->value);
  add_time_shares(json, r.time_shares);
  if (r.sent_bytes > 0) json["sent_bytes"] = r.sent_bytes;
  for (const MomentaSpread& spread : r.momenta)
    json["momenta"][spread.tensor] = {{"mean_square", number(spread.mean_square)},
                                      {"variance", number(spread.variance)}};
  for (const TermLoss& term : r.terms) json["terms"][term.term] = number(term.loss);
  return json;
}

std::vector<TermLoss> terms_of(const Json& j) {
  std::vector<TermLoss> terms;
  if (const auto found = j.find("terms"); found != j.end())
    for (const auto& [term, loss] : found->items()) terms.push_back({term, number_of(loss)});
  return terms;
}

std::vector<MomentaSpread> momenta_of(const Json& j) {
  std::vector<MomentaSpread> momenta;
  if (const auto found = j.find("momenta"); found != j.end())
    for (const auto& [tensor, spread] : found->items())
      momenta.push_back({tensor, number_of(spread.at("mean_square")), number_of(spread.at("variance"))});
  return momenta;
}

EpochRecord epoch_of(const Json& j) {
  return {.stage = whole_number<int>(j.at("stage")),
          .role = word(j.at("role"), Role::finetune),
          .resolution = extent_of(j.at("resolution")),
          .grid = j.contains("grid") ? extent_of(j.at("grid")) : Extent{1, 1, 1},
          .axes = static_cast<int>(j.at("resolution").size()),
          .epoch = whole_number<int>(j.at("epoch")),
          .samples = whole_number<Index>(j.at("samples")),
          .train_loss = number_of(j.at("train_loss")),
          .validation_loss = number_of(j.at("validation_loss")),
          .seconds = j.at("seconds"),
          .time_shares = time_shares_of(j),
          .learning_rate = j.at("learning_rate"),
          .batch = whole_number<int>(j.at("batch")),
          .ranks = whole_number<int>(j.at("ranks")),
          .total_seconds = j.at("total_seconds"),
          .gflop = j.value("gflop", 0.0),
          .statistics_gflop = j.value("statistics_gflop", 0.0),
          .metric = metric_of(j),
          .sent_bytes = j.value("sent_bytes", 0.0),
          .momenta = momenta_of(j),
          .terms = terms_of(j)};
}

Json note_json(const ModelNote& note) {
  Json json{{"epoch", note.epoch},
            {"epochs", note.epochs},
            {"best", note.best},
            {"validation_loss", number(note.validation_loss)}};
  if (note.metric) json[key_of(note.metric->metric)] = number(note.metric->value);
  return json;
}

ModelNote note_of(const Json& j) {
  return {.epoch = whole_number<int>(j.at("epoch")),
          .epochs = whole_number<int>(j.at("epochs")),
          .validation_loss = number_of(j.at("validation_loss")),
          .metric = metric_of(j),
          .best = j.at("best")};
}

Json phase_json(const PhaseRecord& r) {
  Json json{{"stage", r.stage},   {"role", to_string(r.role)},  {"resolution", factors(r.resolution, r.axes)},
            {"epochs", r.epochs}, {"seconds", r.seconds},       {"gflop", r.gflop},
            {"reason", r.reason}, {"waited_seconds", r.waited}, {"last", epoch_json(r.last)}};
  if (r.best_epoch > 0) json["best_epoch"] = r.best_epoch;
  add_time_shares(json, r.time_shares);
  return json;
}

PhaseRecord phase_of(const Json& j) {
  return {.stage = whole_number<int>(j.at("stage")),
          .role = word(j.at("role"), Role::finetune),
          .resolution = extent_of(j.at("resolution")),
          .axes = static_cast<int>(j.at("resolution").size()),
          .epochs = whole_number<int>(j.at("epochs")),
          .seconds = j.at("seconds"),
          .time_shares = time_shares_of(j),
          .gflop = j.value("gflop", 0.0),
          .last = epoch_of(j.at("last")),
          .reason = j.at("reason"),
          .best_epoch = j.contains("best_epoch") ? whole_number<int>(j.at("best_epoch")) : 0,
          .waited = j.value("waited_seconds", 0.0),
          .joined = j.contains("joined_after") && j.at("joined_after") > 0};
}

Json machine_json(const Machine& m) {
  return {{"host", m.host}, {"processor", m.processor}, {"cores", m.cores}, {"memory_gib", m.memory_gib}};
}

Json versions_json(const Versions& v) {
  return {{"mrmf", v.mrmf},       {"git", v.git},   {"compiler", v.compiler},
          {"backend", v.backend}, {"hdf5", v.hdf5}, {"mpi", v.mpi}};
}

Metric metric_word(const Json& json) {
  const auto metric = metric_from(json.get<std::string>());
  if (!metric) throw std::out_of_range("'" + json.get<std::string>() + "' is no metric");
  return *metric;
}

RunResult result_of(const Json& j) {
  RunResult r;
  r.method = word(j.at("method"), MethodName::automatic);
  r.top = word(todays_word("method.top", j.at("top")), TopRule::stem);
  r.automatic = j.value("schedule", "") == to_string(MethodName::automatic);
  for (const Json& resolution : j.at("resolutions"))
    r.resolutions.push_back(extent_of(resolution)), r.axes = std::max(r.axes, static_cast<int>(resolution.size()));
  r.seed = whole_number<std::uint64_t>(j.at("seed"));
  r.model = j.at("model");
  r.data = j.at("data");
  for (const Json& phase : j.at("stages")) r.phases.push_back(phase_of(phase));
  r.total_seconds = j.at("total_seconds");
  r.validation_loss = number_of(j.at("validation_loss"));
  if (!j.at("target").is_null()) r.target = j.at("target").get<double>();
  r.metric = metric_of(j);
  if (const auto target = j.find("metric_target"); target != j.end())
    r.metric_target = {metric_word(target->at("metric")), target->at("least")};
  r.target_reached = j.at("target_reached");
  if (const auto full = j.find("full_gflop"); full != j.end()) r.full_gflop = full->get<double>();
  if (const auto best = j.find("best"); best != j.end()) r.best = note_of(*best);
  r.ranks = whole_number<int>(j.at("ranks"));
  const Json& m = j.at("machine");
  r.machine = {m.at("host"), m.at("processor"), whole_number<int>(m.at("cores")), m.at("memory_gib")};
  const Json& v = j.at("versions");
  r.versions = {v.at("mrmf"), v.at("git"), v.at("compiler"), v.at("backend"), v.at("hdf5"), v.at("mpi")};
  return r;
}

template <class Read>
auto parse(const std::string& text, const std::string& origin, Read read) {
  require_shallow_json(text, origin);
  std::string reason;
  try {
    return read(Json::parse(text));
  } catch (const Json::parse_error&) {
    reason = "not whole JSON";
  } catch (const std::exception& error) {
    reason = error.what();
    // "[json.exception.out_of_range.403] key 'stage' not found"
    if (reason.starts_with('[')) reason.erase(0, std::min(reason.find("] ") + 2, reason.size()));
  }
  throw DataError(origin + ": not a record of mrmf (" + reason + "); is the run folder damaged?");
}

}  // namespace

RankSeconds& RankSeconds::operator+=(const RankSeconds& other) {
  mean += other.mean, least += other.least, most += other.most;
  return *this;
}

TimeShares& TimeShares::operator+=(const TimeShares& other) {
  io += other.io, compute += other.compute, communication += other.communication, hidden += other.hidden;
  averaging += other.averaging;
  return *this;
}

void PhaseRecord::add(const EpochRecord& epoch) {
  ++epochs;
  seconds += epoch.seconds;
  time_shares += epoch.time_shares;
  gflop += epoch.gflop;
  last = epoch;
}

// A name that is not UTF-8 (a file's, a host's) must not cost a finished run its result.
std::string to_json(const EpochRecord& r) { return epoch_json(r).dump(-1, ' ', false, Json::error_handler_t::replace); }
std::string to_json(const PhaseRecord& r) { return phase_json(r).dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string score_text(double score, int digits) {
  constexpr double kLong = 1e7;  // longer than any column that it stands in
  if (std::isnan(score)) return "-";
  return std::abs(score) < kLong ? fmt::format("{:.{}f}", score, digits) : fmt::format("{:.{}e}", score, digits);
}

std::string to_json(const ModelNote& note) { return note_json(note).dump(); }

std::string to_text(const ModelNote& note) {
  const std::string metric =
      note.metric ? fmt::format(", {} {}", to_string(note.metric->metric), score_text(note.metric->value)) : "";
  return fmt::format("epoch {} of {}, validation {}{}", note.epoch, note.epochs, score_text(note.validation_loss),
                     metric);
}

std::string to_json(const RunResult& r) {
  Json resolutions = Json::array(), phases = Json::array();
  for (const Extent& resolution : r.resolutions) resolutions.push_back(factors(resolution, r.axes));
  for (const PhaseRecord& phase : r.phases) phases.push_back(phase_json(phase));
  Json json = {{"method", to_string(r.method)},
               {"resolutions", resolutions},
               {"top", to_string(r.top)},
               {"schedule", r.automatic ? to_string(MethodName::automatic) : ""},
               {"seed", r.seed},
               {"model", r.model},
               {"data", r.data},
               {"stages", phases},
               {"total_seconds", r.total_seconds},
               {"validation_loss", number(r.validation_loss)},
               {"target", r.target ? Json(*r.target) : Json()},
               {"target_reached", r.target_reached},
               {"ranks", r.ranks},
               {"machine", machine_json(r.machine)},
               {"versions", versions_json(r.versions)}};
  if (r.full_gflop) json["full_gflop"] = *r.full_gflop;
  if (r.best) json["best"] = note_json(*r.best);
  if (r.metric) json[key_of(r.metric->metric)] = number(r.metric->value);
  if (r.metric_target)
    json["metric_target"] = {{"metric", to_string(r.metric_target->metric)}, {"least", r.metric_target->least}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

EpochRecord epoch_from_json(const std::string& text, const std::string& origin) {
  return parse(text, origin, epoch_of);
}
PhaseRecord phase_from_json(const std::string& text, const std::string& origin) {
  return parse(text, origin, phase_of);
}
ModelNote note_from_json(const std::string& text, const std::string& origin) { return parse(text, origin, note_of); }
RunResult result_from_json(const std::string& text, const std::string& origin) {
  return parse(text, origin, result_of);
}

std::string to_json(const TournamentRecord& r) {
  Json json{{"round", r.round},
            {"trainer", r.trainer},
            {"status", r.status},
            {"steps", r.steps},
            {"partner", r.partner < 0 ? Json() : Json(r.partner)},
            {"own", number(r.own)},
            {"other", number(r.other)},
            {"error", number(r.error)},
            {"replaced", r.replaced},
            {"parent", r.parent},
            {"learning_rate", r.learning_rate},
            {"weight_decay", r.weight_decay},
            {"dropout", r.dropout}};
  if (r.best) json["best"] = true;
  if (!r.note.empty()) json["note"] = r.note;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TournamentRecord tournament_record_from_json(const std::string& text, const std::string& origin) try {
  require_shallow_json(text, origin);
  const Json j = Json::parse(text);
  TournamentRecord r;
  r.round = whole_number<int>(j.at("round"));
  r.trainer = whole_number<int>(j.at("trainer"));
  r.status = j.at("status");
  r.steps = whole_number<Index>(j.at("steps"));
  r.partner = j.at("partner").is_null() ? -1 : whole_number<int>(j.at("partner"));
  r.own = number_of(j.at("own"));
  r.other = number_of(j.at("other"));
  r.error = number_of(j.at("error"));
  r.replaced = j.at("replaced");
  r.parent = whole_number<int>(j.at("parent"));
  r.learning_rate = j.at("learning_rate");
  r.weight_decay = j.at("weight_decay");
  r.dropout = j.at("dropout");
  r.best = j.value("best", false);
  r.note = j.value("note", "");
  return r;
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {
  throw DataError(origin + ": no record of a tournament (" + error.what() + ")");
}

std::string tournament_path(const std::string& folder) { return folder + "/tournament.jsonl"; }

std::string trainer_folder(const std::string& folder, int trainer) {
  return fmt::format("{}/trainer-{}", folder, trainer);
}

std::vector<std::string> with_trainers(const std::vector<std::string>& folders) {
  std::vector<std::string> all;
  std::error_code none;
  const auto there = [&](const std::string& path) { return std::filesystem::exists(path, none); };
  for (const std::string& folder : folders) {
    if (!there(tournament_path(folder))) {
      all.push_back(folder);
      continue;
    }
    for (int t = 0; there(trainer_folder(folder, t)); ++t)
      if (there(trainer_folder(folder, t) + "/result.json")) all.push_back(trainer_folder(folder, t));
  }
  return all;
}

std::vector<TournamentRecord> read_tournament(const std::string& folder) {
  const std::string path = tournament_path(folder);
  std::vector<TournamentRecord> records;
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return records;
  std::istringstream lines(read_file(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);)
    records.push_back(tournament_record_from_json(line, fmt::format("{}:{}", path, ++number)));
  return records;
}

std::string to_text(const TournamentRecord& r) {
  const std::string who = r.round > 0 ? fmt::format("round {}, trainer {}: ", r.round, r.trainer)
                                      : fmt::format("the end, trainer {}: ", r.trainer);
  if (r.status == "dropped") return who + "dropped out" + (r.note.empty() ? "" : ": " + r.note);
  if (r.round == 0)
    return who +
           fmt::format("{} on the validation data{}", score_text(r.own), r.best ? ", the best: the run's model" : "");
  if (r.status != "plays") return who + "has ended";
  if (r.partner < 0) return who + fmt::format("meets nobody, {}", score_text(r.own));
  const std::string scores =
      fmt::format("{} against its own {} (standard error {:.2g})", score_text(r.other), score_text(r.own), r.error);
  return who + (r.replaced ? fmt::format("takes the model of trainer {}, {}", r.partner, scores)
                           : fmt::format("keeps its own; that of trainer {} has {}", r.partner, scores));
}

}  // namespace mrmf
