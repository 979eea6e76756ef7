// What a reader must know before believing a comparison.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "src/compare/runs.hpp"

namespace mrmf {
namespace {

using Fact = std::function<std::string(const RunResult&)>;

// "the runs differ in <what>: A (2 runs) | B (1 run)", when they do.
void differing(const std::vector<Group>& groups, const std::string& what, const Fact& fact,
               std::vector<std::string>& lines) {
  std::map<std::string, int> counts;
  for (const Group& group : groups) {
    for (const Run& run : group.runs) ++counts[fact(run.result)];
  }
  if (counts.size() < 2) return;
  std::string values;
  for (const auto& [value, count] : counts) {
    values += fmt::format("{}{} ({} run{})", values.empty() ? "" : " | ", value, count, count == 1 ? "" : "s");
  }
  lines.push_back("the runs differ in " + what + ": " + values);
}

std::string target_of(const RunResult& r) { return r.target ? fmt::format("{:g}", *r.target) : "none"; }

std::string machine_of(const RunResult& r) {
  return fmt::format("{} ({}, {} cores)", r.machine.host, r.machine.processor, r.machine.cores);
}

void seeds(const std::vector<Group>& groups, std::vector<std::string>& lines) {
  std::set<std::string> sets;
  for (const Group& group : groups) {
    std::map<std::pair<std::uint64_t, std::vector<Extent>>, std::string> seen;
    std::set<std::uint64_t> numbers;
    for (const Run& run : group.runs) {
      const auto [entry, fresh] = seen.emplace(std::pair(run.result.seed, run.result.resolutions), run.folder);
      numbers.insert(run.result.seed);
      if (!fresh) {
        lines.push_back(fmt::format("{} and {} have the same seed {}: they are no independent repetitions",
                                    entry->second, run.folder, run.result.seed));
      }
    }
    sets.insert(fmt::format("{{{}}}", fmt::join(numbers, ", ")));
  }
  if (sets.size() > 1) lines.push_back(fmt::format("the columns differ in seeds: {}", fmt::join(sets, " | ")));
}

void targets(const std::vector<Group>& groups, std::vector<std::string>& lines) {
  for (const Group& group : groups) {
    for (const Run& run : group.runs) {
      const RunResult& r = run.result;
      if (!r.target || r.target_reached) continue;
      lines.push_back(fmt::format("{} did NOT reach its target: validation loss {:.5f} > {:g}", run.folder,
                                  r.validation_loss, *r.target));
    }
  }
}

}  // namespace

std::vector<std::string> warnings(const std::vector<Group>& groups) {
  std::vector<std::string> lines;
  targets(groups, lines);
  differing(groups, "target", target_of, lines);
  differing(
      groups, "data", [](const RunResult& r) { return r.data; }, lines);
  differing(
      groups, "network", [](const RunResult& r) { return r.model; }, lines);
  differing(groups, "machine", machine_of, lines);
  differing(
      groups, "ranks", [](const RunResult& r) { return std::to_string(r.ranks); }, lines);
  differing(
      groups, "version of mrmf", [](const RunResult& r) { return r.versions.git; }, lines);
  differing(
      groups, "backend", [](const RunResult& r) { return r.versions.backend; }, lines);
  seeds(groups, lines);
  return lines;
}

}  // namespace mrmf
