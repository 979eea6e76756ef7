// The operations of one rank, layer by layer, by which their times are found, and what they cost on named GPUs by a
// roofline. Declared in rank_planner.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "kernels/errors.hpp"
#include "layers/geometry_and_reach.hpp"
#include "src/rank_planner/rank_planner.hpp"
#include "src/training/model_and_optimizer.hpp"

namespace mrmf {

// The operations of one rank, by which their times are found; declared in rank_planner.hpp.

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
    const auto wanted = [](std::size_t number) { return number != 0; };
    // The gradient of a shortcut costs no convolution.
    operation.data_gradient = unit.shortcut ? wanted(unit.reads[0]) : std::ranges::any_of(unit.reads, wanted);
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

// Costs on named GPUs by a roofline. Declared in rank_planner.hpp.

const std::vector<GpuMachine>& gpu_machines() {
  constexpr double giga = 1e9, tera = 1e12;
  static const std::vector<GpuMachine> machines{
      {"v100", "V100 16 GB, 4 in a node with NVLink 2 and two EDR InfiniBand links", 16 * giga, 0.9 * tera, 125 * tera,
       15.7 * tera, 15.7 * tera, 4, 75 * giga, 6.25 * giga, 16 * giga},
      {"a100", "A100 80 GB, 8 in a node with NVLink 3 and eight HDR InfiniBand links", 80 * giga, 2.04 * tera,
       312 * tera, 156 * tera, 19.5 * tera, 8, 300 * giga, 25 * giga, 32 * giga},
      {"h100", "H100 SXM 80 GB, 8 in a node with NVLink 4 and eight NDR InfiniBand links", 80 * giga, 3.35 * tera,
       989 * tera, 495 * tera, 67 * tera, 8, 450 * giga, 50 * giga, 64 * giga},
      {"h200", "H200 SXM 141 GB, 8 in a node with NVLink 4 and eight NDR InfiniBand links", 141 * giga, 4.8 * tera,
       989 * tera, 495 * tera, 67 * tera, 8, 450 * giga, 50 * giga, 64 * giga}};
  return machines;
}

namespace {

/// Output channels below these fill the tiles of a kernel in part only.
constexpr double kTensorChannels = 64, kCoreChannels = 32;

class Roofline final : public CostModel {
 public:
  Roofline(const GpuMachine& gpu, Precision precision, const RooflineShares& shares)
      : gpu_(gpu), shares_(shares), precision_(precision) {
    flops_ = precision == Precision::bf16   ? gpu.flops_bf16
             : precision == Precision::tf32 ? gpu.flops_tf32
                                            : gpu.flops_fp32;
    on_cores_ = flops_ == gpu.flops_fp32;
  }

  std::string description() const override {
    return fmt::format("a roofline of {} in {}; modelled, not measured", gpu_.title, word(precision_));
  }

  std::vector<std::string> assumptions() const override {
    return {
        fmt::format("memory: {:.0f} % of {:.3g} TB/s; arithmetic: {:.0f} % of the {:.4g} TFLOP/s of {} cores, in "
                    "proportion less with fewer than {:.0f} output channels (8 at least)",
                    100 * shares_.memory, 1e-12 * gpu_.bytes_per_second, 100 * share(), 1e-12 * flops_,
                    on_cores_ ? "CUDA" : "tensor", full_channels()),
        fmt::format("a pass of a layer reads its inputs and writes its outputs once, in {:.0f} bytes each, and is "
                    "a kernel of {:.2g} us at least; layers are fused as on the CPU",
                    element_bytes(), 1e6 * shares_.launch),
        fmt::format(
            "messages: {:.0f} % of {:.3g} GB/s within a node of {} and of {:.3g} GB/s for each GPU beyond it; those of "
            "a halo exchange go at once and take {:.2g} us or {:.2g} us more; nothing hides them",
            100 * shares_.link, 1e-9 * gpu_.node_link, gpu_.per_node, 1e-9 * gpu_.outer_link,
            1e6 * shares_.node_latency, 1e6 * shares_.outer_latency),
        fmt::format(
            "sums over ranks: rings that leave a node once, at {:.0f} % of {:.3g} GB/s, with the latency of a tree; "
            "backward hides those of gradients but for the last 8 MB",
            100 * shares_.link, 1e-9 * ring_link(false)),
        fmt::format(
            "samples lie in the host's memory and are copied beside the step at {:.0f} % of {:.3g} GB/s; the loss "
            "costs a kernel, the optimizer its memory traffic; reading files and waiting for slower ranks cost "
            "nothing",
            100 * shares_.link, 1e-9 * gpu_.host_link)};
  }

  PassSeconds operation(const Operation& o, double rows) const override {
    PassSeconds seconds;
    if (o.gives_no_work) return seconds;
    const double bytes = element_bytes() * rows * o.elements + element_bytes() * static_cast<double>(o.parameters);
    const double pass = std::max(bytes / memory_rate(), rows * o.flop / (flops_ * share() * filled(o)));
    seconds.forward = shares_.launch + pass;
    if (o.weighted && o.parameters > 0) seconds.weights = shares_.launch + pass;
    if (o.data_gradient || !o.weighted) seconds.data = shares_.launch + pass;
    if (o.sums > 0) seconds.forward += bytes / memory_rate(), seconds.data += bytes / memory_rate();  // read twice
    return seconds;
  }
  CostSource source(const Operation&, double) const override { return CostSource::fitted; }

  double loss(double outputs) const override { return shares_.launch + 3 * element_bytes() * outputs / memory_rate(); }

  double messages(const std::vector<double>& bytes, const RankLayout& group) const override {
    if (bytes.empty()) return 0;
    const bool inside = group.ranks <= gpu_.per_node;
    double seconds = (inside ? shares_.node_latency : shares_.outer_latency);
    for (const double each : bytes) seconds += each / link(inside);
    return seconds;
  }

  double gradient_sum(double bytes, double backward, const RankLayout& ranks) const override {
    if (ranks.ranks == 1) return 0;
    constexpr double kLast = 8e6;
    const double all = sum(bytes, ranks), last = sum(std::min(bytes, kLast), ranks);
    return std::max(last, all - backward);
  }
  double small_sum(const RankLayout& ranks) const override { return ranks.ranks == 1 ? 0 : sum(1e3, ranks); }

  double update(OptimizerKind kind, Index parameters) const override {
    const double bytes = 12 + 8 * moment_count(kind);  // reads w, dw and moments, writes w and moments
    return shares_.launch + bytes * static_cast<double>(parameters) / memory_rate();
  }
  double load(double bytes) const override { return shares_.launch + 2 * bytes / memory_rate(); }
  double read(double) const override { return 0; }
  double feed(double bytes) const override { return bytes / (shares_.link * gpu_.host_link); }
  double element_bytes() const override { return precision_ == Precision::bf16 ? 2 : 4; }
  double memory() const override { return gpu_.memory; }

 private:
  static std::string word(Precision precision) { return words_of<Precision>()[static_cast<std::size_t>(precision)]; }
  double memory_rate() const { return shares_.memory * gpu_.bytes_per_second; }
  double link(bool inside) const { return shares_.link * (inside ? gpu_.node_link : gpu_.outer_link); }

  double share() const { return on_cores_ ? shares_.cores : shares_.tensor; }
  double full_channels() const { return on_cores_ ? kCoreChannels : kTensorChannels; }
  double filled(const Operation& o) const {
    return std::min(1.0, std::max(static_cast<double>(o.out.channels), 8.0) / full_channels());
  }

  // Within a node a GPU's own link. Beyond it all of the node's: of a ring's GPUs one sends to another node, and as
  // many rings as links share the bytes.
  double ring_link(bool inside) const {
    return inside ? gpu_.node_link : std::min(gpu_.node_link, gpu_.per_node * gpu_.outer_link);
  }

  // A ring's bytes over its slowest link, with the latency of a tree.
  double sum(double bytes, const RankLayout& ranks) const {
    const bool inside = ranks.ranks <= gpu_.per_node;
    const double latency = inside ? shares_.node_latency : shares_.outer_latency;
    return 2 * latency * std::log2(ranks.ranks) +
           2 * (1 - 1.0 / ranks.ranks) * bytes / (shares_.link * ring_link(inside));
  }

  GpuMachine gpu_;
  RooflineShares shares_;
  Precision precision_;
  double flops_ = 0;
  bool on_cores_ = false;
};

}  // namespace

std::unique_ptr<CostModel> roofline_costs(const std::string& name, Precision precision, const RooflineShares& shares) {
  std::vector<std::string> names;
  for (const GpuMachine& gpu : gpu_machines()) {
    if (gpu.name == name) return std::make_unique<Roofline>(gpu, precision, shares);
    names.push_back(gpu.name);
  }
  throw ConfigError(fmt::format("--machine {}: known are {}", name, fmt::join(names, ", ")));
}

}  // namespace mrmf
