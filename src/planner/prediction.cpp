#include "src/planner/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "layers/model.hpp"

namespace mrmf {
namespace {

constexpr double kFloat = sizeof(float);

/// Of one step.
struct StepSeconds {
  double forward = 0, backward = 0, loss = 0;
  double messages = 0;  ///< forward and backward
  double sent = 0;      ///< bytes, the same
  int sums = 0;         ///< in forward, and again in backward
  double measured = 0, between = 0;
  double all() const { return forward + backward + loss + messages; }
};

StepSeconds step_of(const BlockWork& block, const CostModel& costs, const Workload& work, double rows) {
  StepSeconds step;
  const RankPlaces group{work.grid.ranks(), std::min(work.grid.ranks(), work.ranks.per_node)};
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
    step.messages += 2 * costs.messages(bytes, group);
    for (const double each : bytes) step.sent += 2 * each;
  }
  step.loss = costs.loss(rows * static_cast<double>(block.output));
  return step;
}

/// Steps of a split: their number, and rows of one.
struct Steps {
  double count = 0, rows = 0;
  Steps(double samples, const Workload& work) {
    const double own = std::ceil(samples / work.groups());
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
  Index params = 0;  ///< floats of its parameters
};

RunMemory with_elements(RunMemory memory, const Execution& execution, double element_bytes) {
  const double saved = (kFloat - element_bytes) * static_cast<double>(execution.activations);
  memory.models -= static_cast<Index>(saved);
  return memory;
}

}  // namespace

Prediction predict(Backend& backend, const CostModel& costs, const Workload& work) {
  NetworkSettings sized = work.network;
  sized.max_rows = work.training.rows_at_once(static_cast<int>(work.batch));
  const Network network(backend, sized);
  const bool cut = work.grid.ranks() > 1;
  const int parts = work.training.accumulate;
  const Steps train(work.samples, work), validate(work.validated, work);

  Prediction prediction;
  BlockStep slowest;
  const std::optional<Partition> partition =
      cut ? std::optional<Partition>(std::in_place, network, work.grid) : std::nullopt;
  for (const int number : cut ? different_blocks(*partition, network) : std::vector{0}) {
    const ModelSettings settings{.network = sized, .grid = work.grid, .block = number};
    const Execution execution = plan_execution(backend, network, settings);
    BlockStep block{block_work(network, execution, settings), {}, number, execution.params.size()};
    block.step = step_of(block.work, costs, work, train.rows / parts);
    const RunMemory memory =
        with_elements(memory_of(network, execution, work.training), execution, costs.element_bytes());
    if (memory.all() > prediction.memory.all()) prediction.memory = memory;
    if (block.step.all() > slowest.step.all() || number == 0) slowest = std::move(block);
  }
  if (cut) prediction.layers = grid_layers(*partition, network);

  const StepSeconds& step = slowest.step;
  const double crowding = costs.crowding(work.ranks);
  const auto params = static_cast<double>(slowest.params);
  EpochSeconds& epoch = prediction.epoch;
  prediction.steps = static_cast<Index>(train.count);
  prediction.slowest = slowest.number;
  prediction.sent = step.sent * parts;
  const double computed = step.forward + step.backward + step.loss;
  epoch.compute = train.count * parts * computed * crowding;
  epoch.messages = train.count * parts * step.messages * crowding;
  const int small = (work.training.global_batch_norm ? 2 * step.sums * parts : 0) + 1;  // one asks for signals
  epoch.sums = train.count * (costs.gradient_sum(kFloat * (params + kReducedScalars), step.backward, work.ranks) +
                              small * costs.small_sum(work.ranks));
  epoch.update = train.count * costs.update(work.training.optimizer.name, slowest.params) * crowding;
  const double input = kFloat * static_cast<double>(slowest.work.input);
  const auto load = [&](const Steps& steps) { return steps.count * costs.load(steps.rows * input) * crowding; };
  epoch.load = load(train);
  const StepSeconds look = step_of(slowest.work, costs, work, validate.rows);
  epoch.validation = validate.count == 0
                         ? 0
                         : validate.count * (look.forward + look.loss / 2 + look.messages / 2) * crowding +
                               load(validate) + costs.small_sum(work.ranks);
  if (work.streamed) {  // read ahead, beside everything else
    const double read = costs.read((work.samples + work.validated) * work.sample_bytes);
    epoch.load += std::max(0.0, read - epoch.all());
  }
  const double all = step.forward + step.backward;
  if (all > 0) prediction.measured = step.measured / all, prediction.between = step.between / all;
  if (!work.streamed)
    prediction.memory.data = static_cast<Index>((work.samples + work.validated) / work.groups() * kFloat *
                                                static_cast<double>(slowest.work.input));
  return prediction;
}

}  // namespace mrmf
