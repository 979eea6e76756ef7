#include "src/measured_teams.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "io/agreement.hpp"
#include "io/atomic_file.hpp"

namespace mrmf {
namespace {

using Json = nlohmann::json;

std::string path_in(const RunConfig& run) { return run.folder + "/checkpoints/teams.json"; }

}  // namespace

MeasuredTeams::MeasuredTeams(const RunConfig& run, Comm& world, bool kept)
    : path_(kept ? path_in(run) : ""), world_(&world) {
  if (world.root() && kept) {
    std::ifstream file(path_);
    text_.assign(std::istreambuf_iterator<char>(file), {});
  }
  world.broadcast(text_, 0);
  if (text_.empty()) text_ = "{}";
}

std::optional<TeamSizes> MeasuredTeams::find(int stage) try {
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

void MeasuredTeams::keep(int stage, const TeamSizes& teams) {
  Json all = Json::parse(text_);
  all[std::to_string(stage)] = {{"dense", teams.dense}, {"coarse", teams.coarse}};
  text_ = all.dump();
  if (path_.empty()) return;
  together(*world_, [&] {
    if (world_->root()) atomic_write(path_, text_ + "\n");
  });
}

void forget_teams(const RunConfig& run, const Comm& world) {
  std::error_code ignored;
  if (world.root()) std::filesystem::remove(path_in(run), ignored);
}

}  // namespace mrmf
