// Keys about sums over ranks: how values travel, and whose Lion's momenta are. Paths are within [training]; defaults:
// SumSettings in config.hpp.
#include <algorithm>

#include "kernels/errors.hpp"
#include "src/config/key_origin.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

// Whether only the sign of a sum comes back.
bool sends_signs(Communication scheme) {
  using enum Communication;
  return scheme == levels8 || scheme == levels8_l0 || scheme == levels4 || scheme == vote;
}

bool sends_levels(const SumSettings& sums) {
  return sends_signs(sums.communication) && sums.communication != Communication::vote;
}

// Whether a sum's codes leave something out that a later one can make good.
bool leaves_errors(const SumSettings& sums) {
  const bool rounds = sums.communication == Communication::bf16 || sums.communication == Communication::int8;
  return rounds && !sums.adds_directions();
}

/// A way of some phases, and the key that says so.
struct Way {
  std::string key;
  SumSettings sums;
  std::string text() const { return key + " = \"" + to_string(sums.communication) + "\""; }
};

std::vector<Way> ways_of(const Config& config) {
  const SumSettings& sums = config.training.sums;
  std::vector<Way> ways{{"training.communication", sums}};
  const auto add = [&](const std::string& table, const RoleSettings& role) {
    if (role.communication) ways.push_back({table + ".communication", in_another_way(sums, *role.communication)});
  };
  const MethodConfig& method = config.method;
  add("method.coarse", method.coarse), add("method.dense", method.dense), add("method.finetune", method.finetune);
  for (std::size_t i = 0; i < method.stages.size(); ++i) {
    const std::string table = "method.stages[" + std::to_string(i) + "].";
    add(table + "coarse", method.stages[i].coarse), add(table + "dense", method.stages[i].dense);
  }
  return ways;
}

/// Refuses keys with the location where they were set.
class Checks {
 public:
  Checks(const Config& config, const KeyLocations& locations, const std::string& origin)
      : config_(config), training_(config.training), keys_{locations, origin} {}

  void of_way(const Way& way) const {
    const SumSettings& sums = way.sums;
    const std::string rule = "training.momenta.rule";
    if (sends_signs(sums.communication) && !lion())
      fail(way.key, way.text() +
                        " adds signs and levels, which only the optimizer \"lion\" can use; set "
                        "training.optimizer.name = \"lion\", or take bf16 or int8");
    if (sends_signs(sums.communication) && !sums.adds_directions())
      fail(rule, way.text() +
                     " adds the directions of each rank's own momentum; set training.momenta.rule to local, every or "
                     "spaced");
    if (sums.adds_directions() && !lion())
      fail(rule, rule + " is about the momenta of the optimizer \"lion\"; remove it, or set training.optimizer.name");
    if (sums.communication == Communication::automatic && sums.adds_directions())
      fail(rule, way.text() + " chooses whose momenta are as well; remove " + rule);
    if (sums.adds_directions() && training_.clip_norm > 0)
      fail("training.clip_norm",
           "training.clip_norm needs the sum of all gradients, and with each rank's own momentum there is none; set it "
           "to 0, or training.momenta.rule to shared");
    const auto cuts = [](const Extent& grid) { return product(grid) > 1; };
    if (sums.communication != Communication::automatic && !sums.adds_plainly() &&
        std::ranges::any_of(config_.run.grid, cuts))
      fail(way.key, "run.grid does not go with " + (sums.adds_directions() ? rule + " other than shared" : way.text()) +
                        ", whose ranks have samples of their own; use fp32 and shared momenta, or no grid");
  }

  void of_all(const std::vector<Way>& ways) const {
    if (training_.sums.error_feedback && std::ranges::none_of(ways, leaves_errors, &Way::sums))
      fail("training.error_feedback",
           "training.error_feedback belongs to sums of gradients in bf16 or int8 (training.communication); remove it");
    if (training_.sums.full_levels && std::ranges::none_of(ways, sends_levels, &Way::sums))
      fail("training.full_levels",
           "training.full_levels belongs to levels8, levels8-l0 and levels4 (training.communication); remove it");
    const std::vector<std::string>& tensors = training_.sums.momenta.tensors;
    if (std::ranges::find(tensors, "") != tensors.end())
      fail("training.momenta.tensors", "training.momenta.tensors has an empty name; write names such as \"dense*\"");
  }

 private:
  bool lion() const { return training_.optimizer.name == OptimizerKind::lion; }
  [[noreturn]] void fail(const std::string& key, const std::string& message) const { keys_.fail(key, message); }

  const Config& config_;
  const TrainingConfig& training_;
  KeyOrigin keys_;
};

}  // namespace

template <>
std::vector<std::string> words_of<Communication>() {
  return {"fp32", "bf16", "int8", "levels8", "levels8-l0", "levels4", "vote", "auto"};
}
std::string to_string(Communication scheme) { return words_of<Communication>().at(static_cast<std::size_t>(scheme)); }

template <>
std::vector<std::string> words_of<MomentaRule>() {
  return {"shared", "local", "every", "spaced"};
}

SumSettings in_another_way(const SumSettings& sums, Communication scheme) {
  SumSettings other = sums;
  other.communication = scheme;
  if (!sends_signs(scheme) && sends_signs(sums.communication)) other.momenta.rule = MomentaRule::shared;
  if (sends_signs(scheme) && !sums.adds_directions()) other.momenta.rule = MomentaRule::local;
  other.error_feedback = sums.error_feedback && leaves_errors(other);
  other.full_levels = sums.full_levels && sends_levels(other);
  return other;
}

Keys<TrainingConfig> communication_keys() {
  Keys<TrainingConfig> keys;
  add_key(
      keys, "communication", MRMF_FIELD(sums.communication), one_of(words_of<Communication>()),
      "how the values that ranks add travel: in float32, bfloat16 or blocks of integers; for lion also as levels in 8 "
      "or 4 bits, or as votes of a bit; \"auto\" measures which pays");
  add_key(keys, "error_feedback", MRMF_FIELD(sums.error_feedback), {},
          "bf16, int8: what a sum's codes leave out is added to the next one's values");
  add_key(
      keys, "full_levels", MRMF_FIELD(sums.full_levels), {},
      "levels8, levels8-l0, levels4: each rank's levels go to 127 or 7, for the same bytes; else those of all ranks "
      "add up to no more than 127 or 15, as in Lion Cub");
  add_key(
      keys, "momenta.rule", MRMF_FIELD(sums.momenta.rule), one_of(words_of<MomentaRule>()),
      "lion: one momentum for all ranks, or one of each rank's own gradients, which is then averaged never, `every` so "
      "many steps, or at steps that are `spaced` ever wider");
  add_key(keys, "momenta.every", MRMF_FIELD(sums.momenta.every), within(1, kMostSteps),
          "every: steps from one average of the momenta to the next");
  add_key(keys, "momenta.spacing", MRMF_FIELD(sums.momenta.spacing), within(1, kMostSteps),
          "spaced: k, where 2^(j/k) steps lie between the j-th average and the next");
  add_key(keys, "momenta.tensors", MRMF_FIELD(sums.momenta.tensors), {},
          "every, spaced: names of the parameters whose momenta are averaged, * standing for any characters, such as "
          "\"dense*\"; those of all unless set");
  return keys;
}

void complete_communication(Config& config, const KeyLocations& locations, const std::string& origin) {
  SumSettings& sums = config.training.sums;
  if (sends_signs(sums.communication) && !locations.contains("training.momenta.rule"))
    sums.momenta.rule = MomentaRule::local;
  const std::vector<Way> ways = ways_of(config);
  const Checks checks(config, locations, origin);
  for (const Way& way : ways) checks.of_way(way);
  checks.of_all(ways);
}

}  // namespace mrmf
