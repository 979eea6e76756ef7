#include "src/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace mrmf {
namespace {

constexpr Index float_bytes = sizeof(float);

}  // namespace

Index resident_bytes() {
  std::ifstream file("/proc/self/statm");
  Index pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<Index>(sysconf(_SC_PAGESIZE));
}

RunMemory RunMemory::operator+(const RunMemory& other) const {
  return {program + other.program, models + other.models, workspace + other.workspace, batches + other.batches,
          data + other.data};
}

RunMemory stage_memory(Backend& backend, const NetworkSettings& settings, int moments) {
  const Index before = resident_bytes();
  const Network network(backend, settings);
  const Execution execution = plan_execution(backend, network, {settings, 0, true});
  for (const Unit& unit : execution.units) unit.run->prepare(settings.max_rows);
  RunMemory memory;
  memory.workspace = std::max<Index>(resident_bytes() - before, 0);
  // And a copy of the parameters: models are made from one, compared between ranks and saved by one.
  memory.models = (execution.floats(network, moments) + network.params_size()) * float_bytes;
  constexpr Index splits = 2;
  memory.batches = splits * (network.input().count() + network.output().count()) * float_bytes;
  return memory;
}

RunMemory peak_memory(const std::vector<RunMemory>& stages, const Plan& plan, const std::optional<HeldData>& held) {
  const std::vector<Extent> resolutions = plan.resolutions();
  RunMemory most;
  const std::size_t together = std::min<std::size_t>(stages.size(), 2);
  for (std::size_t first = 0; first + together <= stages.size(); ++first) {
    RunMemory sum;
    for (std::size_t i = first; i < first + together; ++i) {
      RunMemory stage = stages[i];
      stage.batches = std::max(stage.batches, sum.batches) - sum.batches;  // one model trains at a time
      sum = sum + stage;
    }
    const auto from = resolutions.begin() + static_cast<std::ptrdiff_t>(first);
    if (held) sum.data = data_bytes(held->parts, held->stores, {from, from + static_cast<std::ptrdiff_t>(together)});
    if (sum.all() > most.all()) most = sum;
  }
  most.program = resident_bytes();
  return most;
}

}  // namespace mrmf
