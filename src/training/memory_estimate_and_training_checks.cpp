// What is known of training before it starts: the memory that it will take, and what it refuses whatever the samples
// hold.
#include "src/training/memory_estimate_and_training_checks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "mpi/reduce_scatter.hpp"
#include "src/run/model_file.hpp"
#include "src/training/batches.hpp"
#include "src/training/deterministic_replicas.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/model_and_optimizer.hpp"

namespace mrmf {
namespace {

constexpr Index float_bytes = sizeof(float);
// Pages of the program and of its libraries that training touches first, and what oneDNN generates: 6 to 11 MB in the
// generic set to AVX-512, with a network of some kilobytes.
constexpr Index touched_in_training = 9'000'000;

// The most floats that saving a tensor takes where each rank of a grid has a part of it: the whole, the root's
// own part, and one that travels.
Index largest_put_together(const Network& network, const ParameterLayout& layout) {
  Index most = 0;
  for (std::size_t i = 0; i < network.size(); ++i)
    for (const ParameterLayout::PartitionedTensor& part : layout.partitioned_tensors(i))
      most = std::max(most, part.whole.count + 2 * part.own.count);
  return most;
}

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

RunMemory memory_of(const Network& network, const Execution& execution, const TrainingConfig& training, int ranks) {
  const int moments = moment_count(training.optimizer, training.update_in_place);
  const Index own = execution.params.size(), state = network.state_size();
  const Index sample = execution.input.per_sample() + network.output().per_sample();
  constexpr Index splits = 2;
  RunMemory memory;
  memory.models = execution.floats(network, moments) + (training.accumulate > 1 ? own : 0);
  if (training.keep_best) memory.models += own + state;
  memory.models += static_cast<Index>(mpi::floats_of_sums(static_cast<std::size_t>(own), ranks));
  memory.batches = splits * network.input().n * sample;
  memory.saving =
      std::max(std::min<Index>(network.params_size(), kFloatsAtOnce), largest_put_together(network, execution.params));
  for (Index* floats : {&memory.models, &memory.batches, &memory.saving}) *floats *= float_bytes;
  return memory;
}

Index memory_of_sums(const SumSettings& sums, Index floats, int ranks, int workers) {
  Index own = sums.error_feedback ? (workers + 1) * floats : 0;  // each worker's, and their sum's
  if (sums.adds_directions()) own += (workers - 1) * floats;     // the optimizer has the first one's
  if (ranks * workers == 1 || sums.adds_plainly()) return own * float_bytes;
  const CodeBytes codes = code_bytes(sums.communication, static_cast<double>(floats));
  return own * float_bytes + static_cast<Index>(2 * (workers * codes.there + codes.back));
}

/// A model's operations, without its arenas.
struct MemoryCount::Built {
  std::unique_ptr<Backend>
      reference_backend;  // makes the whole network on a grid, and computes nothing (as Model has it)
  Network network;
  Execution execution;
  Index workspace = 0;  // bytes that making it took

  Built(Backend& backend, const ModelSettings& settings) : Built(backend, settings, resident_bytes()) {}

 private:
  Built(Backend& backend, const ModelSettings& settings, Index before)
      : reference_backend(settings.grid.ranks() > 1 ? make_reference_backend() : nullptr),
        network(reference_backend ? *reference_backend : backend, settings.network),
        execution(build_execution(backend, network, settings)) {
    for (const Unit& unit : execution.units) unit.layer->prepare(settings.network.max_rows);
    workspace = std::max<Index>(resident_bytes() - before, 0);
  }
};

MemoryCount::MemoryCount(Backend& backend, const TrainingConfig& training, int replicas, int ranks)
    : backend_(backend),
      training_(training),
      replicas_(replicas),
      ranks_(ranks),
      program_(resident_bytes() + touched_in_training),
      replica_backend_(replicas > 0 ? make_one_thread_backend(backend) : nullptr) {}

MemoryCount::~MemoryCount() = default;

const RunMemory& MemoryCount::add(const NetworkSettings& settings, const Grid& grid) {
  const auto build = [&](Backend& backend, Index rows) -> const Built& {
    ModelSettings sized{.network = settings, .grid = grid, .in_place = training_.update_in_place};
    sized.network.max_rows = rows;
    return *built_.emplace_back(std::make_unique<Built>(backend, sized));
  };
  const Built& model = build(backend_, replicas_ > 0 ? 1 : settings.max_rows);
  RunMemory memory = memory_of(model.network, model.execution, training_, ranks_);
  memory.workspace = model.workspace;
  params_.push_back(model.execution.params.size());
  if (replicas_ > 0) {  // each has a copy of its rows
    const Index rows = (settings.max_rows + replicas_ - 1) / replicas_;
    const Index sample = model.network.input().per_sample() + model.network.output().per_sample();
    const Built& replica = build(*replica_backend_, rows);
    const Index floats = replica.execution.floats(replica.network, 0) - model.network.params_size() + rows * sample;
    memory.models += replicas_ * floats * float_bytes;
    memory.workspace += replicas_ * replica.workspace;
    memory.batches *= settings.max_rows;
  }
  return models_.emplace_back(memory);
}

RunMemory MemoryCount::peak(const Plan& plan, const std::optional<HeldData>& held) const {
  const std::vector<Extent> resolutions = plan.resolutions();
  RunMemory most;
  const auto sums_of = [&](std::size_t i) {
    Index bytes = 0;
    for (const Phase& phase : plan.phases())
      if (phase.resolution == resolutions[i])
        bytes = std::max(bytes, memory_of_sums(phase.sums, params_[i], ranks_, std::max(1, replicas_)));
    return bytes;
  };
  const auto consider = [&](std::size_t first, std::size_t together, bool saves) {
    RunMemory sum;
    for (std::size_t i = first; i < first + together; ++i) {
      RunMemory model = models_[i];  // only one model at a time is trained, or saved
      model.models += sums_of(i);
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

bool shard_by_shard(const Config& config, bool on_cpu) {
  return config.run.deterministic && config.data.shards > 0 && on_cpu;
}

void require_ranks(const RunConfig& run, int ranks) {
  if (run.ranks == 0 || run.ranks == ranks) return;
  throw ConfigError(fmt::format(
      "run.ranks = {}, and this run has {} rank{}: batches are per rank, so it would train otherwise; start it "
      "with mpirun -n {} (srun -n {}), or set run.ranks = 0 to run on any number",
      run.ranks, ranks, ranks == 1 ? "" : "s", run.ranks, run.ranks));
}

void require_micro_batches(const Config& config, bool on_cpu) {
  if (shard_by_shard(config, on_cpu) && config.training.accumulate > 1)
    throw ConfigError(
        "training.accumulate does not go with run.deterministic and data.shards on the CPU, where every shard is "
        "computed by itself: more shards take less memory; remove one of them");
}

void require_in_place(const Config& config, int groups, bool on_cpu) {
  if (!config.training.update_in_place) return;
  const std::string what = "training.update_in_place updates a weight as soon as its gradient is known, and ";
  if (shard_by_shard(config, on_cpu))
    throw ConfigError(what + "run.deterministic with data.shards adds those of all shards first; remove one");
  if (groups > 1)
    throw ConfigError(what + fmt::format("{} groups of ranks have samples of their own, whose gradients are added "
                                         "first; let all ranks share each sample (run.grid), or remove it",
                                         groups));
}

void require_probes(const Plan& plan, Index samples, Index batch, int groups) {
  const bool probes = std::ranges::any_of(plan.stages, [](const Stage& s) { return s.coarse.stop.probe_epochs > 0; });
  if (probes && samples <= batch * groups)
    throw ConfigError(
        fmt::format("method.switch = \"slope\" needs two steps or more in an epoch of the last phase, and its batch of "
                    "{} on {} rank{} takes all {} samples at once; use a smaller method.finetune.batch",
                    batch, groups, groups == 1 ? "" : "s", samples));
}

namespace {

/// Whose rows a batch norm's statistics are of.
enum class NormRows { team, rank, shard };

NormRows norm_rows(const Config& config, bool on_cpu) {
  if (config.training.global_batch_norm) return NormRows::team;
  return shard_by_shard(config, on_cpu) ? NormRows::shard : NormRows::rank;
}

// The fewest rows that one statistic is of, over the micro-batches of all steps of an epoch. Shards have two sizes,
// whose rows change at one step each, so three steps stand for all.
Index least_rows(const OrderSettings& order, NormRows of, int micro_batches) {
  const Index steps = steps_per_epoch(order), own = order.shards / order.ranks;
  Index least = order.samples * order.repeats;
  const auto take = [&](Index rows) {
    if (rows > 0) least = std::min(least, rows);
  };
  const Index size = order.samples / order.shards * order.repeats;
  for (const Index step : {Index{0}, size % steps, (size + order.repeats) % steps}) {
    std::vector<Index> team(static_cast<std::size_t>(micro_batches));
    for (Index rank = 0; rank < order.ranks; ++rank) {
      Index rows = 0;
      for (Index shard = rank * own; shard < (rank + 1) * own; ++shard) {
        const Index all = piece(order.samples, shard, order.shards).count * order.repeats;
        const Index here = piece(all, step, steps).count;
        if (of == NormRows::shard) take(here);
        rows += here;
      }
      for (int number = 0; number < micro_batches; ++number) {
        const Index here = piece(rows, number, micro_batches).count;
        if (of == NormRows::rank) take(here);
        team[static_cast<std::size_t>(number)] += here;
      }
    }
    if (of == NormRows::team) std::ranges::for_each(team, take);
  }
  return least;
}

void require_norms(const Config& config, const Plan& plan, const Phase& phase, const BatchShares& shares) {
  OrderSettings order = order_settings(config.data, shares.samples, shares.groups, 0);
  order.batch = phase.batch;
  order.repeats = boxes_of_each(config.data, shares.sample, phase.resolution);
  const NormRows of = norm_rows(config, shares.on_cpu);
  if (least_rows(order, of, config.training.accumulate) > 1) return;
  const auto backend = make_reference_backend();
  const Network network(*backend, network_settings(config, plan, shares.sample, phase.resolution));
  for (const LayerEntry& entry : network.entries()) {
    if (entry.kind != LayerKind::batch_norm || product(entry.input.spatial) > 1) continue;
    const char* whose = of == NormRows::team ? "" : of == NormRows::rank ? " on a rank" : " in a shard";
    throw ConfigError(fmt::format(
        "{}: in training a batch norm needs more than one value per channel, and batch {} of {} brings it a single row "
        "of one position{} in some steps ({} samples); use a larger batch{}, or layer_norm in its place",
        entry.name, phase.batch, phase_text(phase), whose, shares.samples,
        of == NormRows::team ? "" : " or training.batch_norm = \"global\""));
  }
}

}  // namespace

void require_rows(const Config& config, const Plan& plan, const Phase& phase, const BatchShares& shares) {
  require_batches(config.data, {shares.samples, shares.sample}, phase, shares.groups, config.training.accumulate);
  require_norms(config, plan, phase, shares);
}

}  // namespace mrmf
