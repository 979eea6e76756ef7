// The layers that no preset has compute what PyTorch's do: forward, loss, every gradient, and five optimizer steps.
// tests/peers/torch/golden_layers.py made the numbers (float64 PyTorch); its cases list their layers as a configuration
// does, and are read as one here.
#include <doctest/doctest.h>

#include "src/config/config.hpp"
#include "tests/unit/support/peer_torch.hpp"

namespace mrmf::test {
namespace {

// { type = "conv", filters = 8, kernel = [3] } of {"type": "conv", "filters": 8, "kernel": [3]}
std::string toml(const Json& layer) {
  std::string text;
  for (const auto& [key, value] : layer.items()) text += (text.empty() ? "" : ", ") + key + " = " + value.dump();
  return "{ " + text + " }";
}

std::vector<LayerSpec> configured_layers(const Json& with) {
  std::string list;
  for (const Json& layer : with.at("layers")) list += (list.empty() ? "" : ", ") + toml(layer);
  const std::string text =
      "[data]\nfiles = \"x.h5\"\ntrain = { samples = \"x\", labels = \"y\" }\n"
      "validation = { samples = \"x\", labels = \"y\" }\n[model]\nlayers = [" +
      list + "]\n";
  return parse_config(text, "the case", {}).model.layers;
}

Shape case_shape(const Json& with) {
  const auto size = with.at("size").get<std::vector<Index>>();
  Shape shape{.n = 0, .channels = 3, .axes = static_cast<int>(size.size())};
  std::copy(size.rbegin(), size.rend(), shape.spatial.rbegin());
  return shape;
}

}  // namespace

TEST_CASE("layers agree with PyTorch: convolutions, norms, upsampling, activations, untied weights, contrast") {
  const Json golden = read_golden("golden_layers.json");
  const std::unique_ptr<Backend> backends[] = {make_reference_backend(), make_cpu_backend(2)};
  for (const auto& backend : backends)
    for (const Json& with : golden.at("cases")) {
      INFO(backend->name(), " ", with.at("name").get<std::string>());
      compare_with_torch(*backend, {golden, with, case_shape(with), configured_layers(with), 6}, true);
    }
}

}  // namespace mrmf::test
