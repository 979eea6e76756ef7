#include "src/run/tournament_record.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include "io/files/input_file.hpp"
#include "io/files/limits.hpp"
#include "kernels/errors.hpp"
#include "src/run/record_json.hpp"
#include "src/run/records.hpp"

namespace mrmf {

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
