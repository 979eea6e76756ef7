#include "src/bench/bench.hpp"

#include <fmt/format.h>

#include <numeric>
#include <ostream>

#include "src/bench/bench_tools.hpp"
#include "src/config/presets.hpp"
#include "src/system/timer.hpp"

namespace mrmf {
namespace {

constexpr Index kMostSteps = 100000;

ModelSettings model_settings(const BenchSettings& settings) {
  ModelSettings result;
  result.network = {settings.sample, settings.batch, preset_layers(settings.preset), ""};
  return result;
}

}  // namespace

BenchSteps::BenchSteps(Backend& backend, const BenchSettings& settings)
    : backend_(backend),
      learner_(backend, model_settings(settings), settings.optimizer, {1, 1, 1}),
      batch_(settings.batch),
      ids_(static_cast<std::size_t>(settings.batch)),
      losses_(backend.allocate(kMostSteps)) {
  const Network& network = learner_.model.network();
  x_.resize(static_cast<std::size_t>(network.input().count()));
  targets_.resize(static_cast<std::size_t>(network.output().count()));
  fill_normal(x_, 1);
  fill_normal(targets_, 2);
  std::iota(ids_.begin(), ids_.end(), 0);
  feed_ = backend.feed(network.input(), network.output().per_sample());
  load();
}

void BenchSteps::load() {
  const Feed::HostBatch host = feed_->host(batch_);
  // Two buffers in turn at most: they keep what they held, and copying within the host is not what is measured.
  if (loads_++ < 2) {
    std::ranges::copy(x_, host.x.begin());
    std::ranges::copy(targets_, host.targets.begin());
  }
  loaded_ = feed_->submit(batch_);
}

void BenchSteps::step() {
  MRMF_CHECK(done_ < kMostSteps, "too many steps for one benchmark");
  Model& model = learner_.model;
  Step now{.training = true, .seed = 1, .number = learner_.optimizer.steps(), .ids = ids_, .index = done_++};
  now.loss_weight = 1.0F / static_cast<float>(batch_);
  learner_.optimizer.advance(learner_.optimizer.settings().learning_rate, now);
  backend_.begin(now);
  backend_.run(static_cast<std::uint64_t>(batch_), [&] {
    const ConstTensor y = model.forward(now, loaded_.x);
    backend_.loss(now, LossKind::mse, y, loaded_.targets, model.output_gradient(batch_), model.loss());
    model.backward(now, loaded_.x);
    learner_.optimizer.update(now, model.params(), model.grads());
    backend_.keep(now, model.loss(), losses_.span());
  });
}

std::vector<float> BenchSteps::losses() {
  std::vector<float> values(static_cast<std::size_t>(done_));
  backend_.read(losses_.span().first(values.size()), values);
  for (float& value : values) value /= static_cast<float>(batch_);
  return values;
}

void warm_up(Backend& backend, BenchSteps& steps) {
  constexpr int kWarmUp = 3;  // a device runs the first step call by call, records the second, and replays from then on
  const Timer warming;        // a device also needs a moment until its clocks are up
  for (int i = 0; i < kWarmUp || (!backend.immediate() && warming.seconds() < 0.5); ++i) {
    steps.step();
    if (i >= kWarmUp) backend.finish();
  }
  backend.finish();
}

std::vector<double> step_times(Backend& backend, BenchSteps& steps, int timed, bool load) {
  const int at_a_time = backend.immediate() ? 1 : 10;
  std::vector<double> seconds;
  for (int done = 0; done < timed; done += at_a_time) {
    const Timer timer;
    for (int i = 0; i < at_a_time; ++i) {
      if (load) steps.load();
      steps.step();
    }
    backend.finish();
    seconds.push_back(timer.seconds() / at_a_time);
  }
  return seconds;
}

double step_seconds(Backend& backend, BenchSteps& steps, int timed, bool load) {
  return median(step_times(backend, steps, timed, load));
}

void bench_training(Backend& backend, const BenchSettings& settings, std::ostream& out) {
  BenchSteps steps(backend, settings);
  warm_up(backend, steps);
  const std::vector<double> times = step_times(backend, steps, settings.steps, false);
  const double step = median(times), mean = std::reduce(times.begin(), times.end()) / static_cast<double>(times.size());
  const double loaded = backend.immediate() ? step : step_seconds(backend, steps, settings.steps, true);
  out << fmt::format("{}, sample {}, batch {}: {}\n", settings.preset, to_string(settings.sample), settings.batch,
                     backend.description());
  out << fmt::format("forward, loss, backward and update: {:.3f} ms (median over {} steps)", 1e3 * step,
                     settings.steps);
  if (!backend.immediate()) out << fmt::format("; with each batch copied to the device: {:.3f} ms", 1e3 * loaded);
  const std::string json = fmt::format(
      "{{\"samples_per_second\": {:.6g}, \"step_seconds\": {:.7f}, \"mean_step_seconds\": {:.7f}, "
      "\"loader_samples_per_second\": {:.6g}, "
      "\"batch\": {}, \"steps\": {}}}\n",
      settings.batch / step, step, mean, settings.batch / loaded, settings.batch, settings.steps);
  out << "\n" << json;
  settings.json.write(json);
}

}  // namespace mrmf
