#include "src/inference/describe_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "kernels/errors.hpp"
#include "src/data/label_names.hpp"
#include "src/inference/evaluate.hpp"
#include "src/inference/sample_pictures.hpp"
#include "src/inference/scores.hpp"

namespace mrmf {
namespace {

constexpr Index kShown = 4;      // samples
constexpr Index kPoints = 1500;  // of an output
constexpr Index kOutputs = 12;
constexpr Index kColours = 8;  // of classes, before colours repeat

/// Collects what the page shows, batch by batch.
class Describing {
 public:
  Describing(const Trained& t, ModelReport& report) : t_(t), report_(report) {
    const Index numbers = t.shape.samples * product(t.output().spatial);
    step_ = std::max<Index>(1, numbers / kPoints);
    for (Index s = 0; s < std::min(kShown, t.shape.samples); ++s) shown_.push_back(s * t.shape.samples / kShown);
    if (t.task() != Task::regression) return;
    for (Index c = 0; c < std::min(kOutputs, t.output().channels); ++c)
      report.outputs.push_back(
          {c < std::ssize(report.names) ? report.names[static_cast<std::size_t>(c)] : fmt::format("label {}", c), {}});
  }

  void add(const BatchResult& batch) {
    std::vector<float> outputs(batch.outputs.begin(), batch.outputs.end());
    std::vector<float> labels(batch.labels.begin(), batch.labels.end());
    undo(batch.by.labels, 0, outputs);
    undo(batch.by.labels, 0, labels);
    for (std::size_t c = 0; c < report_.outputs.size(); ++c) add_points(c, labels, outputs, batch.first);
    if (t_.output().axes > 0) add_samples(batch, labels, outputs);
  }

 private:
  void add_points(std::size_t c, ConstSpan labels, ConstSpan outputs, Index first) {
    const Index channels = t_.output().channels, per_sample = product(t_.output().spatial);
    for (Index i = 0; i * channels < std::ssize(outputs); ++i) {
      const auto at = static_cast<std::size_t>(i * channels) + c;
      if ((first * per_sample + i) % step_ == 0) report_.outputs[c].points.emplace_back(labels[at], outputs[at]);
    }
  }

  void add_samples(const BatchResult& batch, ConstSpan labels, ConstSpan outputs) {
    const auto in = batch.samples.size() / static_cast<std::size_t>(batch.rows);
    const auto out = outputs.size() / static_cast<std::size_t>(batch.rows);
    const auto target = labels.size() / static_cast<std::size_t>(batch.rows);
    for (const Index id : shown_) {
      if (id < batch.first || id >= batch.first + batch.rows) continue;
      const auto row = static_cast<std::size_t>(id - batch.first);
      report_.shown.push_back(picture_of(t_, fmt::format("sample {}", id), batch.samples.subspan(row * in, in),
                                         labels.subspan(row * target, target), outputs.subspan(row * out, out)));
    }
  }

  const Trained& t_;
  ModelReport& report_;
  Index step_ = 1;
  std::vector<Index> shown_;
};

// Their numbers where they have no names.
std::vector<std::string> class_names(std::vector<std::string> names, Index classes) {
  for (Index c = std::ssize(names); c < classes; ++c) names.push_back(std::to_string(c));
  return names;
}

void describe(ModelReport& report, Subset split, Comm& self) {
  ModelOptions options;
  options.models = {report.run};
  options.split = split;
  std::ostringstream notes;
  options.notes = &notes;
  Trained t = open_trained(options, LabelUse::needed, self);
  report.names = names_of(t.config);
  Scores scores(evaluation_settings(t), report.names);
  if (t.task() == Task::classes && t.output().axes > 1 && t.output().channels <= kColours)
    report.key = colours_of(class_names(report.names, t.output().channels));
  Describing describing(t, report);
  for_each_batch(t, {}, [&](const BatchResult& batch) {
    scores.add(batch.outputs, batch.labels, batch.loss);
    describing.add(batch);
  });
  report.scores = scores.json();
  report.samples = fmt::format("{} {} samples", t.shape.samples, split == Subset::test ? "test" : "validation");
  report.command = fmt::format("mrmf evaluate {}{}", report.run, split == Subset::test ? " --split test" : "");
  report.model = epoch_of(choose_model(report.run, {}, self).file, self).text;
  const TrainingConfig& training = t.config.training;
  const auto metric = metric_of(training, t.output());
  const bool by_metric = training.monitor == Monitor::metric && metric;
  if (report.model.empty()) return;
  report.model += "; epochs are judged by the validation " + (by_metric ? to_string(*metric) : std::string("loss"));
}

}  // namespace

ModelReport describe_model(const std::string& run, Subset split, Comm& self) {
  ModelReport report{.run = run};
  try {
    describe(report, split, self);
  } catch (const ConfigError& error) {
    report.problem = error.what();
  } catch (const DataError& error) {
    report.problem = error.what();
  } catch (const FaultError& error) {
    report.problem = error.what();
  }
  return report;
}

}  // namespace mrmf
