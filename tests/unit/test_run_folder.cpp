// The run folder: what is refused, what is replaced, and what is taken back.
#include <doctest/doctest.h>

#include <map>

#include "kernels/errors.hpp"
#include "src/run/run_folder.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::contains;
using test::message;
using test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

std::string folder_refusal(const std::string& folder, bool overwrite = false) {
  return message<ConfigError>([&] { RunFolder(folder, overwrite); });
}

/// Every file below a folder and what is in it.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all[entry.path()] = entry.is_regular_file() ? test::read_bytes(entry.path()) : "";
  return all;
}

}  // namespace

TEST_CASE("run folder: what it made goes with it unless the run began, and nothing else does") {
  const TemporaryFolder folder;
  const std::string run = folder.file("runs/a");
  { const RunFolder unused(run, false); }
  CHECK(fs::is_empty(folder.path()));
  {
    const RunFolder unused(run, false);
    fs::create_directories(folder.file("runs/b"));  // another command's, which uses the folder that this one made
    test::write_bytes(folder.file("runs/b/result.json"), "{}");
    test::write_bytes(run + "/mine.txt", "a user's");
  }
  CHECK(test::read_bytes(folder.file("runs/b/result.json")) == "{}");
  CHECK(test::read_bytes(run + "/mine.txt") == "a user's");
  CHECK(fs::exists(run));
  CHECK_FALSE(fs::exists(run + "/checkpoints"));

  fs::remove(run + "/mine.txt");
  RunFolder(run, false).keep();
  CHECK(fs::exists(run + "/checkpoints"));
  CHECK(folder_refusal(run).empty());  // it is a run's now
}

TEST_CASE("run folder: a folder of something else is refused by name, also with --overwrite, and left as it is") {
  const TemporaryFolder folder;
  fs::create_directories(folder.file("team"));
  fs::create_directories(folder.file("checkpoints"));
  for (const char* name : {"config.toml", "log.txt", "checkpoints/step-1000.pt", "team/members.csv"})
    test::write_bytes(folder.file(name), "precious");
  const auto before = contents(folder.path());
  for (const bool overwrite : {false, true}) {
    const std::string text = folder_refusal(folder.path(), overwrite);
    CHECK(contains(text, "is not empty and not a run's (there is checkpoints, config.toml, log.txt and 1 more)"));
  }
  CHECK(contents(folder.path()) == before);
}

TEST_CASE("run folder: what a batch job puts there first, and runs of older versions, are no strangers") {
  const TemporaryFolder folder;
  for (const char* name : {"job.sh", "job.toml", "job-12.log", "job-12_3.log", "asked.txt"})
    test::write_bytes(folder.file(name), "x");
  CHECK(folder_refusal(folder.path()).empty());
  test::write_bytes(folder.file("job.sh~"), "x");
  CHECK(contains(folder_refusal(folder.path()), "job.sh~"));
  fs::remove(folder.file("job.sh~"));

  test::write_bytes(folder.file("config.toml"), "x");
  test::write_bytes(folder.file("plan.json"), "{\"a\": 1}");
  CHECK(contains(folder_refusal(folder.path()), "config.toml"));
  test::write_bytes(folder.file("plan.json"), "{\"steps\": []}");
  CHECK(folder_refusal(folder.path()).empty());
}

TEST_CASE("run folder: a finished run is replaced on demand only, and of it nothing that a run does not write") {
  const TemporaryFolder folder;
  const std::string path = folder.path();
  RunFolder(path, false).keep();
  fs::create_directories(folder.file("team"));
  for (const char* name : {"result.json", "checkpoints/final.h5", "checkpoints/best.h5", "checkpoints/phase-1.h5",
                           "checkpoints/step-1000.pt", "checkpoints/phase-2.h5.partial-0123456789abcdef",
                           "checkpoints/step-3.h5.partial", "checkpoints/step-1.h5", "checkpoints/step-mine.h5",
                           "notes.txt", "team/log.txt", "team/epochs.jsonl", "team/members.csv"})
    test::write_bytes(folder.file(name), "x");
  CHECK(contains(folder_refusal(path), "holds a finished run; give --overwrite to replace it"));
  CHECK(folder_refusal(path, true).empty());

  remove_result(path, Models::remove);
  remove_checkpoints(path);
  remove_team_records(path);
  std::vector<std::string> left;
  for (const auto& [name, bytes] : contents(path)) left.push_back(name.substr(path.size() + 1));
  CHECK(left == std::vector<std::string>{".mrmf-run", "checkpoints", "checkpoints/step-1000.pt",
                                         "checkpoints/step-mine.h5", "notes.txt", "team", "team/members.csv"});
}

TEST_CASE("run folder: a checkpoint is called by its phase, and that of an earlier version by its former name") {
  const TemporaryFolder folder;
  const auto name = [&](int phase) { return fs::path(checkpoint_file(folder.path(), phase)).filename().string(); };
  CHECK(name(2) == "phase-2.h5");
  fs::create_directories(folder.file("checkpoints"));
  test::write_bytes(folder.file("checkpoints/step-2.h5"), "x");
  test::write_bytes(folder.file("checkpoints/step-3-before.h5"), "x");
  CHECK(name(1) == "phase-1.h5");
  CHECK(name(2) == "step-2.h5");
  CHECK(name(3) == "step-3.h5");
  CHECK(phase_of_checkpoint("phase-12.h5") == 12);
  CHECK(phase_of_checkpoint("step-2.h5") == 2);
  for (const char* other : {"phase-2-before.h5", "phase-x.h5", "final.h5", "phase-2-save-1-block-0.h5"})
    CHECK(phase_of_checkpoint(other) == 0);
}

TEST_CASE("run folder: more epochs take away the result alone, and a run that is done keeps one checkpoint") {
  const TemporaryFolder folder;
  for (const char* name : {"result.json", "checkpoints/final.h5", "checkpoints/best.h5", "checkpoints/phase-1.h5",
                           "checkpoints/phase-2.h5"}) {
    fs::create_directories(fs::path(folder.file(name)).parent_path());
    test::write_bytes(folder.file(name), "x");
  }
  remove_result(folder.path(), Models::keep);
  CHECK_FALSE(fs::exists(folder.file("result.json")));
  CHECK(fs::exists(folder.file("checkpoints/final.h5")));
  CHECK(fs::exists(folder.file("checkpoints/best.h5")));
  remove_checkpoints(folder.path(), "phase-2.h5");
  CHECK_FALSE(fs::exists(folder.file("checkpoints/phase-1.h5")));
  CHECK(fs::exists(folder.file("checkpoints/phase-2.h5")));
  remove_best_model(folder.path());
  CHECK_FALSE(fs::exists(folder.file("checkpoints/best.h5")));
}

TEST_CASE("run folder: nothing is written through a link") {
  const TemporaryFolder folder, other;
  const std::string run = folder.file("run");
  RunFolder(run, false).keep();
  test::write_bytes(other.file("log.txt"), "precious");
  fs::remove(run + "/checkpoints");
  fs::create_directory_symlink(other.path(), run + "/checkpoints");
  CHECK(contains(folder_refusal(run, true), "run/checkpoints is a link, and a run writes there"));
  fs::remove(run + "/checkpoints");
  fs::create_symlink(other.file("log.txt"), run + "/log.txt");
  CHECK(contains(folder_refusal(run, true), "run/log.txt is a link"));
  fs::remove(run + "/log.txt");
  fs::create_directories(run + "/plan.json");
  CHECK(contains(folder_refusal(run, true), "run/plan.json is no plain file"));
  CHECK(test::read_bytes(other.file("log.txt")) == "precious");

  const std::string dangling = folder.file("dangling");
  fs::create_symlink(folder.file("nowhere"), dangling);
  CHECK(contains(folder_refusal(dangling), "dangling is a link to nothing"));
  CHECK(fs::is_symlink(dangling));
}

TEST_CASE("run folder: one that cannot be made is an error of files, and one that is held is refused") {
  const TemporaryFolder folder;
  test::write_bytes(folder.file("file"), "");
  CHECK(contains(message<DataError>([&] { RunFolder(folder.file("file/run"), false); }), "Not a directory"));
  CHECK(contains(message<DataError>([&] { RunFolder(folder.file("file"), false); }), "Not a directory"));
  const RunFolder held(folder.file("run"), false);
  CHECK(contains(folder_refusal(folder.file("run")), "is in use by another mrmf train"));
  CHECK(fs::exists(folder.file("run/checkpoints")));
}
