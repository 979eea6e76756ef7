// The run folder and the texts of a run.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/run/run_log.hpp"
#include "src/system/host_info.hpp"

using namespace mrmf;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("mrmf_test_report_" + std::to_string(getpid()));
  Folder() {
    fs::remove_all(path);
    fs::create_directories(path / "checkpoints");
  }
  ~Folder() {
    fs::remove_all(path);
    fs::create_directories(path / "checkpoints");
  }
  std::string text(const std::string& name) const {
    std::ifstream file(path / name);
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
  }
};

EpochRecord epoch(int number, double loss) {
  return {.stage = 1,
          .role = Role::coarse,
          .resolution = {1, 1, 4},
          .epoch = number,
          .samples = 1000,
          .train_loss = loss + 0.01,
          .validation_loss = loss,
          .seconds = 2,
          .time_shares = {{0.25, 0.125, 0.375}, {1.5, 1.25, 1.75}, {0.25, 0.125, 0.375}, 0.0625, 0.03125},
          .learning_rate = 1e-3,
          .batch = 64,
          .ranks = 2,
          .total_seconds = 2.0 * number,
          .gflop = 12.5};
}

RunResult result() {
  RunResult r;
  r.method = MethodName::mrmf;
  r.top = TopRule::dense;
  r.resolutions = {{1, 1, 4}, {1, 1, 1}};
  r.seed = 3;
  r.model = "neuron_inverter";
  r.data = "a.h5: x, y; vx, vy";
  PhaseRecord stage{.stage = 1, .role = Role::coarse, .resolution = {1, 1, 4}};
  stage.add(epoch(1, 0.5));
  stage.add(epoch(2, 0.25));
  stage.reason = "plateau";
  r.phases = {stage};
  r.total_seconds = 4.5;
  r.validation_loss = 0.25;
  r.target = 0.3;
  r.target_reached = true;
  r.ranks = 2;
  r.machine = {"node1", "EPYC", 2, 24.5};
  r.versions = {"0.1.0", "abc", "g++ 12", "onednn", "1.10", "Open MPI"};
  return r;
}

}  // namespace

TEST_CASE("records survive JSON, and an epoch has the documented keys in their order") {
  const EpochRecord record = epoch(3, 0.125);
  CHECK(
      to_json(record) ==
      R"({"stage":1,"role":"coarse","resolution":[4],"epoch":3,"samples":1000,"train_loss":0.135,)"
      R"("validation_loss":0.125,"seconds":2.0,"learning_rate":0.001,"batch":64,"ranks":2,"total_seconds":6.0,"gflop":12.5,)"
      R"("io_seconds":0.25,"io_range":[0.125,0.375],"compute_seconds":1.5,"compute_range":[1.25,1.75],)"
      R"("communication_seconds":0.25,"communication_range":[0.125,0.375],"hidden_seconds":0.0625,)"
      R"("averaging_seconds":0.03125})");
  CHECK(epoch_from_json(to_json(record), "here") == record);
  CHECK(phase_from_json(to_json(result().phases[0]), "here") == result().phases[0]);
  CHECK(result_from_json(to_json(result()), "here") == result());
  RunResult open = result();
  open.target.reset();
  CHECK(result_from_json(to_json(open), "here") == open);
}

TEST_CASE("resolutions of volumes keep their three factors in the records and in what is printed") {
  EpochRecord record = epoch(1, 0.5);
  record.resolution = {1, 1, 2};
  record.axes = 3;
  CHECK(to_json(record).find(R"("resolution":[1,1,2])") != std::string::npos);
  CHECK(epoch_from_json(to_json(record), "here") == record);
  CHECK(epoch_line(record).find("[1,1,2]") != std::string::npos);
  RunResult run = result();
  run.resolutions = {{2, 2, 2}, {1, 1, 1}};
  run.axes = 3;
  CHECK(result_from_json(to_json(run), "here") == run);
  // As it was written before: the shorter ones are of as many axes as the longest.
  std::string before = to_json(run);
  const auto at = before.find("1,\n      1,\n      1");
  REQUIRE(at != std::string::npos);
  before.replace(at, std::string("1,\n      1,\n      1").size(), "1");
  CHECK(result_from_json(before, "here") == run);
}

TEST_CASE("a loss that is not finite is null in JSON") {
  EpochRecord record = epoch(1, NAN);
  CHECK(to_json(record).find("\"validation_loss\":null") != std::string::npos);
  CHECK(std::isnan(epoch_from_json(to_json(record), "here").validation_loss));
}

TEST_CASE("text that is no record is an error that says where") {
  CHECK_THROWS_AS(epoch_from_json("{\"stage\":1", "a/epochs.jsonl:7"), DataError);
  try {
    epoch_from_json("{\"stage\":1}", "a/epochs.jsonl:7");
    FAIL("no error");
  } catch (const DataError& error) {
    CHECK(std::string(error.what()).rfind("a/epochs.jsonl:7: not a record of mrmf", 0) == 0);
  }
}

TEST_CASE("a number that is not whole, or too large, is no stage and no batch") {
  const std::string good = to_json(epoch(1, 0.5));
  for (const char* number : {"1.5", "2.4e44", "3000000000", "18446744073709551615", "-3000000000", "\"1\""}) {
    std::string bad = good;
    bad.replace(bad.find("\"stage\":1"), 9, std::string("\"stage\":") + number);
    CAPTURE(bad);
    CHECK_THROWS_AS(epoch_from_json(bad, "here"), DataError);
  }
}

TEST_CASE("a stage adds its epochs up") {
  const PhaseRecord stage = result().phases[0];
  CHECK(stage.epochs == 2);
  CHECK(stage.seconds == 4);
  CHECK(stage.time_shares.io == RankSeconds{0.5, 0.25, 0.75});
  CHECK(stage.time_shares.compute.mean == 3);
  CHECK(stage.time_shares.hidden == 0.125);
  CHECK(stage.time_shares.averaging == 0.0625);
  CHECK(stage.gflop == 25);
  CHECK(stage.last.validation_loss == 0.25);
}

TEST_CASE("a run folder holds every record, flushed as it comes") {
  const Folder folder;
  std::ostringstream out;
  RunLog log({folder.path.string(), &out, false}, "[run]\n", "{}\n");
  CHECK(folder.text("config.toml") == "[run]\n");
  CHECK(folder.text("plan.json") == "{}\n");
  Phase phase;
  log.line("hello");
  log.progress({&phase, 0, 2, 10, 0.5, 64});
  log.epoch(epoch(1, 0.5));
  CHECK(folder.text("epochs.jsonl") == to_json(epoch(1, 0.5)) + "\n");
  log.epoch(epoch(2, 0.25));
  CHECK(folder.text("epochs.jsonl") == to_json(epoch(1, 0.5)) + "\n" + to_json(epoch(2, 0.25)) + "\n");
  log.phase(result().phases[0]);
  CHECK(folder.text("stages.jsonl") == to_json(result().phases[0]) + "\n");
  CHECK_FALSE(fs::exists(folder.path / "result.json"));
  log.finish(result());
  CHECK(result_from_json(folder.text("result.json"), "here") == result());
  CHECK(folder.text("log.txt") == out.str());
  CHECK(out.str() == "hello\n" + epoch_line(epoch(1, 0.5)) + "\n" + epoch_line(epoch(2, 0.25)) + "\n" +
                         result_table(result()) + "\n");
}

TEST_CASE("a terminal sees a live line that the next line clears") {
  const Folder folder;
  std::ostringstream out;
  Phase phase;
  phase.role = Role::dense;
  {
    RunLog log({folder.path.string(), &out, true}, "", "");
    log.progress({&phase, 0, 1, 10, 0.5, 64});
    CHECK(out.str().empty());  // no speed known yet
    log.progress({&phase, 0, 2, 10, 0.5, 64});
    CHECK(out.str().rfind("\r\033[Kstage 1 dense [1] epoch 1/100  step 2/10  loss 0.50000  ", 0) == 0);
    CHECK(out.str().find('\n') == std::string::npos);
    log.line("next");
    CHECK(out.str().find("\r\033[Knext\n") != std::string::npos);
  }
  CHECK(folder.text("log.txt") == "next\n");
}

TEST_CASE("records of another run in the folder are replaced") {
  const Folder folder;
  const RunLogSettings settings{folder.path.string(), nullptr, false};
  RunLog(settings, "first", "").epoch(epoch(1, 0.5));
  RunLog(settings, "second", "").finish(result());
  CHECK(folder.text("epochs.jsonl").empty());
  CHECK(folder.text("config.toml") == "second");
  const RunLog replaced(settings, "", "");
  CHECK(folder.text("config.toml") == "second");  // an empty text leaves what is there
  CHECK_FALSE(fs::exists(folder.path / "result.json"));
}

TEST_CASE("a resumed run has the records it knows of, and adds to its log") {
  const Folder folder;
  const RunLogSettings settings{folder.path.string(), nullptr, false};
  {
    RunLog killed(settings, "", "");
    killed.line("first start");
    for (const int number : {1, 2, 3}) killed.epoch(epoch(number, 0.5));
  }
  PhaseHistory ended{result().phases[0], {epoch(1, 0.5), epoch(2, 0.25)}}, under_way;
  under_way.epochs = {epoch(1, 0.125)};
  RunLog log(settings, "", "", {ended, under_way});
  log.line("second start");
  CHECK(folder.text("epochs.jsonl") ==
        to_json(epoch(1, 0.5)) + "\n" + to_json(epoch(2, 0.25)) + "\n" + to_json(epoch(1, 0.125)) + "\n");
  CHECK(folder.text("stages.jsonl") == to_json(ended.record) + "\n");
  const std::string text = folder.text("log.txt");  // all that was printed, the epochs of before too
  CHECK(text.find("first start\n") == 0);
  CHECK(text.rfind("second start\n") == text.size() - std::string("second start\n").size());
}

TEST_CASE("an empty log does nothing") {
  RunLog log;
  Phase phase;
  log.line("x");
  log.progress({&phase, 0, 2, 10, 0.5, 64});
  log.epoch(epoch(1, 0.5));
  log.phase(result().phases[0]);
  log.finish(result());
  RunLog moved = std::move(log);
  moved.line("x");
}

TEST_CASE("texts") {
  CHECK(duration_text(12.4) == "12 s");
  CHECK(duration_text(59.6) == "1 min 00 s");
  CHECK(duration_text(185) == "3 min 05 s");
  CHECK(duration_text(7620) == "2 h 07 min");
  CHECK(
      epoch_line(epoch(2, 0.25)) ==
      "stage 1 coarse   [4]      epoch   2  train 0.26000  validation 0.25000   2.00 s  500 samples/s  rate 1.00e-03");
  const std::string table = result_table(result());
  CHECK(table.find(
            "1      coarse    [4]             2       4.00       0.50       3.00       0.50     0.25000  plateau") !=
        std::string::npos);
  CHECK(table.find("mrmf, seed 3: final validation loss 0.25000 after 4.50 s; target validation loss 0.3: reached") !=
        std::string::npos);
  RunResult missed = result();
  missed.target_reached = false;
  CHECK(result_table(missed).find("target validation loss 0.3: NOT reached") != std::string::npos);
}

TEST_CASE("a result says what the configuration said") {
  Config config;
  config.method.name = MethodName::mrt;
  config.method.resolutions = {{1, 1, 2}, {1, 1, 1}};
  config.method.top = TopRule::fresh;
  config.method.target = 0.2;
  config.training.seed = 9;
  config.model.preset = "neuron_inverter";
  config.data.train = {{"a.h5", "b.h5"}, "x", "y", SampleLayout::as_stored};
  config.data.validation = {{"c.h5"}, "vx", "vy", SampleLayout::as_stored};
  const RunResult r = make_result(config, result().phases, 12);
  CHECK(r.method == MethodName::mrt);
  CHECK(r.top == TopRule::fresh);
  CHECK(r.resolutions == config.method.resolutions);
  CHECK(r.seed == 9);
  CHECK(r.data == "a.h5, b.h5: x, y; c.h5: vx, vy");
  CHECK(r.validation_loss == 0.25);
  CHECK_FALSE(r.target_reached);  // 0.25 > 0.2
  CHECK(r.ranks == 2);
  CHECK(r.total_seconds == 12);
  config.method.target = 0.25;
  CHECK(make_result(config, result().phases, 12).target_reached);
}

TEST_CASE("this machine has a name, cores and memory") {
  const Machine machine = this_machine();
  CHECK_FALSE(machine.host.empty());
  CHECK(machine.cores >= 1);
  CHECK(machine.memory_gib > 0.1);
}

TEST_CASE("records that cannot be written in the end are an error of files, and no half of a result is left") {
  const Folder folder;
  RunLog log({folder.path.string(), nullptr, false}, "", "");
  fs::create_directories(folder.path / "result.json" / "in-the-way");
  CHECK_THROWS_AS(log.finish(result()), ConfigError);
  for (const auto& entry : fs::directory_iterator(folder.path))
    CHECK(entry.path().string().find(".partial-") == std::string::npos);
}

TEST_CASE("records that cannot be written anew are an error of files") {
  const Folder folder;
  fs::create_directories(folder.path / "epochs.jsonl" / "in-the-way");
  CHECK_THROWS_AS(RunLog({folder.path.string(), nullptr, false}, "", ""), DataError);
}
