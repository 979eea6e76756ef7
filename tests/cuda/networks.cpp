#include "tests/cuda/networks.hpp"

#include <set>
#include <string>

#include "layers/geometry_and_reach.hpp"
#include "layers/network.hpp"
#include "src/config/model_config.hpp"

namespace mrmf::cuda {
namespace {

struct Training {
  std::string preset;
  Shape sample;  ///< n is the batch
};

Index padded(Index channels, Precision precision) {
  const Index multiple = precision == Precision::bf16 ? 8 : 4;
  return (channels + multiple - 1) / multiple * multiple;
}

/// Convolution, max pooling and ReLU are one unit, which adds the bias to what is pooled.
bool is_pooled(const std::vector<LayerSpec>& layers, std::size_t conv) {
  return conv + 2 < layers.size() && layers[conv + 1].kind == LayerKind::max_pool &&
         layers[conv + 2].kind == LayerKind::relu;
}

std::vector<ConvProblem> passes(const ConvGeometry& geometry, Index rows, Precision precision, bool backward_data) {
  ConvProblem problem;
  problem.geometry = geometry;
  problem.geometry.in_channels = padded(geometry.in_channels, precision);
  problem.geometry.out_channels = padded(geometry.out_channels, precision);
  problem.rows = rows;
  problem.precision = precision;
  std::vector<ConvProblem> problems;
  problem.pass = ConvPass::backward_weights;
  problems.push_back(problem);
  problem.pass = ConvPass::backward_data;
  if (backward_data) problems.push_back(problem);
  problem.pass = ConvPass::forward;
  problem.bias = geometry.bias;
  problems.push_back(problem);
  return problems;
}

std::vector<ConvProblem> convolutions(const Training& training, Precision precision) {
  std::vector<ConvProblem> problems;
  Shape shape = training.sample;
  bool trained_below = false;  // then gradients must reach this layer's input
  std::vector<LayerSpec> layers = preset_layers(training.preset);
  leave_biases_to_norms(layers, connect(layers));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& spec = layers[i];
    if (spec.kind == LayerKind::flatten) break;
    if (spec.kind == LayerKind::conv) {
      ConvGeometry geometry = conv_geometry(shape, spec);
      geometry.bias = geometry.bias && !is_pooled(layers, i);
      const auto more = passes(geometry, shape.n, precision, trained_below);
      problems.insert(problems.end(), more.begin(), more.end());
      shape = output_shape(shape, geometry.out(), geometry.out_channels);
    } else if (spec.kind == LayerKind::max_pool || spec.kind == LayerKind::average_pool) {
      shape = output_shape(shape, pool_geometry(shape, spec).out(), shape.channels);
    }
    trained_below = trained_below || spec.kind == LayerKind::conv || spec.kind == LayerKind::batch_norm;
  }
  return problems;
}

std::vector<Training> trainings() {
  std::vector<Training> list;
  for (const Index length : {1600, 800, 400}) {
    for (const Index batch : {512, 64}) list.push_back({"neuron_inverter", {batch, {1, 1, length}, 3, 1}});
  }
  for (const Index depth : {128, 64}) {
    for (const Index height : {128, 64}) {
      for (const Index width : {128, 64}) list.push_back({"cosmoflow", {8, {depth, height, width}, 4, 3}});
    }
  }
  return list;
}

}  // namespace

std::vector<ConvProblem> network_problems(Precision precision) {
  std::vector<ConvProblem> problems;
  std::set<std::string> known;
  for (const Training& training : trainings()) {
    for (const ConvProblem& problem : convolutions(training, precision)) {
      if (known.insert(describe(problem)).second) problems.push_back(problem);
    }
  }
  return problems;
}

}  // namespace mrmf::cuda
