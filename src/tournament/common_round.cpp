#include "src/tournament/common_round.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/files/limits.hpp"
#include "io/files/output_file.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/records.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string checkpoint_path(const std::string& folder, int phase) {
  return fmt::format("{}/checkpoints/step-{}.h5", folder, phase);
}

/// What a checkpoint says of its round.
struct Round {
  int round = 0;
  bool finished = false;
};

Round round_of(const std::string& path) try {
  const std::string text = read_checkpoint_texts(path).progress;
  require_shallow_json(text, path);
  const Json state = Json::parse(text).at("state");
  const Json tournament = state.value("tournament", Json::object());
  return {tournament.contains("rounds") ? whole_number<int>(tournament.at("rounds")) : 0,
          !state.at("history").at("record").at("reason").get<std::string>().empty()};
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {
  throw DataError(
      fmt::format("{}: not a checkpoint of this mrmf ({}); begin anew with --overwrite", path, error.what()));
}

}  // namespace

bool file_exists(const std::string& path) {
  std::error_code none;
  return fs::exists(path, none);
}

bool SavedRounds::has(int round) const {
  if (dropped && round >= *dropped) return true;
  return last == round || before == round || (done && last && *last <= round) || (round == 0 && !last && !before);
}

SavedRounds saved_rounds(const std::string& folder, int phases) {
  SavedRounds saved;
  for (int phase = phases; phase > 0 && !saved.last && !saved.before; --phase) {
    const std::string path = checkpoint_path(folder, phase), before = path_before(path);
    if (file_exists(path)) {
      const Round round = round_of(path);
      saved.last = round.round;
      saved.done = round.finished && phase == phases;
    }
    if (file_exists(before)) saved.before = round_of(before).round;
  }
  return saved;
}

int common_round(const std::vector<SavedRounds>& trainers) {
  int latest = 0;
  for (const SavedRounds& trainer : trainers)
    latest = std::max({latest, trainer.last.value_or(0), trainer.before.value_or(0)});
  for (int round = latest; round > 0; --round)
    if (std::ranges::all_of(trainers, [&](const SavedRounds& trainer) { return trainer.has(round); })) return round;
  return 0;
}

void return_to_round(const std::string& folder, const SavedRounds& saved, int round) {
  if (saved.dropped && round >= *saved.dropped) return;
  if (saved.last == round || (saved.done && saved.last && *saved.last <= round)) return;
  if (saved.before != round) return remove_checkpoints(folder);
  for (const auto& entry : fs::directory_iterator(folder + "/checkpoints")) {
    const std::string path = entry.path().string();
    if (!path.ends_with("-before.h5")) continue;
    return rename_file(path, path.substr(0, path.rfind("-before.h5")) + ".h5");
  }
}

int settle_round(const SettledTrainer& mine, const TrainerTeams& teams, const std::vector<int>& dropped, Comm& world) {
  SavedRounds saved;
  collective_try(world, [&] {
    if (mine.team.root()) saved = saved_rounds(mine.folder, mine.phases);
  });
  const std::vector<double> last = world.all_gather(saved.last.value_or(-1)),
                            before = world.all_gather(saved.before.value_or(-1)),
                            done = world.all_gather(saved.done ? 1 : 0);
  std::vector<SavedRounds> all;
  const auto round_at = [](double round) { return round < 0 ? std::nullopt : std::optional(static_cast<int>(round)); };
  for (std::size_t t = 0; t < teams.first.size(); ++t) {
    const auto i = static_cast<std::size_t>(teams.first[t]);
    all.push_back({round_at(last[i]), round_at(before[i]), done[i] > 0});
    if (dropped[t] > 0) all.back().dropped = dropped[t];
  }
  const int round = common_round(all);
  collective_try(world, [&] {
    if (mine.team.root()) return_to_round(mine.folder, all[static_cast<std::size_t>(teams.of(world.rank()))], round);
  });
  return round;
}

}  // namespace mrmf
