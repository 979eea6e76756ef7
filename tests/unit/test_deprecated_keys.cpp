// Words of earlier versions: configurations, records and saved states that have them are read as ever.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "src/config/key_table.hpp"
#include "src/plan/plan.hpp"
#include "src/run/records_and_train_state.hpp"

using namespace mrmf;

namespace {

std::string with_method(const std::string& lines) {
  return "[data]\nfiles = \"d.h5\"\ntrain.samples = \"x\"\ntrain.labels = \"y\"\nvalidation.samples = \"vx\"\n"
         "validation.labels = \"vy\"\n[model]\npreset = \"neuron_inverter\"\n[method]\nname = \"mrmf\"\n"
         "resolutions = [[2], [1]]\n" +
         lines + "[training]\nloss = \"mse\"\n[run]\nfolder = \"run\"\n";
}

Config read_method(const std::string& lines, Writer writer = Writer::person) {
  return parse_config(with_method(lines), "c.toml", {}, writer);
}

}  // namespace

TEST_CASE("deprecated keys: keys and values of earlier versions mean what they did, and a warning has today's") {
  const std::string was =
      "top = \"front\"\nhandover = \"best\"\nswitch = \"epochs\"\nlook_epochs = 3\nsplit = [2, 1]\n"
      "teams = \"sequential\"\n";
  const std::string is =
      "top = \"stem\"\ntransfer = \"best\"\nswitch = \"epochs\"\nprobe_epochs = 3\nteam_shares = [2, 1]\n"
      "teams = \"sequential\"\n";
  const Config former = read_method(was), today = read_method(is);
  CHECK(to_toml(former) == to_toml(today));
  CHECK(today.deprecation_warnings.empty());
  const std::vector<std::string> warnings = config_warnings(former);
  for (const std::string line : {"c.toml:12: method.top = \"front\" is called \"stem\" now",
                                 "c.toml:13: method.handover is called method.transfer now",
                                 "c.toml:15: method.look_epochs is called method.probe_epochs now",
                                 "c.toml:16: method.split is called method.team_shares now"}) {
    CAPTURE(line);
    CHECK(std::ranges::count(warnings, line) == 1);
  }
  CHECK(read_method(was, Writer::run).deprecation_warnings.empty());  // what a run wrote is nobody's to correct
  CHECK(to_toml(read_method(was, Writer::run)) == to_toml(today));
}

TEST_CASE("deprecated keys: overrides may have them, a key given twice is refused") {
  CHECK(parse_config(with_method(""), "c.toml", {"method.top=front"}).method.top == TopRule::stem);
  CHECK_THROWS_WITH_AS(
      read_method("handover = \"best\"\ntransfer = \"last\"\n"),
      "c.toml:12: method.handover is called method.transfer now, and both are given; keep method.transfer",
      ConfigError);
}

TEST_CASE("deprecated keys: settings that runs wrote, as the comparison reads them") {
  using Settings = std::map<std::string, std::string>;
  CHECK(with_todays_words({{"method.top", "\"front\""},
                           {"method.look_epochs", "2"},
                           {"run.folder", "\"front\""},
                           {"method.dilated", "false"}}) ==
        Settings{{"method.top", "\"stem\""}, {"method.probe_epochs", "2"}, {"run.folder", "\"front\""}});
  CHECK(todays_word("method.top", "front") == "stem");
  CHECK(todays_word("method.top", "dense") == "dense");
}

TEST_CASE("deprecated keys: a saved phase with looks has them as probes") {
  Phase phase;
  phase.stop.epochs = 8;
  phase.stop.probe_epochs = 2;
  TrainState state(phase);
  state.stop.add_probe({2, 1.0, 0.5, 0.25, 0.125});
  std::string text = to_json(state);
  const std::size_t at = text.find("\"probes\"");
  REQUIRE(at != std::string::npos);
  text.replace(at, 8, "\"looks\"");
  const TrainState back = train_state_from_json(text, phase, "state");
  CHECK(back.stop.state().probes == state.stop.state().probes);
}
