#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "kernels/cuda/conv_plan.hpp"

using namespace mrmf::cuda;

namespace {

/// A folder of this test's own, removed afterwards.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("mrmf-plan-cache-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }
void save(const PlanCache& cache) { write(cache.file(), cache.text()); }

const std::string h200 = "NVIDIA H200, cuDNN 9.19.0";
const std::string newer = "NVIDIA H200, cuDNN 9.20.0";

}  // namespace

TEST_CASE("plans come back for their problem, device and cuDNN alone") {
  const Folder folder;
  const auto file = folder.path / "plans.json";
  {
    PlanCache cache(file, h200);
    CHECK(cache.ignored().empty());  // there is no file yet, which is no reason to complain
    CHECK(!cache.find("forward"));
    cache.put("forward", {"{\"a \\\"plan\\\"\"}", 12.5, 4096});
    save(cache);
  }
  {
    PlanCache other(file, newer);
    CHECK(other.ignored().empty());
    CHECK(!other.find("forward"));
    other.put("forward", {"newer", 1.0, 0});
    save(other);
  }
  const PlanCache again(file, h200);
  const auto kept = again.find("forward");
  REQUIRE(kept);
  CHECK(kept->plan == "{\"a \\\"plan\\\"\"}");
  CHECK(kept->microseconds == 12.5);
  CHECK(kept->workspace == 4096);
  CHECK(!again.find("backward data"));
  CHECK(PlanCache(file, newer).find("forward")->plan == "newer");
}

TEST_CASE("a damaged, foreign or older file is ignored with a reason and then replaced") {
  const Folder folder;
  const auto file = folder.path / "plans.json";
  const std::string head = R"({"format": "mrmf cuDNN plans", "version": )";
  for (const std::string& text :
       {std::string(), std::string("{\"format\": \"mrmf cu"), std::string("[1, 2]"), std::string("{\"plans\": {}}"),
        head + R"(0, "plans": {}})", head + "1}", head + R"(1, "plans": {"a on b": {"plan": 3}}})",
        head + R"(1, "plans": [3]})", head + R"(1, "plans": {}, "avoided": {"a": 3}})"}) {
    INFO(text);
    write(file, text);
    PlanCache cache(file, h200);
    CHECK(cache.ignored().find(file.string()) == 0);
    CHECK(!cache.find("forward"));
    cache.put("forward", {"plan", 1.0, 0});
    save(cache);
    CHECK(PlanCache(file, h200).find("forward"));
  }
}

TEST_CASE("a note of the engine under trial lasts as long as the trial, and outlasts a process that ends within it") {
  const Folder folder;
  const auto file = folder.path / "sub" / "plans.json";
  const auto notes = [&] {
    return std::distance(std::filesystem::directory_iterator(file.parent_path()),
                         std::filesystem::directory_iterator());
  };
  const auto leave = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_symlink(text, file.string() + ".trying-" + name);
  };
  {
    TrialNote note(file);
    note.trying({"forward on H200", "engine 7"});
    note.trying({"forward on H200", "engine 8"});
    CHECK(notes() == 1);
    CHECK(take_left_notes(file).empty());  // this process lives
    note.strike_out();
    CHECK(notes() == 0);
    note.trying({"forward on H200", "engine 9"});
  }
  CHECK(notes() == 0);
  const pid_t child = fork();
  if (child == 0) {
    TrialNote note(file);
    note.trying({"forward on H200", "engine 7"});
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  leave("nobody", "{}");  // not ours: stays
  const std::string elsewhere = R"({"kind": "a", "engine": "b", "host": "elsewhere", "pid": 1, "started": "1", "at": )";
  leave("old", elsewhere + "1}");
  leave("new", elsewhere + std::to_string(std::time(nullptr)) + "}");  // may be under trial
  const std::vector<EngineOfKind> left = take_left_notes(file);
  REQUIRE(left.size() == 2);
  const std::size_t here = left[0].engine == "engine 7" ? 0 : 1;
  CHECK(left[here].kind == "forward on H200");
  CHECK(left[here].engine == "engine 7");
  CHECK(left[1 - here].engine == "b");
  CHECK(notes() == 2);
  TrialNote nowhere("");
  nowhere.trying({"a", "b"});
  CHECK(take_left_notes("").empty());
}

TEST_CASE("an engine to avoid comes back for its kind of problem, device and cuDNN alone") {
  const Folder folder;
  const auto file = folder.path / "plans.json";
  write(file, R"({"format": "mrmf cuDNN plans", "version": 1, "plans": {}})");  // as it was before there were such
  PlanCache cache(file, h200);
  CHECK(cache.ignored().empty());
  CHECK(cache.avoided("forward, bf16").empty());
  cache.avoid("forward, bf16", "engine 7");
  cache.avoid("forward, bf16", "engine 11");
  save(cache);
  CHECK(PlanCache(file, h200).avoided("forward, bf16") == std::set<std::string>{"engine 11", "engine 7"});
  CHECK(PlanCache(file, h200).avoided("forward, tf32").empty());
  CHECK(PlanCache(file, newer).avoided("forward, bf16").empty());
  PlanCache other(file, newer);
  other.put("forward", {"newer", 1.0, 0});
  save(other);
  CHECK(PlanCache(file, h200).avoided("forward, bf16").size() == 2);
}
