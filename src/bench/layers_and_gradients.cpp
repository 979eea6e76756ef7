// `mrmf bench layers`, where the time of a training step goes, and `mrmf bench gradients`, a device's gradients beside
// those of the CPU: layer by layer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>

#include "kernels/cpu/kernel_choice.hpp"
#include "kernels/onednn/operations.hpp"
#include "kernels/timer.hpp"
#include "layers/geometry_and_reach.hpp"
#include "src/bench/bench.hpp"
#include "src/training/model_and_optimizer.hpp"

namespace mrmf {

// `mrmf bench layers`, on the CPU and on a device.

namespace {

using onednn::BestTimes;

/// oneDNN's best for layer i if that is a dense layer or a convolution other than the first (whose dx nobody needs).
std::optional<BestTimes> best_times(const Network& network, const std::vector<LayerSpec>& specs, std::size_t i,
                                    int repeats) {
  const LayerEntry& entry = network.entry(i);
  const Index rows = network.input().n;
  if (entry.kind == LayerKind::conv && i > 0)
    return onednn::best_conv_times(conv_geometry(entry.input, specs[i]), rows, repeats);
  if (entry.kind == LayerKind::dense)
    return onednn::best_dense_times(entry.input.per_sample(), entry.output().per_sample(), rows, repeats);
  return std::nullopt;
}

struct Sums {
  double best = 0, ours_of_best = 0, ours = 0;
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();  // the table's lines, in microseconds
};

/// Returns one line of the table; adds to the sums.
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
  const double passes = unit.reads[0] == 0 ? 2 : 3;  // the network's input needs no gradient
  const std::string rate = flop > 0 ? fmt::format("{:.0f}", passes * flop / (forward + backward) * 1e-9) : "";
  std::string best_forward, best_backward, share;
  sums.layers.push_back({{"name", name},
                         {"forward_us", 1e6 * forward},
                         {"backward_us", 1e6 * backward},
                         {"flop", passes * flop},
                         {"onednn_forward_us", nullptr},
                         {"onednn_backward_us", nullptr}});
  if (const auto best = best_times(network, specs, unit.first, repeats)) {
    sums.best += best->sum();
    sums.ours_of_best += forward + backward;
    best_forward = fmt::format("{:.2f}", 1e3 * best->forward);
    best_backward = fmt::format("{:.2f}+{:.2f}", 1e3 * best->backward_data, 1e3 * best->backward_weights);
    share = fmt::format("{:.0f} %", 100 * best->sum() / (forward + backward));
    sums.layers.back()["onednn_forward_us"] = 1e6 * best->forward;
    sums.layers.back()["onednn_backward_us"] = 1e6 * (best->backward_data + best->backward_weights);
  }
  return fmt::format("{:<20}{:>9}{:>15}{:>10.2f}{:>10.2f}{:>9}{:>9}\n", name, best_forward, best_backward,
                     1e3 * forward, 1e3 * backward, share, rate);
}

/// "conv 16 to 32 channels, 3x3x3 on 32x32x32": which kernels it has, and what they gain.
std::string choice_line(const cpu::ConvProblem& problem, const cpu::KernelChoice& choice) {
  const ConvGeometry& g = problem.geometry;
  constexpr std::array<const char*, 4> kinds{"conv", "batch_norm+conv", "conv+max_pool+relu", "dense"};
  const std::string gain = choice.chosen > 0
                               ? fmt::format("{:6.2f} times as fast as the default", choice.fixed / choice.chosen)
                           : choice.kernels.empty()     ? "  no trial, or it could not tell"
                           : cpu::worth_timing(problem) ? "  only these serve"
                                                        : "  too little work to time";
  const auto sizes = [](const Extent& extent) { return fmt::format("{}", fmt::join(extent, "x")); };
  const std::string where =
      problem.kind == cpu::ConvProblem::Kind::dense ? "" : fmt::format("{} on {}", sizes(g.kernel), sizes(g.in));
  return fmt::format("{:<20}{:>4} to {:<4}   {:<22} {:<26}{}\n", kinds.at(static_cast<std::size_t>(problem.kind)),
                     g.in_channels, g.out_channels, where, choice.kernels.empty() ? "the default" : choice.kernels,
                     gain);
}

std::string choice_lines(Backend& backend) {
  cpu::KernelChoices* const choices = cpu::kernel_choices(backend);
  if (choices == nullptr) return "layers have the default kernels\n";
  std::string lines = "kernels by their times (of three names: forward, data and weight gradient):\n";
  const std::set<std::string> asked = choices->asked();
  for (const std::string& text : asked)
    if (const auto problem = cpu::ConvProblem::parse(text))
      if (const cpu::KernelChoice* choice = choices->find(*problem)) lines += choice_line(*problem, *choice);
  return lines;
}

struct Times {
  double forward = 0, backward = 0;
};

/// Times units one by one, each many times in one graph, so that launching costs nothing. Because they repeat, small
/// tensors stay in the device's cache.
class TimedUnits {
 public:
  TimedUnits(Backend& backend, BenchSteps& steps, const BenchSettings& settings)
      : backend_(backend), model_(steps.model_state().model), ids_(static_cast<std::size_t>(settings.batch())) {
    std::iota(ids_.begin(), ids_.end(), 0);
    step_ = {.training = true, .seed = 1, .ids = ids_};
    add_tensors(model_.network().input(), false, 0);
    for (const Unit& unit : model_.units())  // over its only input, its shortcut, or one of a join's
      add_tensors(unit.out, unit.memory.in_place, unit.reads[unit.shortcut ? 1 : 0]);
  }

  Times time(std::size_t u) {
    const Unit& unit = model_.units()[u];
    std::vector<ConstTensor> x;
    std::vector<Tensor> dx;
    for (const std::size_t number : unit.reads) {
      x.emplace_back(y_[number]);
      dx.push_back(dy_[number]);
      if (number == 0) dx.back().data = {};
    }
    const Tensor y = y_[u + 1];
    const ConstTensor dy = dy_[u + 1];
    const LayerBuffers buffers = model_.buffers_of(unit, step_, y_[0]);
    const auto forward = [&] { unit.join ? unit.join->join(x, y) : unit.layer->forward(buffers, x[0], y); };
    const auto backward = [&] {
      unit.join ? unit.join->join_backward(dy, dx) : unit.layer->backward(buffers, x[0], y, dy, dx[0]);
    };
    return {seconds(2 * u, forward), seconds(2 * u + 1, backward)};
  }

 private:
  static constexpr int kRepeats = 20, kRounds = 5;

  // In place: over the output of that number.
  void add_tensors(const Shape& shape, bool in_place, std::size_t number) {
    for (std::vector<Tensor>* tensors : {&y_, &dy_}) {
      if (!in_place) arenas_.push_back(backend_.allocate(backend_.activation_floats(shape)));
      tensors->push_back({shape, in_place ? (*tensors)[number].data : arenas_.back().span()});
      if (in_place) continue;
      std::vector<float> values(static_cast<std::size_t>(shape.count()));  // with zeros, products would run too fast
      fill_normal(values, 3);
      backend_.write_activation(values, tensors->back());
    }
  }
  double seconds(std::size_t key, const std::function<void()>& call) {
    const auto repeated = [&] {
      for (int i = 0; i < kRepeats; ++i) call();
    };
    std::vector<double> rounds;
    for (int round = 0; round < kRounds + 2; ++round) {  // the first runs call by call, the second is captured
      backend_.begin(step_);
      backend_.finish();
      const Timer timer;
      backend_.run_captured((std::uint64_t{1} << 40) + key, repeated);
      backend_.finish();
      if (round >= 2) rounds.push_back(timer.seconds() / kRepeats);
    }
    return median(rounds);
  }

  Backend& backend_;
  Model& model_;
  std::vector<std::int64_t> ids_;
  StepContext step_;
  std::vector<Arena> arenas_;
  std::vector<Tensor> y_, dy_;  // the network's input and every unit's output, with their gradients
};

std::string name_of(const Network& network, const Unit& unit) {
  std::string name;
  for (std::size_t i = unit.first; i < unit.last; ++i) name += (i > unit.first ? "+" : "") + network.entry(i).name;
  return name;
}

}  // namespace

void bench_layers(Backend& backend, const BenchSettings& settings, std::ostream& out) {
  TimedSteps steps(backend, settings.model(), settings.optimizer, settings.loss);
  constexpr int warm_up = 2;
  for (int i = 0; i < settings.steps + warm_up; ++i) steps.run(i >= warm_up);

  out << fmt::format("{}: {}\n", settings.title(), backend.description());
  out << "milliseconds; oneDNN: least time of its float32 primitives alone (backward: data + weights), "
         "ours: median in a step\n";
  out << fmt::format("{:<20}{:>9}{:>15}{:>10}{:>10}{:>9}{:>9}\n", "layer", "oneDNN fw", "oneDNN bw", "ours fw",
                     "ours bw", "share", "GFLOP/s");
  std::vector<LayerSpec> specs = settings.network.layers;
  resolve_axes(specs, settings.network.sample.axes);
  Sums sums;
  for (std::size_t u = 0; u < steps.units.size(); ++u)
    out << unit_line(steps.model().network(), specs, steps.model().units()[u], steps.units[u], settings.steps, sums);
  const double loss = median(steps.loss), update = median(steps.update);
  sums.ours += loss + update;
  out << fmt::format("{:<44}{:>10.2f}\n{:<44}{:>10.2f}\n", "loss", 1e3 * loss,
                     fmt::format("update ({})", to_string(settings.optimizer.name)), 1e3 * update);
  out << "share: oneDNN's time / ours; above 100 % ours is faster. GFLOP/s count the dense convolution's operations,\n"
         "of which the fused kernels skip those with a zero gradient. Times of layers in one pass are of all of them,\n"
         "oneDNN's of their convolution alone.\n";
  out << fmt::format("sum, oneDNN's best of conv2.. and dense  {:8.1f} ms\n", 1e3 * sums.best);
  out << fmt::format("sum, ours of the same layers             {:8.1f} ms\n", 1e3 * sums.ours_of_best);
  out << fmt::format("sum, ours of the whole step              {:8.1f} ms  ({:.0f} samples/s)\n", 1e3 * sums.ours,
                     settings.batch() / sums.ours);
  out << fmt::format("whole step / oneDNN's sum                {:8.2f}\n", sums.ours / sums.best);
  out << choice_lines(backend);
  const nlohmann::ordered_json json{{"layers", sums.layers},
                                    {"loss_us", 1e6 * loss},
                                    {"update_us", 1e6 * update},
                                    {"step_us", 1e6 * sums.ours},
                                    {"onednn_us", 1e6 * sums.best}};
  settings.json.write(json.dump(2) + "\n");
}

std::optional<DevicePeak> device_peak(const std::string& description, Precision precision) {
  // What an H200 is assumed to reach in practice; this program measured none of it. An H100 has the same arithmetic and
  // less bandwidth, by the ratio of the data sheets.
  const bool h200 = description.find("H200") != std::string::npos, h100 = description.find("H100") != std::string::npos;
  if (!h200 && !h100) return std::nullopt;
  const double flops = precision == Precision::bf16 ? 790e12 : precision == Precision::tf32 ? 400e12 : 60e12;
  return DevicePeak{h200 ? 4.3e12 : 4.3e12 * 3.35 / 4.8, flops};
}

namespace {

// Products: encode, decode; gradient of the features, two for that of the weights, and that of the data. Layer::flop()
// counts the first two.
UnitWork reconstruction_work(const LayerEntry& entry, Index count, bool inner, double element_bytes) {
  const auto rows = static_cast<double>(count), all = static_cast<double>(entry.params.count);
  const double weights = entry.spec.decoder == Decoder::own ? all / 2 : all;
  const double x = rows * static_cast<double>(entry.input.per_sample());
  const double features = rows * weights / static_cast<double>(product(entry.spec.window) * entry.input.channels);
  const double elements = 5 * x + 6 * features + (inner ? features + x : 0);  // each product reads or writes both
  return {.bytes = 4 * ((inner ? 4 : 3) * weights + all) + elements * element_bytes,
          .flop = (inner ? 3 : 2.5) * rows * entry.layer->flop()};
}

}  // namespace

UnitWork unit_work(const Network& network, const Unit& unit, double element_bytes) {
  const LayerEntry& first = network.entry(unit.first);
  const bool inner = unit.reads[0] != 0;  // the network's input needs no dx
  const auto rows = static_cast<double>(network.input().n);
  const double x = rows * static_cast<double>(first.input.per_sample());
  const double y = rows * static_cast<double>(first.output().per_sample());
  const double p = rows * static_cast<double>(unit.out.per_sample());
  const bool fused = unit.last > unit.first + 1;
  const bool idle_decoder = output_has_fields(first.spec) && first.spec.decoder == Decoder::own;
  const auto weights = static_cast<double>(first.params.count) / (idle_decoder ? 2 : 1);
  UnitWork work;
  double elements = 0;
  if (first.kind == LayerKind::rica && !output_has_fields(first.spec))
    return reconstruction_work(first, network.input().n, inner, element_bytes);
  if (is_weighted(first.kind)) {
    elements = x + y + (x + y) + (inner ? x + y : 0);  // forward, gradient of weights, gradient of data
    if (fused) elements += y + p + (p + y + y);        // pooling; gradient of it and the activation
    work.bytes = 12 * weights;                         // float32: read twice, the gradient written
    work.flop = (inner ? 3 : 2) * rows * first.layer->flop();
  } else if (first.kind == LayerKind::batch_norm && fused && network.entry(unit.first + 1).kind == LayerKind::conv) {
    const LayerEntry& conv = network.entry(unit.first + 1);  // on the network's input: statistics, forward, weights
    elements = x + (x + p) + (x + p);
    work.bytes = 12 * static_cast<double>(conv.params.count);
    work.flop = 2 * rows * conv.layer->flop();
  } else if (is_norm(first.kind)) {
    elements = 2 * x + p + 2 * (x + p) + (inner ? x : 0);
  } else {
    elements = x + p + (inner ? x + p : 0) + (first.footprint.reads_output ? p : 0);
  }
  work.bytes += elements * element_bytes;
  return work;
}

void bench_device_layers(Backend& backend, const BenchSettings& settings, Precision precision, std::ostream& out) {
  BenchSteps steps(backend, settings);
  warm_up(backend, steps);
  const double step = step_seconds(backend, steps, settings.steps, false);
  TimedUnits units(backend, steps, settings);
  const Model& model = steps.model_state().model;
  const Network& network = model.network();
  const auto peak = device_peak(backend.description(), precision);
  const double element_bytes = precision == Precision::bf16 ? 2 : 4;
  out << fmt::format("{}: {}\n{:<34}{:>12}{:>12}{:>12}{:>8}\n", settings.title(), backend.description(), "microseconds",
                     "forward", "backward", "roofline", "of it");
  std::vector<std::string> lines;
  double floor_sum = 0;
  for (std::size_t u = 0; u < model.units().size(); ++u) {
    const Unit& unit = model.units()[u];
    const Times times = units.time(u);
    const UnitWork work = unit_work(network, unit, element_bytes);
    const double floor = peak ? std::max(work.bytes / peak->bytes_per_second, work.flop / peak->flops) : 0;
    floor_sum += floor;
    const std::string name = name_of(network, unit);
    out << fmt::format("{:<34}{:>12.1f}{:>12.1f}", name, 1e6 * times.forward, 1e6 * times.backward);
    out << (peak ? fmt::format("{:>12.1f}{:>6.0f} %\n", 1e6 * floor, 100 * floor / (times.forward + times.backward))
                 : std::string("           -       -\n"));
    lines.push_back(
        fmt::format("{{\"name\": \"{}\", \"forward_us\": {:.2f}, \"backward_us\": {:.2f}, \"roofline_us\": {}}}", name,
                    1e6 * times.forward, 1e6 * times.backward, peak ? fmt::format("{:.2f}", 1e6 * floor) : "null"));
  }
  // An update reads w and dw and writes w, and reads and writes each moment.
  const double update_bytes = 4.0 * (3 + 2 * moment_count(settings.optimizer, settings.in_place));
  floor_sum += peak ? update_bytes * static_cast<double>(network.trainable()) / peak->bytes_per_second : 0;
  out << fmt::format("{:<34}{:>24.1f}", "whole step, with loss and update", 1e6 * step);
  out << (peak ? fmt::format("{:>12.1f}{:>6.0f} %\n", 1e6 * floor_sum, 100 * floor_sum / step) : std::string("\n"));
  out << "roofline: the larger of bytes / bandwidth and operations / peak, with cuDNN's fusions; units are timed "
         "apart\n";
  settings.json.write(fmt::format("{{\"layers\": [{}], \"step_us\": {:.2f}, \"step_roofline_us\": {}}}\n",
                                  fmt::join(lines, ", "), 1e6 * step,
                                  peak ? fmt::format("{:.2f}", 1e6 * floor_sum) : "null"));
}

// `mrmf bench gradients`: a device's gradients beside those of the CPU.

namespace {

double mean_square(ConstSpan x) {
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  return x.empty() ? 0 : sum / static_cast<double>(x.size());
}

void measure(GradientError& error) {
  const GradientError::Squares& squares = error.squares;
  error.counts = squares.expected > 0.01 * squares.of_layer;
  error.distance = std::sqrt(squares.difference / (error.counts ? squares.expected : squares.of_layer));
  error.along = error.counts ? squares.product / squares.expected : 1;
}

GradientError compare(ConstSpan got, ConstSpan expected, double of_layer) {
  double difference = 0, product = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (double{got[i]} - expected[i]) * (double{got[i]} - expected[i]);
    product += double{got[i]} * expected[i];
  }
  const auto count = static_cast<double>(got.size());
  GradientError error;
  error.values = std::ssize(got);
  error.squares = {difference / count, product / count, mean_square(expected), of_layer};
  measure(error);
  return error;
}

/// The worse of two; a value that is not finite is the worst.
double worse(double a, double b) {
  return std::isfinite(a) && std::isfinite(b) ? std::max(a, b) : std::numeric_limits<double>::infinity();
}

double off(const GradientError& error) { return worse(std::abs(error.along - 1), 0); }

/// The error over the steps of both.
void add(GradientError& error, const GradientError& more) {
  error.squares.difference += more.squares.difference;
  error.squares.product += more.squares.product;
  error.squares.expected += more.squares.expected;
  error.squares.of_layer += more.squares.of_layer;
  measure(error);
}

std::vector<float> gradients(Backend& backend, BenchSteps& steps) {
  Model& model = steps.model_state().model;
  std::vector<float> values(model.grads().size());
  backend.read(model.grads(), values);
  return values;
}

std::string figures(const std::vector<GradientError>& errors, const GradientCheck& check) {
  std::string text = "{\"gradients\": [";
  for (const GradientError& error : errors)
    text +=
        fmt::format("{}{{\"name\": \"{}\", \"distance\": {:.3g}, \"along\": {:.6g}}}", &error == &errors[0] ? "" : ", ",
                    error.name, std::min(error.distance, 1e30), std::isfinite(error.along) ? error.along : 1e30);
  return text + fmt::format("], \"distance_tolerance\": {:g}, \"along_tolerance\": {:g}, \"backend\": \"{}\"}}\n",
                            check.tolerance.distance, check.tolerance.along, check.device.description());
}

}  // namespace

std::vector<GradientError> gradient_errors(const Network& network, ConstSpan got, ConstSpan expected) {
  std::vector<GradientError> errors;
  for (const LayerEntry& entry : network.entries()) {
    auto first = static_cast<std::size_t>(entry.params.first);
    Index floats = 0;
    for (const NamedTensor& part : entry.footprint.params) floats += part.count();
    const double of_layer = mean_square(expected.subspan(first, static_cast<std::size_t>(floats)));
    for (const NamedTensor& part : entry.footprint.params) {
      const auto count = static_cast<std::size_t>(part.count());
      errors.push_back(compare(got.subspan(first, count), expected.subspan(first, count), of_layer));
      errors.back().name = entry.name + " " + part.name;
      first += count;
    }
  }
  return errors;
}

void keep_worst(std::vector<GradientError>& worst, const std::vector<GradientError>& errors) {
  if (worst.empty()) {
    worst = errors;
    return;
  }
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (is_small(worst[i].values)) {
      add(worst[i], errors[i]);
      continue;
    }
    worst[i].distance = worse(worst[i].distance, errors[i].distance);
    if (!(off(errors[i]) <= off(worst[i]))) worst[i].along = errors[i].along;
  }
}

void bench_gradients(const GradientCheck& check, const BenchSettings& settings, std::ostream& out) {
  BenchSettings still = settings;  // the parameters do not move, so each step's gradients are compared independently
  still.optimizer.name = OptimizerKind::sgd;
  still.optimizer.learning_rate = 0;
  still.in_place = false;  // there would be no gradients to compare
  BenchSettings of_device = still;
  of_device.fuse = check.fuse;
  BenchSteps device(check.device, of_device), host(check.host, still);
  std::vector<GradientError> worst;
  for (int step = 0; step < settings.steps; ++step) {
    device.step();
    host.step();
    keep_worst(worst, gradient_errors(host.model_state().model.network(), gradients(check.device, device),
                                      gradients(check.host, host)));
  }
  out << fmt::format("{}: gradients of {} beside {}\n{:<24} {:>10} {:>10}\n", settings.title(), check.device.name(),
                     check.host.name(), "", "distance", "along");
  for (const GradientError& error : worst)
    out << fmt::format("{:<24} {:>10.2e} {:>10}\n", error.name, error.distance,
                       error.counts ? fmt::format("{:.5f}", error.along) : "-");
  settings.json.write(figures(worst, check));
  for (const GradientError& error : worst) {
    const GradientTolerance allowed = check.tolerance.of(error.values);
    if (!(error.distance <= allowed.distance) || !(off(error) <= allowed.along))
      throw FaultError(
          fmt::format("the gradient of {} on {} is off by {:.2g} of its size (allowed {:.2g}) and {:.4f} of it is "
                      "there (allowed 1 +- {:.2g})",
                      error.name, check.device.name(), error.distance, allowed.distance, error.along, allowed.along));
  }
  const auto last = std::ranges::max_element(worst, {}, &GradientError::distance);
  out << fmt::format("{} gradients agree within {:.2g} of their size (allowed {:.2g}), the worst {}\n", worst.size(),
                     last->distance, check.tolerance.of(last->values).distance, last->name);
}

}  // namespace mrmf
