// Costs in round numbers and a network that is small enough to work out what it takes, for tests of the planner.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "src/rank_planner/rank_planner.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {

inline doctest::Approx near(double value) { return doctest::Approx(value).epsilon(1e-9); }

/// Round numbers: milliseconds per element and pass, a second per message.
class RoundCosts : public CostModel {
 public:
  std::string description() const override { return "round numbers"; }
  std::vector<std::string> assumptions() const override { return {}; }
  PassSeconds operation(const Operation& o, double rows) const override {
    if (o.gives_no_work) return {};
    const double pass = 1e-3 * rows * o.elements;
    return {pass, o.data_gradient ? 2 * pass : 0, o.parameters > 0 ? 3 * pass : 0};
  }
  CostSource source(const Operation& o, double) const override {
    return o.halo_exchange() ? CostSource::between : CostSource::measured;
  }
  double loss(double outputs) const override { return 0.01 * outputs; }
  double messages(const std::vector<double>& bytes, const RankLayout&) const override {
    double seconds = 0;
    for (const double each : bytes) seconds += 1 + 1e-3 * each;
    return seconds;
  }
  double gradient_sum(double, double, const RankLayout& ranks) const override { return ranks.ranks > 1 ? 5 : 0; }
  double small_sum(const RankLayout& ranks) const override { return ranks.ranks > 1 ? 0.5 : 0; }
  double update(OptimizerKind, Index) const override { return 0.25; }
  double load(double bytes) const override { return 1e-3 * bytes; }
  double read(double bytes) const override { return bytes; }
  double memory() const override { return limit; }
  double limit = 0;
};

inline LayerSpec conv3() {
  LayerSpec conv = layer(LayerKind::conv, 4);
  conv.window = {1, 1, 3};
  conv.same_padding = true;
  conv.stride = {1, 1, 1};
  return conv;
}

/// 16 positions of 2 channels: convolution to 4, ReLU, dense layer to 2.
inline NetworkSettings small_network() {
  std::vector<LayerSpec> layers{conv3(), layer(LayerKind::relu), layer(LayerKind::flatten), layer(LayerKind::dense, 2)};
  name_layers(layers);
  return {{.n = 0, .spatial = {1, 1, 16}, .channels = 2, .axes = 1}, 1, layers, {}};
}

}  // namespace mrmf::test
