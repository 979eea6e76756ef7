#include "src/data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/data_memory.hpp"
#include "src/plan.hpp"
#include "src/timer.hpp"

namespace mrmf {
namespace {

Split inspect_split(const DatasetSpec& spec, const DataConfig& config, Comm& team) {
  Split split;
  split.shape = inspect_dataset(spec, team);
  split.order = order_settings(config, split.shape.samples, team);
  return split;
}

void require_same_samples(const DatasetShape& train, const DatasetShape& validation) {
  if (train.sample == validation.sample && train.outputs == validation.outputs) return;
  throw DataError(
      fmt::format("training and validation data differ: samples {} and {}, labels {} and {}; check "
                  "data.train and data.validation",
                  to_string(train.sample), to_string(validation.sample), train.outputs, validation.outputs));
}

}  // namespace

Data::Data(const Config& config, Comm& team) {
  const Timer timer;
  train_ = inspect_split(config.data.train, config.data, team);
  validation_ = inspect_split(config.data.validation, config.data, team);
  validation_.order.shuffle = false;
  require_same_samples(train_.shape, validation_.shape);
  for (const TrainStep& step : make_plan(config).training()) {
    const auto raise = [&](Split& split, Index rows) {
      Index& most = split.batch_rows[step.resolution];
      most = std::max(most, rows);
    };
    raise(train_, step.batch);
    raise(validation_, validation_batch(validation_.order, step.batch));
  }
  const MemoryPlan memory = plan_memory(
      config.data,
      {{train_.shape, train_.order, train_.batch_rows}, {validation_.shape, validation_.order, validation_.batch_rows}},
      team);
  const auto open = [&](Split& split, const DatasetSpec& spec, const StoreSettings& settings) {
    split.store = std::make_unique<SampleStore>(spec, split.shape, owned_rows(split.order), team, settings);
  };
  open(train_, config.data.train, memory.stores[0]);
  open(validation_, config.data.validation, memory.stores[1]);
  way_ = fmt::format("{} {}; {}", to_string(train_.shape.type), memory.text, train_.store->way());
  load_seconds_ = timer.seconds();
}

double Data::require(const Extent& resolution) {
  const Timer timer;
  for (Split* split : {&train_, &validation_}) {
    const auto rows = split->batch_rows.find(resolution);
    split->store->require(resolution, rows == split->batch_rows.end() ? 1 : rows->second);
  }
  return timer.seconds();
}

void Data::release(const Extent& resolution) {
  train_.store->release(resolution);
  validation_.store->release(resolution);
}

OrderSettings order_settings(const DataConfig& config, Index samples, const Comm& team) {
  OrderSettings order;
  order.samples = samples;
  order.ranks = team.size();
  order.rank = team.rank();
  order.shards = config.shards > 0 ? config.shards : team.size();
  order.shuffle = config.shuffle;
  return order;
}

Index validation_batch(const OrderSettings& order, Index batch) {
  const Index least = order.shards / order.ranks;
  return std::max(least, std::min(batch, largest_batch(order)));
}

}  // namespace mrmf
