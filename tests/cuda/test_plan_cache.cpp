#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/cuda/plan_cache.hpp"

using namespace mrmf::cuda;

namespace {

/// A folder of this test's own, removed afterwards.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("mrmf-plan-cache-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

const std::string h200 = "NVIDIA H200, cuDNN 9.19.0";
const std::string newer = "NVIDIA H200, cuDNN 9.20.0";

}  // namespace

TEST_CASE("plans come back for their problem, device and cuDNN alone") {
  const Folder folder;
  const auto file = folder.path / "new" / "plans.json";
  {
    PlanCache cache(file, h200);
    CHECK(cache.ignored().empty());  // there is no file yet, which is no reason to complain
    CHECK(!cache.find("forward"));
    cache.put("forward", {"{\"a \\\"plan\\\"\"}", 12.5, 4096});
    CHECK(cache.save().empty());
  }
  {
    PlanCache other(file, newer);
    CHECK(other.ignored().empty());
    CHECK(!other.find("forward"));
    other.put("forward", {"newer", 1.0, 0});
    CHECK(other.save().empty());
  }
  const PlanCache again(file, h200);
  const auto kept = again.find("forward");
  REQUIRE(kept);
  CHECK(kept->plan == "{\"a \\\"plan\\\"\"}");
  CHECK(kept->microseconds == 12.5);
  CHECK(kept->workspace == 4096);
  CHECK(!again.find("backward data"));
  CHECK(PlanCache(file, newer).find("forward")->plan == "newer");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(file.parent_path())) ++files;
  CHECK(files == 1);  // no temporary file is left
}

TEST_CASE("a damaged, foreign or older file is ignored with a reason and then replaced") {
  const Folder folder;
  const auto file = folder.path / "plans.json";
  const std::string head = R"({"format": "mrmf cuDNN plans", "version": )";
  for (const std::string& text : {std::string(), std::string("{\"format\": \"mrmf cu"), std::string("[1, 2]"),
                                  std::string("{\"plans\": {}}"), head + R"(0, "plans": {}})", head + "1}",
                                  head + R"(1, "plans": {"a on b": {"plan": 3}}})", head + R"(1, "plans": [3]})"}) {
    INFO(text);
    write(file, text);
    PlanCache cache(file, h200);
    CHECK(cache.ignored().find(file.string()) == 0);
    CHECK(!cache.find("forward"));
    cache.put("forward", {"plan", 1.0, 0});
    CHECK(cache.save().empty());
    CHECK(PlanCache(file, h200).find("forward"));
  }
}

TEST_CASE("a place that cannot be written is a reason, not an error") {
  const Folder folder;
  write(folder.path / "file", "");
  PlanCache cache(folder.path / "file" / "plans.json", h200);  // below something that is no folder
  cache.put("forward", {"plan", 1.0, 0});
  CHECK(cache.save().find("cannot be written") != std::string::npos);
}
