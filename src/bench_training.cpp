#include "src/bench_training.hpp"

#include <fmt/format.h>

#include <numeric>
#include <ostream>

#include "src/bench_tools.hpp"
#include "src/learner.hpp"
#include "src/presets.hpp"
#include "src/timer.hpp"

namespace mrmf {
void bench_training(Backend& backend, const BenchSettings& settings, std::ostream& out) {
  ModelSettings model_settings;
  model_settings.network = {settings.sample, settings.batch, preset_layers(settings.preset), ""};
  Learner learner(backend, model_settings, OptimizerSettings{}, {1, 1, 1});
  Model& model = learner.model;
  const Shape in = model.network().input();
  const Shape labels = model.network().output();
  Arena x = backend.allocate(in.count());
  Arena target = backend.allocate(labels.count());
  fill_normal(x.span(), 1);
  fill_normal(target.span(), 2);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(settings.batch));
  std::iota(ids.begin(), ids.end(), 0);

  std::vector<double> forward, backward, update, whole;
  constexpr int kWarmUp = 2;
  for (int i = 0; i < settings.steps + kWarmUp; ++i) {
    Timer timer;
    Step step{.training = true, .seed = 1, .number = learner.optimizer.steps(), .ids = ids};
    step.loss_weight = 1.0F / static_cast<float>(settings.batch);
    learner.optimizer.advance(1e-3, step);
    const ConstTensor y = model.forward(step, {in, x.span()});
    backend.loss(step, LossKind::mse, y, {labels, target.span()}, model.output_gradient(settings.batch), model.loss());
    const double forward_seconds = timer.lap();
    model.backward(step, {in, x.span()});
    const double backward_seconds = timer.lap();
    learner.optimizer.update(step, model.params(), model.grads());
    const double update_seconds = timer.lap();
    if (i < kWarmUp) continue;
    forward.push_back(forward_seconds);
    backward.push_back(backward_seconds);
    update.push_back(update_seconds);
    whole.push_back(timer.seconds());
  }
  const double step = median(whole);
  out << fmt::format("{}, sample {}, batch {}: {}\n", settings.preset, to_string(settings.sample), settings.batch,
                     backend.description());
  out << fmt::format("forward and loss {:.1f} ms, backward {:.1f} ms, update {:.1f} ms (medians of {} steps)\n",
                     1e3 * median(forward), 1e3 * median(backward), 1e3 * median(update), settings.steps);
  out << fmt::format("{{\"samples_per_second\": {:.1f}, \"step_seconds\": {:.5f}, \"batch\": {}, \"steps\": {}}}\n",
                     settings.batch / step, step, settings.batch, settings.steps);
}

}  // namespace mrmf
