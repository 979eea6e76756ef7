#include "tests/cuda/networks.hpp"

#include <set>
#include <string>

#include "layers/geometry.hpp"
#include "src/config/presets.hpp"

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
  problem.bias = true;
  problems.push_back(problem);
  return problems;
}

std::vector<ConvProblem> convolutions(const Training& training, Precision precision) {
  std::vector<ConvProblem> problems;
  Shape shape = training.sample;
  bool trained_below = false;  // then gradients must reach this layer's input
  for (const LayerSpec& spec : preset_layers(training.preset)) {
    if (spec.kind == LayerKind::flatten) break;
    if (spec.kind == LayerKind::conv) {
      const ConvGeometry geometry = conv_geometry(shape, spec);
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
