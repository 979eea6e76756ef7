// Keys of [training] about sums over ranks: how values travel, and whose Lion's momenta are.
#include <algorithm>

#include "kernels/check.hpp"
#include "src/config/keys.hpp"

#define MRMF_FIELD(member) \
  [](auto& s) -> auto& { return s.member; }

namespace mrmf {
namespace {

using Keys = std::vector<Key<TrainingConfig>>;

template <class Field>
void add(Keys& keys, const std::string& path, Field field, const Rule& rule, const std::string& meaning) {
  keys.push_back(make_key<TrainingConfig>(path, field, rule, meaning));
}

// Whether only the sign of a sum comes back.
bool sends_signs(Communication scheme) {
  using enum Communication;
  return scheme == levels8 || scheme == levels8_l0 || scheme == levels4 || scheme == vote;
}

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

std::vector<Key<TrainingConfig>> communication_keys() {
  constexpr double kMostSteps = 1e9;
  Keys keys;
  add(keys, "communication", MRMF_FIELD(communication), one_of(words_of<Communication>()),
      "how the values that ranks add travel: in float32, bfloat16 or blocks of integers; for lion also as levels in 8 "
      "or 4 bits, or as votes of a bit; \"auto\" measures which pays");
  add(keys, "error_feedback", MRMF_FIELD(error_feedback), {},
      "bf16, int8: what a sum's codes leave out is added to the next one's values");
  add(keys, "momenta.rule", MRMF_FIELD(momenta.rule), one_of(words_of<MomentaRule>()),
      "lion: one momentum for all ranks, or one of each rank's own gradients, which is then averaged never, `every` so "
      "many steps, or at steps that are `spaced` ever wider");
  add(keys, "momenta.every", MRMF_FIELD(momenta.every), within(1, kMostSteps),
      "every: steps from one average of the momenta to the next");
  add(keys, "momenta.spacing", MRMF_FIELD(momenta.spacing), within(1, kMostSteps),
      "spaced: k, where 2^(j/k) steps lie between the j-th average and the next");
  return keys;
}

void complete_communication(Config& config, const KeyLocations& places, const std::string& origin) {
  TrainingConfig& training = config.training;
  const std::string scheme = "training.communication", rule = "training.momenta.rule";
  const std::string value = scheme + " = \"" + to_string(training.communication) + "\"";
  const auto fail = [&](const std::string& key, const std::string& message) {
    const auto found = places.find(key);
    throw ConfigError((found == places.end() ? origin : found->second) + ": " + message);
  };
  const bool lion = training.optimizer.name == OptimizerKind::lion, signs = sends_signs(training.communication);
  if (signs && !lion)
    fail(scheme, value +
                     " adds signs and levels, which only the optimizer \"lion\" can use; set "
                     "training.optimizer.name = \"lion\", or take bf16 or int8");
  if (signs && !places.contains(rule)) training.momenta.rule = MomentaRule::local;
  if (signs && training.momenta.rule == MomentaRule::shared)
    fail(rule, value +
                   " adds the directions of each rank's own momentum; set training.momenta.rule to local, every or "
                   "spaced");
  if (training.adds_directions() && !lion)
    fail(rule, rule + " is about the momenta of the optimizer \"lion\"; remove it, or set training.optimizer.name");
  if (training.communication == Communication::automatic && training.adds_directions())
    fail(rule, value + " chooses whose momenta are as well; remove " + rule);
  if (training.adds_directions() && training.clip_norm > 0)
    fail("training.clip_norm",
         "training.clip_norm needs the sum of all gradients, and with each rank's own momentum there is none; set it "
         "to 0, or training.momenta.rule to shared");
  const bool rounds = training.communication == Communication::bf16 || training.communication == Communication::int8;
  if (training.error_feedback && (!rounds || training.adds_directions()))
    fail("training.error_feedback",
         "training.error_feedback belongs to sums of gradients in bf16 or int8 (training.communication); remove it");
  const auto cuts = [](const Extent& grid) { return product(grid) > 1; };
  if (training.communication == Communication::automatic || training.adds_plainly() ||
      std::ranges::none_of(config.run.grid, cuts))
    return;
  fail(scheme, "run.grid does not go with " + (training.adds_directions() ? rule + " other than shared" : value) +
                   ", whose ranks have samples of their own; use fp32 and shared momenta, or no grid");
}

}  // namespace mrmf

#undef MRMF_FIELD
