// The CosmoFlow presets compute what PyTorch computes from the same weights: forward, loss, every gradient, running
// statistics, evaluation, six steps of Adam and of SGD. tests/peers/torch/golden_cosmoflow.py made the numbers (float64
// PyTorch) and says why its small cases are well conditioned.
#include <doctest/doctest.h>

#include <algorithm>

#include "src/config/model_config.hpp"
#include "tests/unit/support/peer_torch.hpp"

namespace mrmf::test {
namespace {

// The preset with the case's sizes, as many pools as it says, and no dropout.
std::vector<LayerSpec> sized_preset(const Json& with) {
  std::vector<LayerSpec> layers = preset_layers(with.at("preset"));
  std::erase_if(layers, [pooled = with.at("pooled").get<int>()](const LayerSpec& spec) {
    return spec.name.starts_with("pool") && std::stoi(spec.name.substr(4)) > pooled;
  });
  auto convs = with.at("convs").begin(), dense = with.at("dense").begin();
  for (LayerSpec& spec : layers) {
    if (spec.kind == LayerKind::conv) spec.units = (convs++)->get<Index>();
    if (spec.kind == LayerKind::dense) spec.units = (dense++)->get<Index>();
    spec.rate = 0.0F;
  }
  CHECK((convs == with.at("convs").end() && dense == with.at("dense").end()));
  return layers;
}

// Eight batch norms in a row divide rounding by deviations, so one draw of it says less about the next.
constexpr double kMultiple = 8;

void compare_case(Backend& backend, const Json& golden, const Json& with) {
  INFO(with.at("name").get<std::string>());
  const auto size = with.at("size").get<Extent>();
  compare_with_torch(backend, {golden, with, {0, size, 4, 3}, sized_preset(with), kMultiple}, true);
}

TEST_CASE("CosmoFlow agrees with PyTorch: small networks, both backends") {
  const Json golden = read_golden("golden_cosmoflow.json");
  const std::unique_ptr<Backend> backends[] = {make_reference_backend(), make_cpu_backend(2)};
  for (const auto& backend : backends) {
    INFO(backend->name());
    for (const Json& with : golden.at("cases"))
      if (with.at("steps") > 0) compare_case(*backend, golden, with);
  }
}

// On 64^3, the paper's coarse resolution. Too slow for the reference backend.
TEST_CASE("CosmoFlow agrees with PyTorch: the preset as it is, oneDNN") {
  const Json golden = read_golden("golden_cosmoflow.json");
  const auto backend = make_cpu_backend(2);
  for (const Json& with : golden.at("cases"))
    if (with.at("name") == "full") compare_case(*backend, golden, with);
}

}  // namespace
}  // namespace mrmf::test
