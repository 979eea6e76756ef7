// Predicts the seconds of an epoch and the memory of a rank. Declared in rank_planner.hpp.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "layers/model.hpp"
#include "mpi/reduce_scatter.hpp"
#include "src/rank_planner/rank_planner.hpp"
#include "src/training/data_and_spatial_parallel.hpp"
#include "src/training/gradient_compression.hpp"

namespace mrmf {
namespace {

/// The seconds of one step, or of one of its micro-batches.
struct StepSeconds {
  double forward = 0, backward = 0, loss = 0;
  double messages = 0;  ///< forward and backward
  double sent = 0;      ///< bytes, the same
  int sums = 0;         ///< in forward, and again in backward
  double measured = 0, between = 0;
  std::vector<LayerCost> layers;
  double all() const { return forward + backward + loss + messages; }
};

StepSeconds step_of(const BlockWork& block, const CostModel& costs, const Workload& work, double rows) {
  StepSeconds step;
  const RankLayout group{work.grid.ranks(), std::min(work.grid.ranks(), work.ranks.per_node)};
  LayerCost layer;
  for (const Operation& operation : block.operations) {
    const PassSeconds seconds = costs.operation(operation, rows);
    const double both = seconds.forward + seconds.backward();
    step.forward += seconds.forward;
    step.backward += seconds.backward();
    step.sums += operation.sums;
    const CostSource source = costs.source(operation, rows);
    if (source == CostSource::measured) step.measured += both;
    if (source == CostSource::between) step.between += both;
    std::vector<double> bytes;
    for (const double floats : operation.sent) bytes.push_back(costs.element_bytes() * rows * floats);
    layer.compute += both;
    layer.message_seconds += 2 * costs.messages(bytes, group);
    layer.messages += 2 * static_cast<int>(bytes.size());
    layer.sent += 2 * std::accumulate(bytes.begin(), bytes.end(), 0.0);
    if (operation.halo_exchange() && &operation != &block.operations.back()) continue;  // a part of the layer behind it
    layer.first = operation.layer, layer.last = operation.last;
    layer.block = operation.out, layer.whole = operation.halo_exchange() ? operation.out : operation.whole;
    step.messages += layer.message_seconds;
    step.sent += layer.sent;
    step.layers.push_back(std::exchange(layer, {}));
  }
  step.loss = costs.loss(rows * static_cast<double>(block.output));
  return step;
}

/// Steps of a split: their number, and rows of one.
struct Steps {
  double count = 0, rows = 0;
  Steps(double samples, const Workload& work) {
    const double own = std::ceil(samples / work.sample_groups());
    if (own <= 0) return;
    count = std::ceil(own / static_cast<double>(work.batch));
    rows = own / count;
  }
};

/// One block's execution, and its step.
struct BlockStep {
  BlockWork work;
  StepSeconds step;
  int number = 0;
  Index params = 0, cut = 0;  ///< floats of its parameters; of them cut
  Index updated = 0;          ///< floats that this rank updates
  double averaged = 0;        ///< numbers whose momenta are averaged at some steps
};

RunMemory with_elements(RunMemory memory, const Execution& execution, double element_bytes) {
  const double saved = (kFloatBytes - element_bytes) * static_cast<double>(execution.activations);
  memory.models -= static_cast<Index>(saved);
  return memory;
}

// A device computes, so it has no data, and its sums are NCCL's.
bool on_device(const CostModel& costs) { return costs.feed(1) > 0; }

bool in_pieces(const Workload& work, const CostModel& costs) {
  return updates_in_pieces(work.training, work.training.sums,
                           !on_device(costs) && mpi::adds_by_reduce_scatter(work.ranks.ranks, work.reproducible_sums));
}

// Every rank updates what is too short for pieces.
Index updated_by_rank(const BlockStep& block, const CostModel& costs, const Workload& work) {
  if (!in_pieces(work, costs)) return block.params;
  const auto share = [](Index count, int ranks) {
    return static_cast<std::size_t>(count) < mpi::long_sum ? count : count / ranks;
  };
  return share(block.params - block.cut, work.ranks.ranks) + share(block.cut, work.sample_groups());
}

// As long as a sum in float32 of as many bytes takes, and the codes. Momenta are added in float32.
double coded_sums(const BlockStep& block, const CostModel& costs, const Workload& work) {
  const SumSettings& sums = work.training.sums;
  const auto values = static_cast<double>(block.params);
  const double part = sum_bytes(sums.communication, values, work.ranks.ranks) /
                      sum_bytes(Communication::fp32, values, work.ranks.ranks);
  const double seconds = costs.gradient_sum(kFloatBytes * part * values, block.step.backward, work.ranks) +
                         costs.coding(sums.communication, values);
  if (!sums.momenta.averaged()) return seconds;
  const double steps = Steps(work.samples, work).count * work.training.epochs;
  return seconds + averages_share(sums.momenta, steps) *
                       costs.gradient_sum(kFloatBytes * block.averaged, /*backward=*/0, work.ranks);
}

// Row-parallel weights are summed by the ranks with the same block, which do not read them in each other's memory.
double gradient_sums(const BlockStep& block, const CostModel& costs, const Workload& work) {
  const double whole = kFloatBytes * static_cast<double>(block.params - block.cut + kReducedScalars);
  const double backward = block.step.backward;
  if (!work.training.sums.adds_plainly() && work.ranks.ranks > 1) return coded_sums(block, costs, work);
  const double seconds = in_pieces(work, costs) ? costs.update_sum(whole, backward, work.ranks)
                                                : costs.gradient_sum(whole, backward, work.ranks);
  if (block.cut == 0 || work.sample_groups() == 1) return seconds;
  const RankLayout same_block{work.sample_groups(), std::max(1, work.ranks.per_node / work.grid.ranks())};
  return seconds + costs.gradient_sum(kFloatBytes * static_cast<double>(block.cut), backward, same_block);
}

EpochSeconds epoch_of(const BlockStep& block, const CostModel& costs, const Workload& work) {
  const Steps train(work.samples, work), validate(work.validated, work);
  const StepSeconds& step = block.step;
  const int micro_batches = work.training.accumulate;
  const double crowding = costs.crowding(work.ranks);
  const double computed = step.forward + step.backward + step.loss;
  EpochSeconds epoch;
  epoch.compute = train.count * micro_batches * computed * crowding;
  epoch.messages = train.count * micro_batches * step.messages * crowding;
  const int small = (work.training.global_batch_norm ? 2 * step.sums * micro_batches : 0) + 1;  // one asks for signals
  epoch.sums = train.count * (gradient_sums(block, costs, work) + small * costs.small_sum(work.ranks));
  epoch.update = train.count * costs.update(work.training.optimizer.name, block.updated) * crowding;
  const double input = kFloatBytes * static_cast<double>(block.work.input);
  const auto load = [&](const Steps& steps) { return steps.count * costs.load(steps.rows * input) * crowding; };
  epoch.load = load(train);
  const StepSeconds validating = step_of(block.work, costs, work, validate.rows);
  epoch.validation =
      validate.count == 0
          ? 0
          : validate.count * (validating.forward + validating.loss / 2 + validating.messages / 2) * crowding +
                load(validate) + costs.small_sum(work.ranks);
  const bool within_step = work.grid.ranks() > 1 || (work.training.global_batch_norm && step.sums > 0);
  epoch.waiting = (epoch.compute + epoch.validation) * costs.waiting(within_step, work.ranks);
  // Beside everything else: to a device, and from files.
  const double fed = costs.feed((train.count * train.rows + validate.count * validate.rows) * input);
  const double read = work.streamed ? costs.read((work.samples + work.validated) * work.sample_bytes) : 0;
  epoch.load += std::max(0.0, std::max(fed, read) - epoch.all());
  return epoch;
}

// The costs of whole steps, with their micro-batches.
std::vector<LayerCost> costs_of_step(const StepSeconds& step, int micro_batches, double crowding) {
  std::vector<LayerCost> layers = step.layers;
  for (LayerCost& layer : layers) {
    layer.compute *= micro_batches * crowding, layer.message_seconds *= micro_batches * crowding;
    layer.messages *= micro_batches, layer.sent *= micro_batches;
  }
  return layers;
}

}  // namespace

Prediction predict(Backend& backend, const CostModel& costs, const Workload& work) {
  NetworkSettings sized = work.network;
  sized.max_rows = work.training.rows_at_once(static_cast<int>(work.batch));
  const bool cut = work.grid.ranks() > 1;
  const Network network(backend, sized);
  const int micro_batches = work.training.accumulate;
  const Steps train(work.samples, work);

  Prediction prediction;
  BlockStep slowest;
  const std::optional<Partition> partition =
      cut ? std::optional<Partition>(std::in_place, network, work.grid) : std::nullopt;
  for (const int number : cut ? different_blocks(*partition, network) : std::vector{0}) {
    const ModelSettings settings{.network = sized, .conv_norms = !on_device(costs), .grid = work.grid, .block = number};
    const Execution execution = build_execution(backend, network, settings);
    BlockStep block{.work = block_work(network, execution, settings),
                    .step = {},
                    .number = number,
                    .params = execution.params.size()};
    for (const ArenaSpan& span : execution.params.partitioned()) block.cut += span.count;
    block.updated = updated_by_rank(block, costs, work);
    block.averaged = averaged_count(work.training.sums.momenta, network);
    block.step = step_of(block.work, costs, work, train.rows / micro_batches);
    const int sum = on_device(costs) ? 1 : work.ranks.ranks;
    RunMemory memory =
        with_elements(memory_of(network, execution, work.training, sum), execution, costs.element_bytes());
    memory.models += memory_of_sums(work.training.sums, block.params, sum);
    if (memory.all() > prediction.memory.all()) prediction.memory = memory;
    if (block.step.all() > slowest.step.all() || number == 0) slowest = std::move(block);
  }
  if (cut) prediction.layers = grid_layers(*partition, network);

  const StepSeconds& step = slowest.step;
  prediction.epoch = epoch_of(slowest, costs, work);
  prediction.steps = static_cast<Index>(train.count);
  prediction.slowest = slowest.number;
  prediction.sent = step.sent * micro_batches;
  prediction.costs = costs_of_step(step, micro_batches, costs.crowding(work.ranks));
  const double all = step.forward + step.backward;
  if (all > 0) prediction.measured = step.measured / all, prediction.between = step.between / all;
  if (!work.streamed && !on_device(costs))
    prediction.memory.data = static_cast<Index>((work.samples + work.validated) / work.sample_groups() * kFloatBytes *
                                                static_cast<double>(slowest.work.input));
  return prediction;
}

}  // namespace mrmf
