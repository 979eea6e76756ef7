// The operations of one rank, by which their times are found; declared in cost_model.hpp.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "layers/geometry_and_reach.hpp"
#include "src/rank_planner/cost_model.hpp"

namespace mrmf {
namespace {

// The settings that time depends on, but a dense layer's sizes. Padding is left out: blocks of one layer
// differ in it.
std::string key_of(const LayerEntry& entry) {
  std::string key = to_string(entry.kind);
  const LayerSpec& spec = entry.spec;
  if (spec.output == RicaOutput::features) key += " features";
  const int axes = entry.input.axes;
  if (is_norm(entry.kind)) return key + " " + (axes == 0 ? "flat" : std::to_string(entry.input.channels));
  const bool conv = is_weighted(entry.kind) && entry.kind != LayerKind::dense;
  if (!conv && !is_pool(entry.kind) && entry.kind != LayerKind::local_contrast_norm) return key;
  key += " " + std::to_string(entry.input.channels);
  if (conv) key += "->" + std::to_string(spec.units);
  key += " " + to_string(spec.window, axes);
  if (std::ranges::any_of(spec.stride, [](Index s) { return s > 1; })) key += "/" + to_string(spec.stride, axes);
  if (spec.dilation != Extent{1, 1, 1}) key += " dilated " + to_string(spec.dilation, axes);
  return key;
}

/// Follows the units of one rank.
class Follower {
 public:
  Follower(const Network& network, const Execution& execution, const ModelSettings& settings)
      : network_(network), execution_(execution), settings_(settings) {
    if (settings.grid.ranks() == 1) return;
    partition_.emplace(network, settings.grid);
    coordinates_ = settings.grid.coordinates(settings.block);
  }

  Operation of(const Unit& unit) {
    Operation operation = unit.is_halo_exchange() ? halo_exchange(unit)
                          : unit.terms != nullptr ? terms()
                                                  : layers(unit);
    operation.in = shape_of(unit.reads[0]);
    operation.out = unit.out;
    if (operation.key == to_string(LayerKind::dense))
      scale_to_columns(operation, execution_.params.partitioned(unit.first));
    operation.elements = static_cast<double>(unit.out.per_sample());
    for (const std::size_t number : unit.reads)
      operation.elements += static_cast<double>(shape_of(number).per_sample());
    operation.data_gradient = std::ranges::any_of(unit.reads, [](std::size_t number) { return number != 0; });
    return operation;
  }

 private:
  Shape shape_of(std::size_t number) const { return number == 0 ? execution_.input : execution_.units[number - 1].out; }

  // The share of a layer's output that this block makes.
  double made(std::size_t layer) const {
    if (!partition_) return 1;
    return static_cast<double>(product(partition_->tensor(layer + 1).stored.block(coordinates_).count)) /
           static_cast<double>(product(network_.entry(layer).output().spatial));
  }

  Operation layers(const Unit& unit) const {
    Operation operation;
    operation.layer = network_.entry(unit.first).name;
    operation.last = network_.entry(unit.last - 1).name;
    operation.whole = network_.entry(unit.last - 1).output();
    operation.gives_no_work = unit.layer->footprint().identity;
    for (std::size_t i = unit.first; i < unit.last; ++i) {
      const LayerEntry& entry = network_.entry(i);
      operation.key += (i > unit.first ? "+" : "") + key_of(entry);
      operation.flop += entry.layer->flop() * made(i);
      operation.parameters += execution_.params.params_of(i).count;
      operation.weighted = operation.weighted || is_weighted(entry.kind);
      operation.sums += entry.kind == LayerKind::batch_norm ? 1 : 0;
    }
    if (unit.last - unit.first == 3 && network_.entry(unit.first + 2).kind == LayerKind::max_pool)  // ReLU before it
      operation.key = key_of(network_.entry(unit.first)) + "+" + key_of(network_.entry(unit.first + 2)) + "+" +
                      key_of(network_.entry(unit.first + 1));
    return operation;
  }

  // By the features that it reads here, all or this rank's, and what it writes. Products of row-parallel weights are
  // summed.
  static void scale_to_columns(Operation& operation, const PartitionedWeights* cut) {
    const Index in = cut != nullptr ? cut->columns(cut->rank) : operation.in.per_sample();
    const Index out = operation.out.per_sample();
    if (cut != nullptr) operation.sums = 1;
    operation.key += " " + std::to_string(in) + "->" + std::to_string(out);
    operation.flop = 2 * static_cast<double>(in) * static_cast<double>(out);
    operation.parameters = (in + 1) * out;
  }

  static Operation terms() {
    Operation operation;
    operation.layer = operation.last = operation.key = "loss terms";
    return operation;
  }

  Operation halo_exchange(const Unit& unit) {
    Operation operation;
    operation.key = "exchange";
    const std::size_t tensor = tensor_of(unit.reads[0]);
    const Placement& from = partition_->tensor(tensor);
    const BlockPositions& to = needed(unit, tensor);
    const Shape shape = tensor == 0 ? network_.input() : network_.entry(tensor - 1).output();
    const Box owned = from.owned.block(coordinates_);
    for (int rank = 0; rank < settings_.grid.ranks(); ++rank) {
      if (rank == settings_.block) continue;
      const Index positions = product(intersection(owned, to.block(settings_.grid.coordinates(rank))).count);
      if (positions > 0) operation.sent.push_back(static_cast<double>(positions * shape.channels));
    }
    return operation;
  }

  // The network's tensor that is the output of this unit.
  std::size_t tensor_of(std::size_t number) const { return number == 0 ? 0 : execution_.units[number - 1].last; }

  // The first need for this tensor of the layer behind the exchange that has the exchange's shape.
  const BlockPositions& needed(const Unit& unit, std::size_t tensor) const {
    if (unit.first == network_.size()) return partition_->tensor(tensor).owned;
    const std::vector<std::size_t>& reads = network_.wiring()[unit.first];
    for (std::size_t k = 0; k < reads.size(); ++k) {
      const BlockPositions& needs = partition_->layer(unit.first).needs[k];
      if (reads[k] == tensor && needs.block(coordinates_).count == unit.out.spatial) return needs;
    }
    MRMF_CHECK(false, "a halo exchange is for the layer behind it");
    return partition_->layer(unit.first).needs[0];
  }

  const Network& network_;
  const Execution& execution_;
  const ModelSettings& settings_;
  std::optional<Partition> partition_;
  Extent coordinates_{};
};

}  // namespace

BlockWork block_work(const Network& network, const Execution& execution, const ModelSettings& settings) {
  BlockWork work{{}, execution.input.per_sample(), execution.units.back().out.per_sample()};
  Follower follower(network, execution, settings);
  for (const Unit& unit : execution.units) work.operations.push_back(follower.of(unit));
  return work;
}

std::vector<int> different_blocks(const Partition& partition, const Network& network) {
  std::map<std::vector<Index>, int> first;
  for (int block = 0; block < partition.grid().ranks(); ++block) {
    const Extent coordinates = partition.grid().coordinates(block);
    std::vector<Index> sizes;
    const auto add = [&](const Box& box) { sizes.insert(sizes.end(), box.count.begin(), box.count.end()); };
    for (std::size_t i = 0; i < network.size(); ++i) {
      for (const BlockPositions& needs : partition.layer(i).needs) add(needs.block(coordinates));
      add(partition.layer(i).output.stored.block(coordinates));
      add(partition.layer(i).output.owned.block(coordinates));
    }
    first.emplace(std::move(sizes), block);
  }
  std::vector<int> blocks;
  for (const auto& [sizes, block] : first) blocks.push_back(block);
  std::ranges::sort(blocks);
  return blocks;
}

GridLayers grid_layers(const Partition& partition, const Network& network) {
  GridLayers layers;
  const std::vector<PartitionedWeights> weights = partition.cut_weights(0);
  for (std::size_t i = 0; i < network.size(); ++i) {
    const std::string& name = network.entry(i).name;
    const std::vector<std::size_t>& reads = network.wiring()[i];
    const bool whole = partition.layer(i).output.whole &&
                       std::ranges::none_of(weights, [&](const PartitionedWeights& cut) { return cut.layer == i; });
    bool messages = false;
    for (std::size_t k = 0; k < reads.size(); ++k) messages = messages || !partition.at_hand(i, k);
    if (whole && messages)
      layers.gathered.push_back(name);
    else
      (whole ? layers.whole : layers.cut).push_back(name);
    if (!whole && messages) layers.exchanged.push_back(name);
  }
  return layers;
}

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, {}, ..., {} ({})", names[0], names[1], names.back(), names.size());
}

}  // namespace mrmf
