// `mrmf compare` on run folders made here, against numbers worked out by hand.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
#include "src/compare/compare.hpp"

using namespace mrmf;
namespace fs = std::filesystem;

namespace {

struct Runs {
  fs::path path = fs::temp_directory_path() / ("mrmf_test_compare_" + std::to_string(getpid()));
  Runs() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Runs() { fs::remove_all(path); }

  std::string write(const std::string& name, const RunResult& result, const std::vector<EpochRecord>& epochs,
                    const std::string& rule = "cosine") const {
    const fs::path folder = path / name;
    fs::create_directories(folder);
    std::ofstream(folder / "result.json") << to_json(result);
    std::ofstream lines(folder / "epochs.jsonl");
    for (const EpochRecord& epoch : epochs) lines << to_json(epoch) << "\n";
    std::ofstream(folder / "config.toml") << "[training]\noptimizer.rule = \"" << rule << "\"\nseed = " << result.seed
                                          << "\n\n[run]\nfolder = \"" << name << "\"\n";
    return folder.string();
  }
};

struct MadePhase {
  int stage;
  Role role;
  Extent resolution;
  int epochs;
  double seconds;  // per epoch
  double loss;     // of its last epoch; earlier ones are higher by 0.01 each
};

struct MadeRun {
  RunResult result;
  std::vector<EpochRecord> epochs;
};

MadeRun make(MethodName method, std::vector<Extent> resolutions, std::uint64_t seed,
             const std::vector<MadePhase>& phases) {
  MadeRun made;
  RunResult& r = made.result;
  r.method = method;
  r.top = method == MethodName::mrt ? TopRule::fresh : TopRule::dense;
  r.resolutions = std::move(resolutions);
  r.seed = seed;
  r.model = "neuron_inverter";
  r.data = "a.h5";
  r.target = 0.04;
  double total = 0;
  for (const MadePhase& phase : phases) {
    PhaseRecord stage{.stage = phase.stage, .role = phase.role, .resolution = phase.resolution};
    for (int e = 1; e <= phase.epochs; ++e) {
      total += phase.seconds;
      EpochRecord epoch{.stage = phase.stage, .role = phase.role, .resolution = phase.resolution, .epoch = e};
      epoch.validation_loss = phase.loss + 0.01 * (phase.epochs - e);
      epoch.seconds = phase.seconds;
      epoch.gflop = 2 * phase.seconds;
      epoch.total_seconds = total;
      made.epochs.push_back(epoch);
      stage.add(epoch);
    }
    r.phases.push_back(stage);
  }
  r.total_seconds = total;
  r.validation_loss = phases.back().loss;
  r.target_reached = r.validation_loss <= *r.target;
  return made;
}

MadeRun baseline(std::uint64_t seed, int epochs) {
  return make(MethodName::baseline, {{1, 1, 1}}, seed, {{1, Role::baseline, {1, 1, 1}, epochs, 10, 0.04}});
}
MadeRun one_fusion(std::uint64_t seed, int coarse) {
  return make(MethodName::mrmf, {{1, 1, 2}, {1, 1, 1}}, seed,
              {{1, Role::coarse, {1, 1, 2}, coarse, 5, 0.05},
               {1, Role::dense, {1, 1, 1}, 1, 10, 0.08},
               {2, Role::finetune, {1, 1, 1}, 3, 10, 0.039}});
}

// The cells of the row that starts with `name`, separated by single spaces.
std::string row(const std::string& table, const std::string& name) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    std::string cells;
    for (std::string word; words >> word;) cells += (cells.empty() ? "" : " ") + word;
    return cells;
  }
  return "no such row";
}

std::string compare_error(const std::vector<std::string>& folders) {
  try {
    compare_table(folders, {});
  } catch (const DataError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("means, spreads and savings are those worked out by hand, the paper's beside them") {
  const Runs runs;
  std::vector<std::string> folders;
  // Baselines of 8, 9, 10 epochs of 10 s: 90 s, spread 10. One fusion: 4, 6, 8 coarse epochs of 5 s and 40 s: 70 +- 10.
  for (int i = 0; i < 3; ++i) {
    const auto seed = static_cast<std::uint64_t>(i + 1);
    const std::string number = std::to_string(seed);
    const MadeRun b = baseline(seed, 8 + i), m = one_fusion(seed, 4 + 2 * i);
    folders.push_back(runs.write("mrmf" + number, m.result, m.epochs));
    folders.push_back(runs.write("base" + number, b.result, b.epochs));
  }
  const MadeRun t = make(MethodName::mrt, {{1, 1, 2}, {1, 1, 1}}, 1,
                         {{1, Role::coarse, {1, 1, 2}, 4, 5, 0.05}, {2, Role::finetune, {1, 1, 1}, 6, 10, 0.0399}});
  folders.push_back(runs.write("mrt", t.result, t.epochs));
  const std::string table = compare_table(folders, {.target = 0.045});

  CHECK(table.substr(0, table.find("---")).find("MRT") < table.find("MRMF, 1 fusion"));
  CHECK(row(table, "validation loss") == "0.04000 +- 0.00000 0.0400 0.03990 0.0399 0.03900 +- 0.00000 0.0398");
  CHECK(row(table, "target reached") == "3 of 3 1 of 1 3 of 3");
  CHECK(row(table, "epochs before fusion, coarse") == "- - 4 35 6.0 +- 2.0 35");
  CHECK(row(table, "epochs before fusion, dense") == "- - - - 1 4");
  CHECK(row(table, "epochs after fusion") == "9.0 +- 1.0 84 6 41 3 32");
  CHECK(row(table, "first stage (s)") == "- - 20.00 - 40.00 +- 10.00 709.20");
  CHECK(row(table, "finetune (s)") == "- - 60.00 - 30.00 +- 0.00 1541.00");
  CHECK(row(table, "total time (s)") == "90.00 +- 10.00 3840.60 80.00 2802.61 70.00 +- 10.00 2528.51");
  // Seed by seed: 1 - 60/80, 1 - 70/90, 1 - 80/100: 22.4 %, deviation 2.5, over the root of three. MRT has one seed
  // alone: 1 - 80/90, 1 - 70/80.
  CHECK(row(table, "time saved against baseline") == "- - 11.1 %, unpaired 27.0 % 22.4 +- 1.4 % 34.2 %");
  CHECK(row(table, "time saved against MRT") == "- - - - 12.5 %, unpaired 9.8 %");
  CHECK(row(table, "loss less the baseline's") == "- -0.00010, unpaired -0.00100 +- 0.00000");
  // Two GFLOP a second, of which the paper says nothing.
  CHECK(row(table, "first stage (GFLOP)") == "- 40.00 80.00 +- 20.00");
  CHECK(row(table, "total arithmetic (GFLOP)") == "180.00 +- 20.00 160.00 140.00 +- 20.00");
  CHECK(row(table, "arithmetic saved against baseline") == "- 11.1 %, unpaired 22.4 +- 1.4 %");
  // First epoch at 0.045 or below: each run's last.
  CHECK(row(table, "time to loss 0.045 (s)") == "90.00 +- 10.00 80.00 70.00 +- 10.00");
  CHECK(row(table, "time to loss saved against MRT") == "- - 12.5 %, unpaired");
  CHECK(row(table, "arithmetic to loss 0.045 (GFLOP)") == "180.00 +- 20.00 160.00 140.00 +- 20.00");
  CHECK(row(table, "cost in full-resolution epochs") == "9.00 +- 1.00 8.00 7.00 +- 1.00");
  CHECK(row(table, "[1] ") ==
        "seconds per stage are of Table 7's run (coarse batch 2048, 2250.21 s in all), the rest of "
        "Table 5's.");
  CHECK(row(table, "warning: the columns differ in seeds: ") == "{1, 2, 3} | {1}");
}

TEST_CASE("two fusions have two stages, and time to a target counts the last phase only") {
  const Runs runs;
  MadeRun two = make(MethodName::mrmf, {{1, 1, 4}, {1, 1, 2}, {1, 1, 1}}, 1,
                     {{1, Role::coarse, {1, 1, 4}, 2, 1, 0.03},  // below the target, but of another model
                      {1, Role::dense, {1, 1, 2}, 1, 2, 0.06},
                      {2, Role::coarse, {1, 1, 2}, 3, 2, 0.05},
                      {2, Role::dense, {1, 1, 1}, 1, 4, 0.05},
                      {3, Role::finetune, {1, 1, 1}, 3, 4, 0.035}});
  const std::string table = compare_table({runs.write("two", two.result, two.epochs)}, {.target = 0.046});
  CHECK(row(table, "first stage (s)") == "4.00 166.35");
  CHECK(row(table, "second stage (s)") == "10.00 525.60");
  CHECK(row(table, "finetune (s)") == "12.00 1421.50");
  CHECK(row(table, "total time (s)") == "26.00 2113.45");
  CHECK(row(table, "time saved against baseline") == "- 45.0 %");
  CHECK(row(table, "time to loss 0.046 (s)") == "22.00");
  CHECK(row(table, "arithmetic to loss 0.046 (GFLOP)") == "44.00");
  CHECK(row(table, "cost in full-resolution epochs") == "6.50");
  CHECK(row(compare_table({(runs.path / "two").string()}, {.target = 0.01}), "time to loss 0.01 (s)") == "not reached");

  two.result.top = TopRule::interpolated;
  const std::string ours = compare_table({runs.write("ours", two.result, two.epochs)}, {});
  CHECK(row(ours, "total time (s)") == "26.00");  // the paper has nothing to put beside it
  CHECK(ours.find("top interpolated") != std::string::npos);
}

TEST_CASE("a saving until a loss is told only where all runs of both columns reached that loss") {
  const Runs runs;
  // Losses per seed against the target 0.04: of the baseline two of three reach it, of MRT one, of one fusion all.
  std::vector<std::string> baselines, others;
  for (int i = 0; i < 3; ++i) {
    const auto seed = static_cast<std::uint64_t>(i + 1);
    const auto write = [&](const std::string& name, const MadeRun& made) {
      return runs.write(name + std::to_string(seed), made.result, made.epochs);
    };
    baselines.push_back(write("base", make(MethodName::baseline, {{1, 1, 1}}, seed,
                                           {{1, Role::baseline, {1, 1, 1}, 9, 10, i < 2 ? 0.04 : 0.06}})));
    others.push_back(write("mrt", make(MethodName::mrt, {{1, 1, 2}, {1, 1, 1}}, seed,
                                       {{1, Role::coarse, {1, 1, 2}, 2, 5, 0.05},
                                        {2, Role::finetune, {1, 1, 1}, 4, 10, i < 1 ? 0.04 : 0.06}})));
    others.push_back(write("mrmf", one_fusion(seed, 4)));
  }
  std::vector<std::string> all = baselines;
  all.insert(all.end(), others.begin(), others.end());
  const std::string some = compare_table(all, {.target = 0.04});
  CHECK(row(some, "time to loss 0.04 (s)") == "90.00 +- 0.00 (2 of 3) 50.00 (1 of 3) 60.00 +- 0.00");
  for (const std::string measure : {"time", "arithmetic"}) {
    CHECK(row(some, measure + " to loss saved against baseline").find('%') == std::string::npos);
    CHECK(row(some, measure + " to loss saved against MRT").find('%') == std::string::npos);
  }
  CHECK(row(some, "Savings to a loss:") == "- unless all runs of both columns reached it.");
  // What whole runs cost has nothing to do with a loss.
  CHECK(row(some, "arithmetic saved against baseline") == "- 44.4 +- 0.0 % 33.3 +- 0.0 %");

  // Without the baseline's failure it is known: 1 - 60/90. MRT still fails twice.
  all.erase(all.begin() + 2);
  const std::string reached = compare_table(all, {.target = 0.04});
  CHECK(row(reached, "arithmetic to loss saved against baseline") == "- - 33.3 %, unpaired");
  CHECK(row(reached, "arithmetic to loss saved against MRT") == "- - -");
}

TEST_CASE("what makes a comparison unfair is said") {
  const Runs runs;
  MadeRun a = baseline(1, 4), b = one_fusion(1, 4);
  b.result.validation_loss = 0.05;
  b.result.target_reached = false;
  b.result.data = "b.h5";
  b.result.machine.host = "other";
  b.result.ranks = 2;
  const std::string first = runs.write("a", a.result, a.epochs), second = runs.write("b", b.result, b.epochs);
  const std::string again = runs.write("again", a.result, a.epochs);
  const std::string table = compare_table({first, second, again}, {});
  CHECK(row(table, "target reached") == "2 of 2 0 of 1");
  CHECK(row(table, "warning: " + second) == "did NOT reach its target: validation loss 0.05000 > 0.04");
  CHECK(row(table, "warning: the runs differ in data:") == "a.h5 (2 runs) | b.h5 (1 run)");
  CHECK(row(table, "warning: the runs differ in machine:") == "(, 0 cores) (2 runs) | other (, 0 cores) (1 run)");
  CHECK(row(table, "warning: the runs differ in ranks:") == "1 (2 runs) | 2 (1 run)");
  CHECK(row(table, "warning: " + first + " and " + again) ==
        "have the same seed 1: they are no independent repetitions");
  CHECK(table.find("differ in target") == std::string::npos);

  a.result.target.reset();
  const std::string open = compare_table({runs.write("a", a.result, a.epochs)}, {});
  CHECK(row(open, "target reached") == "no target");
  CHECK(open.find("warning") == std::string::npos);
}

TEST_CASE("runs with other settings are no repetitions: they get a column of their own") {
  const Runs runs;
  const MadeRun a = baseline(1, 4), b = baseline(2, 6);
  const std::string table = compare_table(
      {runs.write("a", a.result, a.epochs, "cosine"), runs.write("b", b.result, b.epochs, "constant")}, {});
  CHECK(row(table, "optimizer.rule") == "\"cosine\" \"constant\"");
  CHECK(row(table, "There are 2 baseline columns:") ==
        "a column is compared with the first of them that ends at the same resolution.");
  CHECK(row(table, "total time (s)") == "40.00 3840.60 60.00 3840.60");
}

TEST_CASE("a former key that says what is done without it makes no column of its own") {
  const Runs runs;
  const MadeRun a = baseline(1, 4), b = baseline(2, 6);
  const std::vector<std::string> folders{runs.write("a", a.result, a.epochs), runs.write("b", b.result, b.epochs)};
  std::ofstream file(folders[0] + "/config.toml", std::ios::app);
  file << "\n[data]\ncoarsening = \"average\"\n\n[method]\ndilated = false\n" << std::flush;
  CHECK(row(compare_table(folders, {}), "total time (s)") == "50.00 +- 14.14 3840.60");
  file << "\n[method]\ndilated = true\n" << std::flush;
  CHECK(row(compare_table(folders, {}), "dilated") == "true unset");
}

TEST_CASE("a setting too long for a heading is told below the table") {
  const Runs runs;
  const MadeRun a = baseline(1, 4), b = baseline(1, 6);
  const std::string first = runs.write("a", a.result, a.epochs), second = runs.write("b", b.result, b.epochs);
  const std::string layers = "[\n  { type = \"conv\", filters = 8, kernel = [4] },\n  { type = \"relu\" },\n]\n";
  std::ofstream(fs::path(second) / "config.toml", std::ios::app) << "[model]\nlayers = " << layers;
  const std::string table = compare_table({first, second}, {});
  CHECK(row(table, "layers") == "unset (a)");
  CHECK(row(table, "(a) model.layers = [").starts_with("{ type = \"conv\", filters = 8, kernel = [4] },"));
}

TEST_CASE("columns that a line has no room for go below, each with its names and the paper's beside it") {
  const Runs runs;
  std::vector<std::string> folders;
  for (const char* rule : {"cosine", "constant", "linear", "plateau"}) {
    const MadeRun made = baseline(1, 4);
    folders.push_back(runs.write(rule, made.result, made.epochs, rule));
  }
  const std::string table = compare_table(folders, {.width = 80});
  std::istringstream lines(table.substr(0, table.find("\nMean ")));
  std::vector<std::string> rules, totals;
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 80);
    if (line.starts_with("optimizer.rule")) rules.push_back(row(line, "optimizer.rule"));
    if (line.starts_with("total time (s)")) totals.push_back(row(line, "total time (s)"));
  }
  CHECK(rules == std::vector<std::string>{"\"cosine\"", "\"constant\"", "\"linear\"", "\"plateau\""});
  CHECK(totals == std::vector<std::string>(4, "40.00 3840.60"));
  CHECK(compare_table(folders, {.width = 30}).find("\"plateau\"") != std::string::npos);  // no room even for one
}

TEST_CASE("savings and differences are paired by seed, whatever order the runs come in") {
  const Runs runs;
  std::vector<std::string> folders;
  // Seeds cost very differently, the method always 10 s less: that is what pairing shows.
  for (const int seed : {3, 1, 2}) {
    MadeRun b = make(MethodName::baseline, {{1, 1, 1}}, static_cast<std::uint64_t>(seed),
                     {{1, Role::baseline, {1, 1, 1}, 2, 50.0 * seed, 0.04}});
    b.result.validation_loss = 0.1 * seed;
    folders.push_back(runs.write("b" + std::to_string(seed), b.result, b.epochs));
  }
  for (const int seed : {1, 2, 3}) {
    MadeRun m = make(
        MethodName::mrt, {{1, 1, 2}, {1, 1, 1}}, static_cast<std::uint64_t>(seed),
        {{1, Role::coarse, {1, 1, 2}, 1, 20.0 * seed, 0.05}, {2, Role::finetune, {1, 1, 1}, 1, 60.0 * seed, 0.04}});
    m.result.validation_loss = 0.1 * seed - 0.01;
    folders.push_back(runs.write("m" + std::to_string(seed), m.result, m.epochs));
  }
  const std::string table = compare_table(folders, {});
  CHECK(row(table, "time saved against baseline") == "- - 20.0 +- 0.0 % 27.0 %");  // 80 of 100, 160 of 200, 240 of 300
  CHECK(row(table, "loss less the baseline's") == "- -0.01000 +- 0.00000");
  CHECK(row(table, "validation loss") == "0.20000 +- 0.10000 0.0400 0.19000 +- 0.10000 0.0399");
}

TEST_CASE("metrics have a row each, over the runs that measured them") {
  const Runs runs;
  std::vector<std::string> folders;
  for (const int seed : {1, 2}) {
    MadeRun b = baseline(static_cast<std::uint64_t>(seed), 4), m = one_fusion(static_cast<std::uint64_t>(seed), 4);
    b.result.metric = MetricValue{Metric::dice, 0.95 + 0.01 * seed};
    b.result.target.reset();
    b.result.metric_target = MetricTarget{Metric::dice, 0.965};
    b.result.target_reached = seed == 2;
    m.result.target.reset();
    folders.push_back(runs.write("b" + std::to_string(seed), b.result, b.epochs));
    folders.push_back(runs.write("m" + std::to_string(seed), m.result, m.epochs));
  }
  const std::string table = compare_table(folders, {});
  CHECK(row(table, "validation dice") == "0.9650 +- 0.0071 -");
  CHECK(row(table, "target reached") == "1 of 2 no target");
  CHECK(row(table, "validation accuracy") == "no such row");
  CHECK(compare_csv(folders, {}).find("0.04,dice,0.97,,0.965,true,") != std::string::npos);
}

TEST_CASE("the runs behind a comparison come out as lines of values and as JSON") {
  const Runs runs;
  const MadeRun b = baseline(1, 4), other = baseline(2, 6), m = one_fusion(1, 4);
  const std::vector<std::string> folders{runs.write("m", m.result, m.epochs), runs.write("b", b.result, b.epochs),
                                         runs.write("b2", other.result, other.epochs)};
  std::istringstream lines(compare_csv(folders, {.target = 0.045}));
  std::string names, line;
  std::getline(lines, names);
  CHECK(names ==
        "column,method,resolutions,top,bottom,settings,seed,ranks,validation_loss,metric,metric_value,target,"
        "metric_target,target_reached,coarse_epochs,dense_epochs,epochs_after_fusion,seconds,gflop,seconds_to_loss,"
        "gflop_to_loss,folder");
  std::getline(lines, line);
  CHECK(line == "1,baseline,[1],dense,coarse,,1,1,0.04,,,0.04,,true,0,0,4,40.0,80.0,40.0,80.0," + folders[1]);
  std::getline(lines, line);
  std::getline(lines, line);
  CHECK(line ==
        "2,\"MRMF, 1 fusion\",[2] [1],dense,coarse,,1,1,0.039,,,0.04,,true,4,1,3,60.0,120.0,60.0,120.0," + folders[0]);
  CHECK_FALSE(std::getline(lines, line));

  const auto json = nlohmann::json::parse(compare_json(folders, {}));
  REQUIRE(json["columns"].size() == 2);
  CHECK(json["columns"][0]["seconds"]["mean"] == 50);
  CHECK(json["columns"][0]["runs"][1]["seed"] == 2);
  CHECK(json["columns"][0]["against_baseline"].is_null());
  CHECK(json["columns"][1]["against_baseline"]["seconds_saved"]["paired"] == false);
  CHECK(json["columns"][1]["against_baseline"]["seconds_saved"]["mean"].get<double>() == doctest::Approx(-0.2));
  CHECK(json["columns"][1]["runs"][0]["epochs_after_fusion"] == 3);
  CHECK(json["warnings"][0] == "the columns differ in seeds: {1, 2} | {1}");
}

TEST_CASE("two teams that trained at once cost the longer time, joined or not") {
  const Runs runs;
  for (const bool joined : {false, true}) {
    MadeRun run = one_fusion(1, 4);  // 20 s of coarse epochs, 10 s of a dense one
    run.result.ranks = 4;
    for (PhaseRecord& stage : run.result.phases)
      stage.last.ranks = stage.role == Role::coarse ? 3 : stage.role == Role::dense ? 1 : 4;
    if (joined) run.result.phases[1].last.ranks = 4;
    const std::string folder = runs.write(joined ? "joined" : "apart", run.result, run.epochs);
    if (joined) {  // as earlier versions wrote it
      const std::string file = folder + "/result.json", text = read_file(file);
      std::ofstream(file) << std::regex_replace(text, std::regex("\"role\": ?\"dense\","), "$&\"joined_after\":2,");
    }
    const std::string table = compare_table({folder}, {});
    CHECK(row(table, "first stage (s)").starts_with("20.00"));
  }
}

TEST_CASE("half resolutions along the three axes of a cube are one column, as in the paper") {
  const Runs runs;
  const std::vector<Extent> halves{{2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
  std::vector<std::string> folders;
  double loss = 0.030;
  for (const Extent& half : halves) {
    MadeRun run =
        make(MethodName::mrmf, {{2, 2, 2}, half, {1, 1, 1}}, 1,
             {{1, Role::coarse, {2, 2, 2}, 1, 5, 0.05}, {2, Role::finetune, {1, 1, 1}, 1, 10, loss += 0.002}});
    run.result.axes = 3;
    folders.push_back(runs.write("half" + std::to_string(folders.size()), run.result, run.epochs));
  }
  const std::string table = compare_table(folders, {});
  CHECK(row(table, "validation loss").starts_with("0.03400 +- 0.00200"));
  CHECK(table.find("[2,2,2] [2,1,1] [1,1,1]\n") != std::string::npos);
  CHECK(table.find("and 2 more choices of axes") != std::string::npos);
  CHECK(table.find("n = 3, seed 1") != std::string::npos);
  CHECK(table.find("same seed") == std::string::npos);
}

TEST_CASE("a fresh bottom is a method of its own, and arithmetic that is not recorded makes no rows") {
  const Runs runs;
  MadeRun both = one_fusion(1, 4), top = one_fusion(1, 4);
  for (MadeRun* made : {&both, &top}) {
    for (EpochRecord& epoch : made->epochs) epoch.gflop = 0;
    for (PhaseRecord& stage : made->result.phases) stage.gflop = 0;
  }
  const std::string a = runs.write("both", both.result, both.epochs), b = runs.write("top", top.result, top.epochs);
  std::ofstream(fs::path(b) / "config.toml", std::ios::app) << "[method]\nbottom = \"fresh\"\n";
  const std::string table = compare_table({a, b}, {});
  CHECK(table.find(" top dense\n") != std::string::npos);
  CHECK(table.find("bottom fresh\n") != std::string::npos);
  CHECK(table.find("method.bottom =") == std::string::npos);
  CHECK(table.find("(GFLOP)") == std::string::npos);
  CHECK(row(table, "cost in full-resolution epochs") == "- -");
}

TEST_CASE("folders that hold no finished run are errors that name them") {
  const Runs runs;
  const MadeRun a = baseline(1, 4);
  const std::string good = runs.write("good", a.result, a.epochs), bad = runs.write("bad", a.result, a.epochs);
  CHECK(compare_error({good, "no/such/run"}) == "no/such/run: there is no such run folder");
  fs::remove(fs::path(bad) / "epochs.jsonl");
  CHECK(compare_error({good, bad}) == bad + "/epochs.jsonl: no such file; check the path; is the run folder complete?");
  std::ofstream(fs::path(bad) / "epochs.jsonl") << to_json(a.epochs[0]) << "\n{\"stage\"";
  CHECK(compare_error({bad}).rfind(bad + "/epochs.jsonl:2: not a record of mrmf", 0) == 0);
  std::ofstream(fs::path(bad) / "result.json") << "half";
  CHECK(compare_error({bad}).rfind(bad + "/result.json: not a record of mrmf", 0) == 0);
  fs::remove(fs::path(bad) / "result.json");
  CHECK(compare_error({bad}) ==
        bad + ": no finished run here (no result.json); let `mrmf train` finish it, or leave it out");
}

TEST_CASE("a folder of trials is no run, and is left out beside runs") {
  const Runs runs;
  const MadeRun a = baseline(1, 4);
  const std::string good = runs.write("good", a.result, a.epochs), trials = (runs.path / "good-tune").string();
  fs::create_directories(trials);
  std::ofstream(fs::path(trials) / "trial-0123456789abcdef.json") << "{}";
  std::ofstream(fs::path(trials) / "best.toml") << "";
  std::ofstream(fs::path(good) / "trial-0123456789abcdef.json") << "{}";  // of tune --folder: still a run
  std::vector<std::string> folders{good, trials};
  CHECK(leave_out_trials(folders) == std::vector{trials + ": holds the trials of mrmf tune, not a run; left out"});
  CHECK(folders == std::vector{good});
  folders = {trials};
  CHECK(leave_out_trials(folders).empty());
  CHECK(compare_error(folders) ==
        trials + ": holds the trials of mrmf tune, not a run; leave it out, or train its best.toml");
}

TEST_CASE("data that differ are named once where training and validation have the same names") {
  const Runs runs;
  MadeRun a = baseline(1, 4), b = baseline(2, 4), c = baseline(3, 4);
  a.result.data = "a.h5: images, params; images, params";
  b.result.data = "a.h5: images, params; others, params";
  c.result.data = "a.h5: images, params; b.h5: images, params";
  const std::string table = compare_table(
      {runs.write("a", a.result, a.epochs), runs.write("b", b.result, b.epochs), runs.write("c", c.result, c.epochs)},
      {});
  CHECK(row(table, "warning: the runs differ in data:") ==
        "a.h5: images, params (1 run) | a.h5: images, params; b.h5: images, params (1 run) | a.h5: images, params; "
        "others, params (1 run)");
}

TEST_CASE("spread is the sample standard deviation") {
  const Spread s = spread({2, 4, 4, 4, 5, 5, 7, 9});
  CHECK(s.mean == 5);
  CHECK(s.deviation == doctest::Approx(2.13809));  // sqrt(32 / 7)
  CHECK(spread({3}).deviation == 0);
  CHECK(text(spread({3}), 1) == "3.0");
  CHECK(text(spread({}), 1) == "-");
}

TEST_CASE("a saving at equal loss is read off the baselines' own curve") {
  const Runs runs;
  std::vector<std::string> folders;
  const auto ended = [](MadeRun made, double loss) {
    made.result.validation_loss = loss;
    return made;
  };
  // Baselines of 4, 8 and 16 epochs of 10 s end at 0.08, 0.04 and 0.02, and one of 10 at 0.05: it does not count. Two
  // coarse epochs of 5 s, a dense one and three more cost 50 s. A seed lifts every loss alike.
  const auto add = [&](const std::string& name, const MadeRun& made, double loss, std::uint64_t seed) {
    folders.push_back(
        runs.write(name + std::to_string(seed), ended(made, loss + (seed == 2 ? 0.002 : 0)).result, made.epochs, name));
  };
  for (const std::uint64_t seed : {1, 2, 3}) {
    for (const auto& [epochs, loss] :
         {std::pair(4, 0.08), std::pair(8, 0.04), std::pair(16, 0.02), std::pair(10, 0.05)})
      add("base" + std::to_string(epochs), baseline(seed, epochs), loss, seed);
    add("between", one_fusion(seed, 2), 0.06, seed);  // half-way between 40 and 80 s: 56.57 s
    add("best", one_fusion(seed, 2), 0.01, seed);
    add("worst", one_fusion(seed, 2), 0.09, seed);
    add("lower", one_fusion(seed, 2), 0.03, seed);  // half-way between 80 and 160 s, not beside the one of 10 epochs
  }
  const std::string table = compare_table(folders, {});
  CHECK(row(table, "time saved at equal loss") ==
        "- - - - 11.6 +- 0.0 % >= 68.8 +- 0.0 % <= -25.0 +- 0.0 % 55.8 +- 0.0 %");
  CHECK(row(table, "arithmetic saved at equal loss") == row(table, "time saved at equal loss"));
  const std::string said =
      "MRMF, 1 fusion: 11.6 +- 0.0 % of the arithmetic saved at equal loss. 5.00 epochs at full resolution end at "
      "0.0607; a baseline that ends there takes 5.66.\n";
  CHECK(table.find(said) != table.npos);
  CHECK(table.find("every baseline ends lower, the cheapest takes 4.00.\n") != table.npos);
  const auto json = nlohmann::json::parse(compare_json(folders, {}));
  CHECK(json["columns"][0]["at_equal_loss"].is_null());
  CHECK(json["columns"][5]["at_equal_loss"]["gflop_saved"]["bound"] == "at least");
  CHECK(json["columns"][4]["at_equal_loss"]["seconds_saved"]["mean"].get<double>() ==
        doctest::Approx(1 - 50 / (40 * std::sqrt(2.0))));

  // The same baselines from a file: arithmetic alone.
  const std::string csv = (runs.path / "curve.csv").string();
  std::ofstream(csv) << compare_csv(folders, {});
  std::vector<std::string> others = folders;
  std::erase_if(others, [](const std::string& name) { return name.find("base") != std::string::npos; });
  const std::string read = compare_table(others, {.baselines = csv});
  CHECK(row(read, "arithmetic saved at equal loss") ==
        "11.6 +- 0.0 % >= 68.8 +- 0.0 % <= -25.0 +- 0.0 % 55.8 +- 0.0 %");
  CHECK(row(read, "time saved at equal loss") == "no such row");
  CHECK(read.find(said) != read.npos);
  // A run of one seed is held against the baselines of that seed.
  std::vector<std::string> second = others;
  std::erase_if(second, [](const std::string& name) { return name.find("between2") == std::string::npos; });
  CHECK(row(compare_table(second, {.baselines = csv}), "arithmetic saved at equal loss") == "11.6 %");
  std::ofstream(csv) << "column,method,resolutions,seed,validation_loss,gflop\n1,baseline,[1],1,0.5\n";
  CHECK_THROWS_WITH_AS(compare_table(others, {.baselines = csv}), doctest::Contains("curve.csv:2: 5 cells"), DataError);

  // Without one seed of a baseline nothing is paired; with one baseline alone there is no curve.
  std::erase_if(folders, [](const std::string& name) { return name.ends_with("base43"); });
  CHECK(row(compare_table(folders, {}), "time saved at equal loss") ==
        "- - - - 11.9 %, unpaired >= 68.8 %, unpaired <= -25.0 %, unpaired 55.8 %, unpaired");
  std::erase_if(folders, [](const std::string& name) {
    return name.find("base8") == name.npos && name.find("between") == name.npos;
  });
  CHECK(row(compare_table(folders, {}), "time saved at equal loss") == "no such row");
}
