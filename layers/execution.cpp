#include "layers/execution.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "layers/halo_exchange.hpp"
#include "layers/layer.hpp"
#include "layers/loss_terms_and_shared_weights.hpp"
#include "layers/partition.hpp"

namespace mrmf {
namespace {

/// A layer of the list as this rank computes it: the network's own, or one of its block.
struct BlockLayer {
  LayerKind kind = LayerKind::relu;
  LayerSpec spec;
  Shape input;
  Layer* layer = nullptr;  // none: its output is its input
  Join* join = nullptr;
  std::vector<std::size_t> reads;  ///< as in Wiring
  LayerPosition position{0};
};

/// Layers one after the other, each the only reader of the one before it. An `add` may have a second input from before
/// them, its shortcut.
using FusableLayers = std::span<const BlockLayer>;

bool is_kind(FusableLayers run, std::size_t i, LayerKind kind) { return i < run.size() && run[i].kind == kind; }

bool is_relu(FusableLayers run, std::size_t i) {
  return is_kind(run, i, LayerKind::relu) || is_kind(run, i, LayerKind::leaky_relu);
}

/// A fused layer and the number of layers in the list that it replaces.
struct Fused {
  std::unique_ptr<Layer> layer;
  std::size_t count = 0;
};

// conv, max_pool and relu in a row, or with relu before max_pool, which is the same: the largest value is largest after
// ReLU, too, and where none is above zero nothing has a gradient.
Fused conv_pool_relu(Backend& backend, FusableLayers run) {
  const auto is = [run](LayerKind second, LayerKind third) {
    return is_kind(run, 0, LayerKind::conv) && is_kind(run, 1, second) && is_kind(run, 2, third);
  };
  if (!is(LayerKind::max_pool, LayerKind::relu) && !is(LayerKind::relu, LayerKind::max_pool)) return {};
  const LayerSpec& pool = run[run[1].kind == LayerKind::max_pool ? 1 : 2].spec;
  return {make_conv_pool_relu(backend, run[0].input, run[0].spec, pool), 3};
}

// batch_norm, relu or leaky_relu, and average_pool if it follows and fits. Its statistics are of all positions.
Fused norm_relu_pool(Backend& backend, FusableLayers run) {
  if (!is_kind(run, 0, LayerKind::batch_norm) || !is_relu(run, 1) || run[0].position.statistics_box) return {};
  const Shape& in = run[0].input;
  if (is_kind(run, 2, LayerKind::average_pool))
    if (auto layer = make_norm_relu_pool(backend, in, {run[0].spec, run[1].spec, run[2].spec}))
      return {std::move(layer), 3};
  return {make_norm_relu_pool(backend, in, {run[0].spec, run[1].spec, std::nullopt}), 2};
}

// group_norm or layer_norm, and relu or leaky_relu.
Fused group_norm_relu(Backend& backend, FusableLayers run) {
  if (!is_kind(run, 0, LayerKind::group_norm) && !is_kind(run, 0, LayerKind::layer_norm)) return {};
  if (!is_relu(run, 1)) return {};
  return {make_group_norm_relu(backend, run[0].input, run[0].spec, run[1].spec, run[0].position), 2};
}

// batch_norm and conv at the input. Further down the fused layer would have to give a dx.
Fused norm_conv(Backend& backend, FusableLayers run) {
  if (run[0].input.axes == 0 || !is_kind(run, 0, LayerKind::batch_norm) || !is_kind(run, 1, LayerKind::conv)) return {};
  return {make_norm_conv(backend, run[0].input, run[0].spec, run[1].spec, run[0].position.statistics_box), 2};
}

// conv, batch_norm, relu or leaky_relu and average_pool, as many of them as follow each other; at the input maybe
// behind a batch_norm. Or conv, batch_norm, the add of a residual block, and its activation if that follows.
Fused conv_norm(Backend& backend, FusableLayers run, bool first) {
  const std::size_t conv = first && is_kind(run, 0, LayerKind::batch_norm) ? 1 : 0, norm = conv + 1;
  if (!is_kind(run, conv, LayerKind::conv) || !is_kind(run, norm, LayerKind::batch_norm)) return {};
  ConvNormSpecs specs{.conv = run[conv].spec, .norm = run[norm].spec};
  if (conv == 1) specs.input_norm = run[0].spec;
  std::size_t count = norm + 1;
  specs.add = is_kind(run, count, LayerKind::add);
  if (specs.add) ++count;
  if (is_relu(run, count)) specs.relu = run[count++].spec;
  if (!specs.add && is_kind(run, count, LayerKind::average_pool)) {
    specs.pool = run[count].spec;
    if (auto layer = make_conv_norm(backend, run[0].input, specs)) return {std::move(layer), count + 1};
    specs.pool.reset();
  }
  return {make_conv_norm(backend, run[0].input, specs), count};
}

/// Where a run of layers is.
struct Place {
  bool first;       ///< at the network's input
  bool conv_norms;  ///< not on a grid, where messages run beside a convolution by itself
};
/// The backend's fused layer for the first layers of the run, if any. No two layers with parameters may be fused on
/// some blocks of a grid alone: gradients are summed unit by unit, and all ranks must begin the same sums.
Fused offer(Backend& backend, FusableLayers run, const Place& place) {
  if (place.conv_norms)
    if (Fused fused = conv_norm(backend, run, place.first); fused.layer) return fused;
  for (const auto& find : {conv_pool_relu, norm_relu_pool, group_norm_relu})
    if (Fused fused = find(backend, run); fused.layer) return fused;
  return place.first ? norm_conv(backend, run) : Fused{};
}

/// Makes the units one after the other.
class ExecutionBuilder {
 public:
  ExecutionBuilder(Backend& backend, const Network& network, const ModelSettings& settings, Execution& execution)
      : backend_(backend), network_(network), settings_(settings), execution_(execution) {
    const bool alone = settings.grid.ranks() == 1;
    if (!alone) partition_.emplace(network, settings.grid), coordinates_ = settings.grid.coordinates(settings.block);
    std::vector<PartitionedWeights> cut;
    if (!alone) cut = partition_->cut_weights(settings.block);
    std::vector<bool> in_place(network.size());
    for (std::size_t i = 0; settings.in_place && i < network.size(); ++i)
      in_place[i] = network.entry(i).layer->updates_in_place() &&
                    (alone || std::ranges::any_of(cut, [i](const PartitionedWeights& one) { return one.layer == i; }));
    execution.params = ParameterLayout(network, std::move(cut), std::move(in_place));
    for (std::size_t i = 0; i < network.size(); ++i) locals_.push_back(alone ? of_network(i) : of_block(i));
    readers_.assign(network.size() + 1, 0);
    for (const BlockLayer& local : locals_)
      for (const std::size_t read : local.reads) ++readers_[read];
    if (network.parts().any()) {
      terms_ = std::make_unique<LossTerms>(backend, network);
      for (const std::size_t read : terms_->reads()) ++readers_[read];
    }
    execution.input = network.input();
    execution.input_box = {.count = network.input().spatial};
    execution.output_box = {.count = network.output().spatial};
    if (alone) return;
    execution.input_box = partition_->tensor(0).stored.block(coordinates_);
    execution.input.spatial = execution.input_box.count;
    execution.output_box = partition_->tensor(network.size()).owned.block(coordinates_);
    execution.share = static_cast<float>(partition_->share_at(coordinates_));
    execution.counts = settings.block == 0 || !partition_->tensor(network.size()).whole;
  }

  void make() {
    outputs_.assign(network_.size() + 1, 0);
    for (std::size_t i = 0; i < locals_.size();) {
      const BlockLayer& local = locals_[i];
      if (local.layer == nullptr) {
        outputs_[i + 1] = input(i, 0);
        ++i;
        continue;
      }
      Unit unit{.first = i, .last = i + 1, .layer = local.layer, .join = local.join};
      for (std::size_t k = 0; k < local.reads.size(); ++k) unit.reads.push_back(input(i, k));
      const bool first = local.reads == std::vector<std::size_t>{0} && unit.reads[0] == 0;
      if (Fused fused =
              settings_.fuse ? offer(backend_, run_from(i), {first, settings_.conv_norms && !partition_}) : Fused{};
          fused.layer) {
        unit.last = i + fused.count;
        unit.layer = keep(std::move(fused.layer));
        add_shortcut(unit);
      }
      check_output(unit);
      unit.bias = bias_in_front(i);
      unit.replicated =
          partition_ && partition_->tensor(unit.last).whole && execution_.params.partitioned(i) == nullptr;
      i = unit.last;
      add(std::move(unit));
      outputs_[i] = units().size();
    }
    add_terms();
    if (!partition_) return;
    const Placement& last = partition_->tensor(network_.size());
    if (last.owned != last.stored) halo_exchange(network_.size(), network_.size(), last.owned);
    pair_halo_exchanges();
  }

 private:
  std::vector<Unit>& units() { return execution_.units; }

  void add_terms() {
    if (!terms_) return;
    MRMF_CHECK(!partition_, "the terms of a network of several parts on a grid");
    Unit unit{.first = network_.size(), .last = network_.size(), .terms = terms_.get()};
    for (const std::size_t number : terms_->reads()) unit.reads.push_back(outputs_[number]);
    unit.layer = keep(std::move(terms_));
    add(std::move(unit));
  }

  Layer* keep(std::unique_ptr<Layer> layer) {
    execution_.owned_layers.push_back(std::move(layer));
    return execution_.owned_layers.back().get();
  }

  /// The bias of a batch norm's convolution: the last of its parameters.
  ArenaSpan bias_in_front(std::size_t i) const {
    const std::size_t number = locals_[i].kind == LayerKind::batch_norm ? locals_[i].reads[0] : 0;
    if (number == 0 || !network_.entry(number - 1).spec.bias_in_norm) return {};
    const Index channels = network_.entry(number - 1).spec.units;
    return {execution_.params.params_of(number - 1).end() - channels, channels};
  }

  /// The second input of the add within a fused unit.
  void add_shortcut(Unit& unit) {
    for (std::size_t i = unit.first + 1; i < unit.last; ++i)
      if (const auto k = shortcut_of(i)) unit.reads.push_back(input(i, *k)), unit.shortcut = true;
  }

  /// Which input of layer i is a shortcut, if it adds one to the output of the layer before it. Not the network's
  /// input: nobody has memory for its gradient.
  std::optional<std::size_t> shortcut_of(std::size_t i) const {
    const std::vector<std::size_t>& reads = locals_[i].reads;
    if (locals_[i].kind != LayerKind::add || reads.size() != 2 || reads[0] == reads[1]) return std::nullopt;
    const std::size_t k = reads[0] == i ? 1 : 0;
    if (reads[1 - k] != i || outputs_[reads[k]] == 0) return std::nullopt;
    return k;
  }

  void add(Unit unit) {
    unit.out = unit.layer->output();
    units().push_back(std::move(unit));
  }

  /// Whether a unit makes the positions of its block, and its layers are of a block or whole alike: so are their sums.
  void check_output(const Unit& unit) const {
    if (!partition_) return;
    for (std::size_t number = unit.first + 1; number < unit.last; ++number)
      MRMF_CHECK(partition_->tensor(number).whole == partition_->tensor(unit.last).whole,
                 "layers of a block are fused with others of whole samples");
    if (partition_->tensor(unit.last).unflattened) return;
    MRMF_CHECK(unit.layer->output().spatial == partition_->tensor(unit.last).stored.block(coordinates_).count,
               "a block's layer makes other positions than its neighbours expect");
  }

  BlockLayer of_network(std::size_t i) const {
    const LayerEntry& entry = network_.entry(i);
    return {entry.kind, entry.spec, entry.input, entry.layer.get(), entry.join, network_.wiring()[i]};
  }

  BlockLayer of_block(std::size_t i) {
    BlockLayer local = of_network(i);
    local.spec = partition_->spec_at(i, coordinates_);
    local.input = partition_->input_at(i, 0, coordinates_);
    if (local.kind == LayerKind::flatten && partition_->tensor(i + 1).unflattened) {
      local.layer = nullptr;
      return local;
    }
    if (const PartitionedWeights* cut = execution_.params.partitioned(i);
        cut != nullptr && local.kind == LayerKind::dense) {
      local.layer = keep(make_row_parallel_dense(backend_, local.input, local.spec, *cut));
      return local;
    }
    if (local.kind == LayerKind::rica && !output_has_fields(local.spec) && !partition_->tensor(i + 1).whole) {
      const BlockPositions& owned = partition_->tensor(i + 1).owned;
      const HaloExchangeSettings split{network_.output_numbered(local.reads[0]),
                                       settings_.grid,
                                       settings_.block,
                                       {.owned = owned, .stored = owned},
                                       partition_->layer(i).needs[0]};
      local.layer = keep(make_split_rica(backend_, local.input, local.spec, split));
      return local;
    }
    if (local.join == nullptr) {
      local.position = partition_->position_at(i, coordinates_);
      if (!settings_.ahead.value_or(!backend_.synchronous())) local.position.available_box.reset();
      local.layer = keep(make_layer(backend_, local.input, local.spec, local.position));
      return local;
    }
    std::vector<Shape> in;
    for (std::size_t k = 0; k < local.reads.size(); ++k) in.push_back(partition_->input_at(i, k, coordinates_));
    std::unique_ptr<Join> join = make_join(backend_, in, local.spec);
    local.join = join.get();
    local.layer = keep(std::move(join));
    return local;
  }

  /// The unit, or the network's input, that has input number k of layer i as the layer needs it.
  std::size_t input(std::size_t i, std::size_t k) {
    const std::size_t number = locals_[i].reads[k];
    if (!partition_ || partition_->at_hand(i, k)) return outputs_[number];
    const BlockPositions& needs = partition_->layer(i).needs[k];
    const auto known =
        std::ranges::find_if(exchanged_, [&](const HaloExchanged& e) { return e.number == number && e.to == needs; });
    return known != exchanged_.end() ? known->unit : halo_exchange(i, number, needs);
  }

  /// Before layer i, of the output `number`.
  std::size_t halo_exchange(std::size_t i, std::size_t number, const BlockPositions& to) {
    const HaloExchangeSettings settings{network_.output_numbered(number), settings_.grid, settings_.block,
                                        partition_->tensor(number), to};
    add({.first = i, .last = i, .layer = keep(make_halo_exchange(backend_, settings)), .reads = {outputs_[number]}});
    exchanged_.push_back({number, to, units().size()});
    return units().size();
  }

  void pair_halo_exchanges() {
    for (std::size_t u = 0; u + 1 < units().size(); ++u) {
      const Unit& reader = units()[u + 1];
      units()[u].overlaps_next = units()[u].is_halo_exchange() && !reader.is_halo_exchange() &&
                                 reader.join == nullptr && reader.reads == std::vector{u + 1};
    }
  }

  /// Layers from i on of which each but the last is read by the next alone, which reads nothing else, as it is. No more
  /// than are ever fused, so that networks of many layers are made in no time.
  FusableLayers run_from(std::size_t i) const {
    constexpr std::size_t kMostFused = 5;
    const auto only_reader = [&](std::size_t next) {  // nothing else reads the layer before it
      if (readers_[next] != 1) return false;
      if (shortcut_of(next)) return !partition_;
      return locals_[next].reads == std::vector{next} && (!partition_ || partition_->at_hand(next, 0));
    };
    std::size_t end = i + 1;
    while (end < locals_.size() && end < i + kMostFused && only_reader(end)) ++end;
    return FusableLayers(locals_).subspan(i, end - i);
  }

  struct HaloExchanged {
    std::size_t number;
    BlockPositions to;
    std::size_t unit;
  };

  Backend& backend_;
  const Network& network_;
  const ModelSettings& settings_;
  Execution& execution_;
  std::optional<Partition> partition_;  // none: every rank has whole samples
  Extent coordinates_{};
  std::vector<BlockLayer> locals_;
  std::vector<std::size_t> readers_;  // readers of each output, numbered as in Wiring
  std::vector<std::size_t> outputs_;  // a unit's output by that of its last layer
  std::vector<HaloExchanged> exchanged_;
  std::unique_ptr<LossTerms> terms_;  // the terms of a network of several parts, until they are a unit
};

}  // namespace

Execution build_execution(Backend& backend, const Network& network, const ModelSettings& settings) {
  Execution execution;
  ExecutionBuilder(backend, network, settings, execution).make();
  std::vector<UnitFacts> facts;
  for (Unit& unit : execution.units) {
    const Footprint footprint = unit.layer->footprint();
    unit.cache = {execution.cache, footprint.cache};
    execution.cache = aligned(unit.cache.end());
    facts.push_back({.reads = unit.reads,
                     .floats = backend.activation_floats(unit.out),
                     .in_place = footprint.in_place,
                     .identity = footprint.identity,
                     .reads_output = footprint.reads_output,
                     .reads_input = footprint.reads_input,
                     .dx_is_dy = footprint.dx_is_dy,
                     .shortcut = unit.shortcut,
                     .accepted_slices = footprint.accepted_slices,
                     .parts = footprint.parts,
                     .margin = footprint.margin});
  }
  ArenaLayout layout = lay_out_arena(facts);
  for (std::size_t u = 0; u < execution.units.size(); ++u) execution.units[u].memory = std::move(layout.units[u]);
  execution.activations = layout.floats;
  execution.separate = layout.separate;
  return execution;
}

Index Execution::floats(const Network& network, int moments) const {
  return (1 + moments) * params.size() + params.gradients() + network.state_size() + cache + activations;
}

}  // namespace mrmf
