#include "src/method/measured_teams.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/input_file.hpp"
#include "io/limits.hpp"
#include "io/output_file.hpp"
#include "mpi/agreement.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

using Json = nlohmann::json;

std::string path_in(const RunConfig& run) { return run.folder + "/checkpoints/teams.json"; }

std::string origin_of(const Config& config, int ranks) {
  const std::string text = fmt::format("{} ranks\n{}", ranks, to_toml(config));
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

MeasuredTeams::MeasuredTeams(const Config& config, Comm& world, bool kept)
    : path_(kept ? path_in(config.run) : ""), origin_(origin_of(config, world.size())), world_(&world) {
  together(world, [&] {
    std::error_code unknown;
    if (world.root() && kept && std::filesystem::exists(path_, unknown)) text_ = read_file(path_);
  });
  world.broadcast(text_, 0);
  if (text_.empty()) text_ = "{}";
}

std::optional<TeamSizes> MeasuredTeams::find(int stage) try {
  require_shallow_json(text_, path_);
  const Json all = Json::parse(text_);
  const auto found = all.find(std::to_string(stage));
  if (found == all.end()) return {};
  const TeamSizes teams{found->at("dense"), found->at("coarse")};
  if (teams.dense < 1 || teams.coarse < 1 || teams.ranks() != world_->size())
    throw ConfigError(fmt::format(
        "{}: the teams of stage {} were measured on {} ranks, and this run has {}; continue on {} ranks, or "
        "give --overwrite to begin anew",
        path_, stage, teams.ranks(), world_->size(), teams.ranks()));
  return teams;
} catch (const Json::exception& error) {
  throw DataError(path_ + ": not what mrmf writes there (" + error.what() + "); begin anew with --overwrite");
}

std::optional<double> MeasuredTeams::find_seconds(int stage, Role role) {
  const Json all = Json::parse(text_, nullptr, false);
  if (!all.is_object() || all.value("origin", "") != origin_) return {};
  const Json::json_pointer place("/seconds/" + std::to_string(stage) + "/" + to_string(role));
  if (!all.contains(place) || !all.at(place).is_number()) return {};
  return all.at(place).get<double>();
}

void MeasuredTeams::keep(int stage, const TeamSizes& teams) {
  Json all = Json::parse(text_);
  all[std::to_string(stage)] = {{"dense", teams.dense}, {"coarse", teams.coarse}};
  all.erase("seconds");
  write(all.dump());
}

void MeasuredTeams::keep_seconds(int stage, Role role, double seconds) {
  Json all = Json::parse(text_);
  all["seconds"][std::to_string(stage)][to_string(role)] = seconds;
  write(all.dump());
}

void MeasuredTeams::write(const std::string& text) {
  Json all = Json::parse(text);
  all["origin"] = origin_;
  text_ = all.dump();
  if (path_.empty()) return;
  together(*world_, [&] {
    if (world_->root()) write_file(path_, text_ + "\n", Replace::file);
  });
}

void forget_teams(const RunConfig& run, const Comm& world) {
  std::error_code ignored;
  if (world.root()) std::filesystem::remove(path_in(run), ignored);
}

void forget_teams_of_others(const Config& config, const Comm& world) {
  std::error_code unknown;
  if (!world.root() || !std::filesystem::exists(path_in(config.run), unknown)) return;
  const Json all = Json::parse(read_file(path_in(config.run)), nullptr, false);
  if (!all.is_object() || all.value("origin", "") != origin_of(config, world.size())) forget_teams(config.run, world);
}

}  // namespace mrmf
