#include "src/training/memory_estimate.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "src/training/optimizer.hpp"
#include "src/training/shard_replicas.hpp"

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
  return {program + other.program, models + other.models, workspace + other.workspace,
          batches + other.batches, saving + other.saving, data + other.data};
}

/// A model's operations, without its arenas.
struct MemoryCount::Built {
  Network network;
  Execution execution;
  Index workspace = 0;  // bytes that making it took

  Built(Backend& backend, const NetworkSettings& settings) : Built(backend, settings, resident_bytes()) {}

 private:
  Built(Backend& backend, const NetworkSettings& settings, Index before)
      : network(backend, settings), execution(plan_execution(backend, network, {settings, 0, true})) {
    for (const Unit& unit : execution.units) unit.run->prepare(settings.max_rows);
    workspace = std::max<Index>(resident_bytes() - before, 0);
  }
};

MemoryCount::MemoryCount(Backend& backend, const TrainingConfig& training, int replicas)
    : backend_(backend),
      moments_(moment_count(training.optimizer.name)),
      replicas_(replicas),
      accumulates_(training.accumulate > 1),
      program_(resident_bytes()),
      replica_backend_(replicas > 0 ? one_thread_backend(backend) : nullptr) {}

MemoryCount::~MemoryCount() = default;

const RunMemory& MemoryCount::add(const NetworkSettings& settings) {
  RunMemory memory;
  const auto build = [&](Backend& backend, Index rows) -> const Built& {
    NetworkSettings sized = settings;
    sized.max_rows = rows;
    return *built_.emplace_back(std::make_unique<Built>(backend, sized));
  };
  const Built& model = build(backend_, replicas_ > 0 ? 1 : settings.max_rows);
  const Index params = model.network.params_size(), state = model.network.state_size();
  const Index sample = model.network.input().per_sample() + model.network.output().per_sample();
  const Index best = params + state;  // of the best epoch
  memory.models = model.execution.floats(model.network, moments_) + best + (accumulates_ ? params : 0);
  memory.workspace = model.workspace;
  if (replicas_ > 0) {  // each has a copy of its rows
    const Index rows = (settings.max_rows + replicas_ - 1) / replicas_;
    const Built& replica = build(*replica_backend_, rows);
    memory.models += replicas_ * (replica.execution.floats(replica.network, 0) - params + rows * sample);
    memory.workspace += replicas_ * replica.workspace;
  }
  constexpr Index splits = 2, images = 2;
  memory.batches = splits * settings.max_rows * sample;
  memory.saving = images * ((1 + moments_) * params + state + best);
  for (Index* floats : {&memory.models, &memory.batches, &memory.saving}) *floats *= float_bytes;
  return models_.emplace_back(memory);
}

RunMemory MemoryCount::peak(const Plan& plan, const std::optional<HeldData>& held) const {
  const std::vector<Extent> resolutions = plan.resolutions();
  RunMemory most;
  const auto consider = [&](std::size_t first, std::size_t together, bool saves) {
    RunMemory sum;
    for (std::size_t i = first; i < first + together; ++i) {
      RunMemory model = models_[i];  // only one model at a time is trained, or saved
      model.batches = std::max(model.batches, sum.batches) - sum.batches;
      model.saving = saves ? std::max(model.saving, sum.saving) - sum.saving : 0;
      sum = sum + model;
    }
    const auto from = resolutions.begin() + static_cast<std::ptrdiff_t>(first);
    if (held) sum.data = data_bytes(held->parts, held->stores, {from, from + static_cast<std::ptrdiff_t>(together)});
    if (sum.all() > most.all()) most = sum;
  };
  for (std::size_t i = 0; i < models_.size(); ++i) {
    consider(i, 1, true);
    // Where the denser model starts untrained, none is saved while both are there.
    if (i + 1 < models_.size()) consider(i, 2, plan.stages[i].dense.has_value());
  }
  most.program = program_;
  return most;
}

}  // namespace mrmf
