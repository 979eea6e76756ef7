#include "src/bench/bench_layers.hpp"

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <ostream>

#include "kernels/onednn/best_times.hpp"
#include "layers/geometry.hpp"
#include "src/bench/bench_tools.hpp"
#include "src/config/presets.hpp"
#include "src/system/timer.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {
namespace {

using onednn::BestTimes;

/// The steps of one unit of the model, all timed steps.
struct UnitTimes {
  std::vector<double> forward, backward;
};

/// Runs training steps as Model does, with a clock around every unit.
class TimedSteps {
 public:
  TimedSteps(Backend& backend, const BenchSettings& settings)
      : backend_(backend), learner_(backend, model_settings(settings), OptimizerSettings{}, {1, 1, 1}) {
    const Network& network = learner_.model.network();
    input_ = backend.allocate(network.input().count());
    target_ = backend.allocate(network.output().count());
    fill_normal(input_.span(), 1);
    fill_normal(target_.span(), 2);
    ids_.resize(static_cast<std::size_t>(settings.batch));
    std::iota(ids_.begin(), ids_.end(), 0);
    y_.push_back({network.input(), input_.span()});
    dy_.emplace_back();
    for (const Unit& unit : learner_.model.units()) {
      y_.push_back({unit.out, unit.in_place ? y_.back().data : memory(unit.out)});
      dy_.push_back({unit.out, unit.in_place ? dy_.back().data : memory(unit.out)});
    }
    units.resize(learner_.model.units().size());
  }

  void run(bool timed) {
    Model& model = learner_.model;
    Step step{.training = true, .seed = 1, .number = learner_.optimizer.steps(), .ids = ids_};
    step.loss_weight = 1.0F / static_cast<float>(y_.back().shape.n);
    learner_.optimizer.advance(1e-3, step);
    Timer timer;
    const auto note = [&](std::vector<double>& times) {
      const double seconds = timer.lap();
      if (timed) times.push_back(seconds);
    };
    for (std::size_t u = 0; u < units.size(); ++u) {
      model.units()[u].run->forward(model.lend(model.units()[u], step), y_[u], y_[u + 1]);
      note(units[u].forward);
    }
    backend_.loss(step, LossKind::mse, y_.back(), {y_.back().shape, target_.span()}, dy_.back().data, model.loss());
    note(loss);
    for (std::size_t u = units.size(); u-- > 0;) {
      model.units()[u].run->backward(model.lend(model.units()[u], step), y_[u], y_[u + 1], dy_[u + 1], dy_[u]);
      note(units[u].backward);
    }
    learner_.optimizer.update(step, model.params(), model.grads());
    note(update);
  }

  Model& model() { return learner_.model; }
  std::vector<UnitTimes> units;
  std::vector<double> loss, update;

 private:
  static ModelSettings model_settings(const BenchSettings& settings) {
    ModelSettings result;
    result.network = {settings.sample, settings.batch, preset_layers(settings.preset), ""};
    return result;
  }
  Span memory(const Shape& shape) {
    arenas_.push_back(backend_.allocate(shape.count()));
    return arenas_.back().span();
  }

  Backend& backend_;
  Learner learner_;
  Arena input_, target_;
  std::vector<Arena> arenas_;
  std::vector<std::int64_t> ids_;
  std::vector<Tensor> y_, dy_;  // y_[u] and dy_[u]: at the input of unit u
};

/// oneDNN's best for layer i: the dense layers, and convolutions behind the first (whose dx nobody needs).
std::optional<BestTimes> best_times(const Network& network, const std::vector<LayerSpec>& specs, std::size_t i,
                                    int repeats) {
  const Entry& entry = network.entry(i);
  const Index rows = network.input().n;
  if (entry.kind == LayerKind::conv && i > 0)
    return onednn::best_conv_times(conv_geometry(entry.input, specs[i]), rows, repeats);
  if (entry.kind == LayerKind::dense)
    return onednn::best_dense_times(entry.input.per_sample(), entry.output().per_sample(), rows, repeats);
  return std::nullopt;
}

struct Sums {
  double best = 0, ours_of_best = 0, ours = 0;
};

/// One line of the table; adds to the sums.
std::string unit_line(const Network& network, const std::vector<LayerSpec>& specs, const Unit& unit,
                      const UnitTimes& times, int repeats, Sums& sums) {
  std::string name;
  double flop = 0;
  for (std::size_t i = unit.first; i < unit.last; ++i) {
    name += (i > unit.first ? "+" : "") + network.entry(i).name;
    flop += network.entry(i).layer->flop() * static_cast<double>(network.input().n);
  }
  const double forward = median(times.forward), backward = median(times.backward);
  sums.ours += forward + backward;
  const double passes = unit.first == 0 ? 2 : 3;  // the first layer needs no data gradient
  const std::string rate = flop > 0 ? fmt::format("{:.0f}", passes * flop / (forward + backward) * 1e-9) : "";
  std::string best_forward, best_backward, share;
  if (const auto best = best_times(network, specs, unit.first, repeats)) {
    sums.best += best->sum();
    sums.ours_of_best += forward + backward;
    best_forward = fmt::format("{:.2f}", 1e3 * best->forward);
    best_backward = fmt::format("{:.2f}+{:.2f}", 1e3 * best->backward_data, 1e3 * best->backward_weights);
    share = fmt::format("{:.0f} %", 100 * best->sum() / (forward + backward));
  }
  return fmt::format("{:<20}{:>9}{:>15}{:>10.2f}{:>10.2f}{:>9}{:>9}\n", name, best_forward, best_backward,
                     1e3 * forward, 1e3 * backward, share, rate);
}

}  // namespace

void bench_layers(Backend& backend, const BenchSettings& settings, std::ostream& out) {
  TimedSteps steps(backend, settings);
  constexpr int warm_up = 2;
  for (int i = 0; i < settings.steps + warm_up; ++i) steps.run(i >= warm_up);

  out << fmt::format("{}, sample {}, batch {}: {}\n", settings.preset, to_string(settings.sample), settings.batch,
                     backend.description());
  out << "milliseconds; oneDNN: least time of its primitives alone (backward: data + weights), ours: median in a "
         "step\n";
  out << fmt::format("{:<20}{:>9}{:>15}{:>10}{:>10}{:>9}{:>9}\n", "layer", "oneDNN fw", "oneDNN bw", "ours fw",
                     "ours bw", "share", "GFLOP/s");
  const std::vector<LayerSpec> specs = preset_layers(settings.preset);
  Sums sums;
  for (std::size_t u = 0; u < steps.units.size(); ++u)
    out << unit_line(steps.model().network(), specs, steps.model().units()[u], steps.units[u], settings.steps, sums);
  const double loss = median(steps.loss), update = median(steps.update);
  sums.ours += loss + update;
  out << fmt::format("{:<44}{:>10.2f}\n{:<44}{:>10.2f}\n", "loss", 1e3 * loss, "update (Adam)", 1e3 * update);
  out << "share: oneDNN's time / ours; above 100 % ours is faster. GFLOP/s count the dense convolution's operations,\n"
         "of which the fused kernels skip those with a zero gradient.\n";
  out << fmt::format("sum, oneDNN's best of conv2.. and dense  {:8.1f} ms\n", 1e3 * sums.best);
  out << fmt::format("sum, ours of the same layers             {:8.1f} ms\n", 1e3 * sums.ours_of_best);
  out << fmt::format("sum, ours of the whole step              {:8.1f} ms  ({:.0f} samples/s)\n", 1e3 * sums.ours,
                     settings.batch / sums.ours);
  out << fmt::format("whole step / oneDNN's sum                {:8.2f}\n", sums.ours / sums.best);
}

}  // namespace mrmf
