#include "src/training/sliding_window_inference.hpp"

#include <algorithm>
#include <numeric>

#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

Shape whole_output(const Shape& of_patch, const Shape& sample) {
  Shape output = of_patch.with_rows(0);
  output.spatial = sample.spatial;
  return output;
}

}  // namespace

WindowedModel::WindowedModel(Backend& backend, Model& model, const Config& config, const Extent& resolution,
                             const Shape& sample, Comm* sharing)
    : backend_(backend),
      model_(model),
      loss_settings_(config.training.loss),
      sharing_(sharing),
      sample_(sample),
      patch_(patch_of(config.data.patch, sample)),
      output_(whole_output(model.network().output(), sample)),
      windows_(config.data.patch, sample, reach_of(network_for(config, resolution, patch_).layers)),
      feed_(backend.feed(model.execution().input.with_rows(model.max_rows()), 0)),
      host_(make_reference_backend()) {}

ConstSpan WindowedModel::run(ConstSpan sample) {
  return run(sample, {.training = false},
             [this](const StepContext& step, ConstTensor x) { return model_.forward(step, x); });
}

ConstSpan WindowedModel::run(ConstSpan sample, StepContext step, const Forward& forward) {
  const Execution& execution = model_.execution();
  const Box &input = execution.input_box, &output = execution.output_box;
  const Index most = model_.max_rows(), width = product(input.count) * patch_.channels,
              outputs = product(output.count) * output_.channels;
  whole_.assign(static_cast<std::size_t>(output_.per_sample()), 0.0F);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(most));
  for (Index first = 0; first < windows_.count(); first += most) {
    const Index rows = std::min(most, windows_.count() - first);
    const Feed::HostBatch host = feed_->host(rows);
    for (Index i = 0; i < rows; ++i) {
      Box box{.first = windows_.box(first + i).first, .count = input.count};
      for (std::size_t a = 0; a < 3; ++a) box.first[a] += input.first[a];
      cut_box(sample_, sizeof(float), std::as_bytes(sample).data(), box,
              std::as_writable_bytes(host.x.subspan(static_cast<std::size_t>(i * width))).data());
    }
    std::iota(numbers.begin(), numbers.end(), first);
    step.ids = std::span(numbers).first(static_cast<std::size_t>(rows));
    const Feed::Batch fed = feed_->submit(rows);
    backend_.begin(step);
    const ConstTensor y = forward(step, fed.x);
    part_.resize(static_cast<std::size_t>(y.shape.count()));
    backend_.read_activation(y, part_);
    for (Index i = 0; i < rows && execution.counts; ++i)
      windows_.add(first + i,
                   ConstSpan(part_).subspan(static_cast<std::size_t>(i * outputs), static_cast<std::size_t>(outputs)),
                   output_.channels, whole_, output);
  }
  if (sharing_ != nullptr) sharing_->sum(Span(whole_));
  return whole_;
}

double WindowedModel::loss(ConstSpan outputs, ConstSpan targets) {
  const Index width = std::ssize(targets);
  if (!loss_ || width != target_width_) {
    target_width_ = width;
    loss_ = host_->loss(loss_settings_, output_.with_rows(1), width / product(output_.spatial));
  }
  float sum = 0;
  const std::int64_t id = 0;
  Shape target = output_.with_rows(1);
  target.channels = width / product(output_.spatial);
  loss_->run({.training = false, .ids = {&id, 1}}, {output_.with_rows(1), outputs}, {target, targets}, {}, {&sum, 1});
  return sum;
}

}  // namespace mrmf
