// Costs on named GPUs by a roofline. Declared in cost_model.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "kernels/errors.hpp"
#include "src/rank_planner/cost_model.hpp"
#include "src/training/model_and_optimizer.hpp"

namespace mrmf {

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
