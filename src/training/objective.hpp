// What a phase trains for: its loss as an operation, and the metric that its validations measure.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "layers/model.hpp"
#include "src/data/data.hpp"
#include "src/run/records.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {

class Objective {
 public:
  /// For the model's outputs and the store's targets at this resolution.
  Objective(Backend& backend, const TrainingConfig& training, Model& model, const SampleStore& store,
            const Extent& resolution);

  /// LossOp::run() for the model's last outputs.
  void run(const Step& step, ConstTensor y, ConstTensor targets, Span dy, Span sum);
  Index target_channels() const { return target_channels_; }
  bool measures() const { return metric_.has_value(); }

  /// A validation's metric: the sums begin anew, then come batches, whose outputs are the model's last...
  void begin() { sums_.clear(); }
  void add(Model& model, const SampleStore& store, std::span<const std::int64_t> ids);
  /// ...and the team's sums of them are made of these. None where nothing is measured.
  std::span<double> sums() { return sums_.values(); }
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
