#include "src/data.hpp"

#include <fmt/format.h>

#include "src/timer.hpp"

namespace mrmf {
namespace {

Split open_split(const DatasetSpec& spec, const DataConfig& config, bool training, Comm& team) {
  Split split;
  split.shape = inspect_dataset(spec, team);
  split.order = order_settings(config, split.shape.samples, team);
  split.order.shuffle = training && config.shuffle;
  split.store = std::make_unique<SampleStore>(spec, split.shape, owned_rows(split.order), team);
  return split;
}

}  // namespace

Data::Data(const Config& config, Comm& team) {
  const Timer timer;
  train_ = open_split(config.data.train, config.data, true, team);
  validation_ = open_split(config.data.validation, config.data, false, team);
  if (train_.shape.sample != validation_.shape.sample || train_.shape.outputs != validation_.shape.outputs)
    throw DataError(
        fmt::format("training and validation data differ: samples {} and {}, labels {} and {}; check "
                    "data.train and data.validation",
                    to_string(train_.shape.sample), to_string(validation_.shape.sample), train_.shape.outputs,
                    validation_.shape.outputs));
  load_seconds_ = timer.seconds();
}

double Data::require(const Extent& resolution) {
  const Timer timer;
  train_.store->require(resolution);
  validation_.store->require(resolution);
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
  return order;
}

}  // namespace mrmf
