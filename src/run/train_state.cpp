#include "src/run/records_and_train_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "io/files/input_file.hpp"
#include "src/run/record_json.hpp"

namespace mrmf {
namespace {

// JSON has no infinity, so null stands for the best loss before any epoch.
Json json_of(const LearningRate::State& m) {
  return {{"factor", m.factor},         {"best", std::isfinite(m.best) ? Json(m.best) : Json()},
          {"bad_epochs", m.bad_epochs}, {"cooldown_left", m.cooldown_left},
          {"epochs", m.epochs},         {"scale", m.scale}};
}

LearningRate::State rate_memory(const Json& j) {
  const Json& best = j.at("best");
  return {j.at("factor"),
          best.is_null() ? std::numeric_limits<double>::infinity() : best.get<double>(),
          whole_number<int>(j.at("bad_epochs")),
          whole_number<int>(j.at("cooldown_left")),
          whole_number<int>(j.at("epochs")),
          j.value("scale", 1.0)};
}

// A loss that is not finite has no number in JSON; in a tournament, training goes on with it until the next meeting.
Json json_of_loss(double loss) { return std::isfinite(loss) ? Json(loss) : Json(); }
double loss_of(const Json& j) { return j.is_null() ? kNoScore : j.get<double>(); }

Json json_of(const std::vector<double>& losses) {
  Json all = Json::array();
  for (const double loss : losses) all.push_back(json_of_loss(loss));
  return all;
}

// None in a state of an earlier version.
std::vector<double> losses_of(const Json& j, const char* key) {
  std::vector<double> losses;
  if (j.contains(key))
    for (const Json& loss : j.at(key)) losses.push_back(loss_of(loss));
  return losses;
}

Json json_of(const TournamentState& t) {
  return {{"rounds", t.rounds}, {"weight_decay", t.weight_decay}, {"dropout", t.dropout}, {"scored", t.scored}};
}

// None in a state of an earlier version.
TournamentState tournament_of(const Json& j) {
  const auto found = j.find("tournament");
  if (found == j.end()) return {};
  return {whole_number<int>(found->at("rounds")), found->at("weight_decay"), found->at("dropout"),
          whole_number<Index>(found->at("scored"))};
}

Json json_of(const std::vector<ProbeRecord>& probes) {
  Json all = Json::array();
  for (const ProbeRecord& probe : probes)
    all.push_back({{"epoch", probe.epoch},
                   {"gflop", probe.gflop},
                   {"halfway", probe.halfway},
                   {"end", probe.end},
                   {"probe_gflop", probe.probe_gflop}});
  return all;
}

std::vector<ProbeRecord> probes_of(const Json& j) {
  std::vector<ProbeRecord> probes;
  const auto found = j.contains("probes") ? j.find("probes") : j.find("looks");  // as earlier versions called them
  if (found == j.end()) return probes;
  for (const Json& probe : *found)
    probes.push_back({whole_number<int>(probe.at("epoch")), probe.at("gflop"), probe.at("halfway"), probe.at("end"),
                      probe.at("probe_gflop")});
  return probes;
}

Json json_of(const StopRule::State& m) {
  return {{"epochs", m.epochs},
          {"slow_epochs", m.slow_epochs},
          {"previous", m.previous ? Json(*m.previous) : Json()},
          {"unimproved", m.unimproved},
          {"best", m.best ? Json(*m.best) : Json()},
          {"probes", json_of(m.probes)}};
}

StopRule::State stop_memory(const Json& j) {
  StopRule::State memory{whole_number<int>(j.at("epochs")), whole_number<int>(j.at("slow_epochs")), {}};
  memory.probes = probes_of(j);
  if (!j.at("previous").is_null()) memory.previous = j.at("previous").get<double>();
  if (!j.contains("best")) return memory;  // a state of an earlier version
  memory.unimproved = whole_number<int>(j.at("unimproved"));
  if (!j.at("best").is_null()) memory.best = j.at("best").get<double>();
  return memory;
}

BestEpoch best_of(const Json& j) {
  if (!j.contains("best")) return {};  // a state of an earlier version
  return {whole_number<int>(j.at("best").at("epoch")), j.at("best").at("value")};
}

Json json_of(const EpochTime& t) {
  return {{"io", t.io}, {"compute", t.compute}, {"communication", t.communication}, {"hidden", t.hidden}};
}

EpochTime time_of(const Json& j) { return {j.at("io"), j.at("compute"), j.at("communication"), j.at("hidden")}; }

Json json_of(const PhaseHistory& history) {
  Json epochs = Json::array();
  for (const EpochRecord& epoch : history.epochs) epochs.push_back(Json::parse(to_json(epoch)));
  return {{"record", Json::parse(to_json(history.record))}, {"epochs", epochs}};
}

PhaseHistory history_of(const Json& j, const std::string& origin) {
  PhaseHistory history{phase_from_json(j.at("record").dump(), origin), {}};
  for (const Json& epoch : j.at("epochs")) history.epochs.push_back(epoch_from_json(epoch.dump(), origin));
  return history;
}

template <class Read>
auto parse_state(const std::string& text, const std::string& origin, Read read) {
  require_shallow_json(text, origin);
  try {
    return read(Json::parse(text));
  } catch (const DataError&) {
    throw;
  } catch (const std::exception& error) {
    throw DataError(origin + ": not the state of a phase (" + error.what() + ")");
  }
}

}  // namespace

TrainState::TrainState(const Phase& training)
    : stop(training.stop), rate(training.optimizer, training.stop.epochs, training.curve) {
  history.record.stage = training.stage;
  history.record.role = training.role;
  history.record.resolution = training.resolution;
  history.record.axes = training.axes;
}

bool is_best(const std::vector<EpochRecord>& epochs, int epoch, Monitor monitor) {
  const auto value = [&](const EpochRecord& record) {
    return monitored(monitor, record.validation_loss, rising(record.metric));
  };
  const double best = value(epochs.at(static_cast<std::size_t>(epoch) - 1));
  if (std::isnan(best)) return false;
  return std::ranges::none_of(epochs, [&](const EpochRecord& record) { return value(record) < best; });
}

std::string position_text(const Phase& phase, const TrainState& state) {
  if (state.finished()) return "after " + phase_text(phase);
  const std::string in = "in " + phase_text(phase);
  if (state.step == 0)
    return fmt::format("{}, after {} epoch{}", in, state.stop.epochs(), state.stop.epochs() == 1 ? "" : "s");
  return fmt::format("{}, epoch {}, after {} steps", in, state.stop.epochs() + 1, state.step);
}

std::string to_json(const TrainState& s) {
  return Json{{"stop", json_of(s.stop.state())},
              {"rate", json_of(s.rate.state())},
              {"best", {{"epoch", s.best.epoch}, {"value", s.best.value}}},
              {"history", json_of(s.history)},
              {"step", s.step},
              {"loss", json_of_loss(s.loss)},
              {"terms", json_of(s.terms)},
              {"term_rows", s.term_rows},
              {"tournament", json_of(s.tournament)},
              {"samples", s.samples},
              {"sent", s.sent},
              {"time", json_of(s.time)},
              {"epoch_start", s.epoch_start},
              {"total_seconds", s.total_seconds}}
      .dump();
}

TrainState train_state_from_json(const std::string& text, const Phase& phase, const std::string& origin) {
  return parse_state(text, origin, [&](const Json& j) {
    TrainState state(phase);
    state.stop.load_state(stop_memory(j.at("stop")));
    state.rate.load_state(rate_memory(j.at("rate")));
    state.best = best_of(j);
    state.history = history_of(j.at("history"), origin);
    state.step = whole_number<Index>(j.at("step"));
    state.loss = loss_of(j.at("loss"));
    state.terms = losses_of(j, "terms");
    state.term_rows = losses_of(j, "term_rows");
    state.tournament = tournament_of(j);
    state.samples = whole_number<Index>(j.at("samples"));
    state.sent = j.value("sent", 0.0);  // earlier versions did not count it
    state.time = time_of(j.at("time"));
    state.epoch_start = j.at("epoch_start");
    state.total_seconds = j.at("total_seconds");
    return state;
  });
}

std::string to_json(const PhaseHistory& history) { return json_of(history).dump(); }

PhaseHistory phase_history_from_json(const std::string& text, const std::string& origin) {
  return parse_state(text, origin, [&](const Json& j) { return history_of(j, origin); });
}

}  // namespace mrmf
