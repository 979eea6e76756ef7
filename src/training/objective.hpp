// What a phase trains for: its loss as an operation, and the metric that its validations measure.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kernels/step.hpp"
#include "layers/model.hpp"
#include "src/data/data.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {

class Objective {
 public:
  /// For the model's outputs and the store's targets at this resolution; validations are of outputs of the shape
  /// `whole`, where they are other than the model's.
  Objective(Backend& backend, const TrainingConfig& training, Model& model, const SampleStore& store,
            const Extent& resolution, const std::optional<Shape>& whole = {});

  /// LossOp::run() for the model's last outputs.
  void run(const StepContext& step, ConstTensor y, ConstTensor targets, Span dy, Span sum);
  /// What is counted of whole outputs.
  const ScoreSettings& scores() const { return sums_.settings(); }
  bool measures() const { return metric_.has_value(); }

  /// A validation's metric: the sums begin anew, then come batches, whose outputs are the model's last...
  void begin() { sums_.clear(); }
  void add(Model& model, const SampleStore& store, std::span<const std::int64_t> ids);
  /// ...or whole outputs, in the host's memory...
  void add(ConstSpan outputs, ConstSpan targets) {
    if (metric_) sums_.add(outputs, targets);
  }
  /// ...and the team's sums of them are made of these. None where nothing is measured.
  MetricSums& sums() { return sums_; }
  std::optional<MetricValue> metric() const;

 private:
  Backend& backend_;
  Extent resolution_;
  Index target_channels_;
  std::unique_ptr<LossOp> loss_;
  bool cut_;  // a rank has some positions of each sample's output
  std::optional<Metric> metric_;
  MetricSums sums_;
};

}  // namespace mrmf
