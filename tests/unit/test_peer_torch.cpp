// The Neuron Inverter network computes what PyTorch computes from the same weights: forward, loss, every gradient,
// running statistics, evaluation, ten Adam steps. tests/peers/torch/golden.py made the numbers (float64 PyTorch) and
// says why its cases are well conditioned.
#include <doctest/doctest.h>

#include "kernels/cpu/instruction_set.hpp"
#include "tests/unit/support/peer_torch.hpp"

namespace mrmf::test {
namespace {

std::vector<LayerSpec> neuron_inverter(const Json& with) {
  std::vector<LayerSpec> layers;
  const auto add = [&](LayerKind kind, const std::string& name) -> LayerSpec& {
    LayerSpec spec;
    spec.kind = kind;
    spec.name = name;
    return layers.emplace_back(spec);
  };
  const auto channels = with.at("channels").get<std::vector<Index>>();
  for (std::size_t i = 1; i < channels.size(); ++i) {
    const std::string number = std::to_string(i);
    LayerSpec& conv = add(LayerKind::conv, "conv" + number);
    conv.units = channels[i];
    conv.window = {1, 1, 4};
    add(LayerKind::max_pool, "pool" + number).window = {1, 1, 4};
    add(LayerKind::relu, "conv_relu" + number);
  }
  add(LayerKind::flatten, "flatten");
  add(LayerKind::batch_norm, "batch_norm");
  const auto dense = with.at("dense").get<std::vector<Index>>();
  for (std::size_t i = 0; i < dense.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    add(LayerKind::dense, "dense" + number).units = dense[i];
    if (i + 1 == dense.size()) break;
    add(LayerKind::relu, "dense_relu" + number);
    add(LayerKind::dropout, "dropout" + number).rate = 0.0F;
  }
  return layers;
}

// Winograd's sums, which the fused convolutions are, round two to three times as much as plain ones. Sums in vectors of
// four, without FMA, have longer chains: the worst bias gradient is off by 36 roundings.
double multiple_of(const Backend& backend, bool fused) {
  if (backend.name() != "onednn") return 4;
  if (fused) return 7;
  return cpu::instruction_set() == cpu::InstructionSet::generic ? 5 : 4;
}

void compare_neuron_inverter(Backend& backend) {
  const Json golden = read_golden("golden.json");
  for (const Json& with : golden.at("cases")) {
    for (const bool fuse : {false, true}) {
      const std::string name = with.at("name").get<std::string>() + (fuse ? ", fused" : ", layer by layer");
      INFO(name);
      const Shape sample{0, {1, 1, with.at("length").get<Index>()}, 3, 1};
      compare_with_torch(backend, {golden, with, sample, neuron_inverter(with), multiple_of(backend, fuse)}, fuse);
    }
  }
}

TEST_CASE("the reference backend agrees with PyTorch") { compare_neuron_inverter(*make_reference_backend()); }

TEST_CASE("the oneDNN backend agrees with PyTorch") { compare_neuron_inverter(*make_cpu_backend(2)); }

}  // namespace
}  // namespace mrmf::test
