// Sliding windows over samples, and a model that is run over them.
#include "src/data/sliding_window_inference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/errors.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

constexpr double kWidth = 0.125;  // deviation of the weights' bell, in windows
constexpr double kLeast = 0.001;  // the least weight, where a window counts at all

double bell(Index position, Index count) {
  const double from_middle = (static_cast<double>(position) + 0.5) / static_cast<double>(count) - 0.5;
  return std::max(kLeast, std::exp(-0.5 * from_middle * from_middle / (kWidth * kWidth)));
}

}  // namespace

void require_patch(const Config& config, const Shape& sample, const Shape& label) {
  const std::vector<Index>& size = config.data.patch.size;
  if (size.empty()) return;
  const std::string key = fmt::format("data.patch = [{}]", fmt::join(size, ", "));
  if (std::ssize(size) != sample.axes)
    throw ConfigError(fmt::format("{} has {} entr{}, and samples of {} have {} axes; give one for each", key,
                                  size.size(), size.size() == 1 ? "y" : "ies", to_string(sample), sample.axes));
  if (label.spatial != sample.spatial)
    throw ConfigError(
        fmt::format("{} cuts boxes out of samples and labels alike, and labels of {} have other positions "
                    "than samples of {}; remove it",
                    key, to_string(label), to_string(sample)));
  if (config.data.patch.foreground > 0 && config.training.loss.task() == Task::regression)
    throw ConfigError("data.patch_foreground goes with labels that are classes, or yes or no; remove it");
  const Reach reach = reach_of(config.model.layers);
  for (int axis = 0; axis < sample.axes; ++axis) {
    const auto a = static_cast<std::size_t>(3 - sample.axes + axis);
    const Index own = size[static_cast<std::size_t>(axis)], step = reach.step[a];
    if (own > sample.spatial[a])
      throw ConfigError(fmt::format("{} is larger than samples of {} along axis {}; use at most {} there", key,
                                    to_string(sample), axis, sample.spatial[a] / step * step));
    if (own % step != 0)
      throw ConfigError(
          fmt::format("{}: the network halves positions down to one of {} along axis {}, and {} is no "
                      "multiple of {}; use {}{}",
                      key, step, axis, own, step, own / step * step + step,
                      own < step ? "" : fmt::format(" or {}", own / step * step)));
  }
}

Windows::Windows(const PatchSettings& settings, const Shape& sample, const Reach& reach)
    : size_(sample.spatial), patch_(patch_of(settings, sample).spatial) {
  for (std::size_t a = 0; a < 3; ++a) axes_[a] = make_axis(settings, reach, a);
}

Windows::Axis Windows::make_axis(const PatchSettings& settings, const Reach& reach, std::size_t axis) {
  const Index size = size_[axis], count = patch_[axis], step = reach.step[axis];
  const auto wanted = static_cast<Index>(static_cast<double>(count) * (1 - settings.overlap));
  const Index between = std::max(step, wanted / step * step);
  Axis made;
  for (Index first = 0; first + count < size; first += between) made.first.push_back(first);
  made.first.push_back(size - count);
  const bool several = made.first.size() > 1;
  const bool apart = !reach.whole && between <= count - reach.before[axis] - reach.after[axis];
  exact_ = exact_ && (!several || (apart && (size - count) % step == 0));
  std::vector<double> sums(static_cast<std::size_t>(size));
  std::vector<std::vector<double>> weights;
  for (const Index first : made.first) {
    weights.emplace_back();
    for (Index p = 0; p < count; ++p) {
      const bool blind =
          apart && ((first > 0 && p < reach.before[axis]) || (first + count < size && p >= count - reach.after[axis]));
      weights.back().push_back(blind ? 0 : several ? bell(p, count) : 1);
      sums[static_cast<std::size_t>(first + p)] += weights.back().back();
    }
  }
  for (std::size_t w = 0; w < weights.size(); ++w) {
    made.weights.emplace_back();
    for (std::size_t p = 0; p < weights[w].size(); ++p) {
      const double sum = sums[static_cast<std::size_t>(made.first[w]) + p];
      MRMF_CHECK(sum > 0, "a position that no window counts");
      made.weights.back().push_back(static_cast<float>(weights[w][p] / sum));
    }
  }
  return made;
}

Index Windows::count() const {
  return std::ssize(axes_[0].first) * std::ssize(axes_[1].first) * std::ssize(axes_[2].first);
}

Extent Windows::grid_index(Index number) const {
  const Index last = std::ssize(axes_[2].first), middle = std::ssize(axes_[1].first);
  return {number / last / middle, number / last % middle, number % last};
}

Box Windows::box(Index number) const {
  const Extent at = grid_index(number);
  Box box{.first = {0, 0, 0}, .count = patch_};
  for (std::size_t a = 0; a < 3; ++a) box.first[a] = axes_[a].first[static_cast<std::size_t>(at[a])];
  return box;
}

void Windows::add(Index number, ConstSpan y, Index channels, Span whole, const std::optional<Box>& part) const {
  const Extent at = grid_index(number);
  const Box own = part.value_or(Box{.first = {0, 0, 0}, .count = patch_});
  const Extent &first = own.first, &count = own.count, window = box(number).first;
  MRMF_CHECK(contains({.count = patch_}, own) && std::ssize(y) == product(count) * channels &&
                 std::ssize(whole) == product(size_) * channels,
             "outputs of other positions");
  std::array<const float*, 3> weights{};
  for (std::size_t a = 0; a < 3; ++a) weights[a] = axes_[a].weights[static_cast<std::size_t>(at[a])].data() + first[a];
#pragma omp parallel for schedule(static) if (std::ssize(y) > (Index{1} << 16))
  for (Index i = 0; i < count[0]; ++i)
    for (Index j = 0; j < count[1]; ++j) {
      const float line = weights[0][i] * weights[1][j];
      const float* from = y.data() + (i * count[1] + j) * count[2] * channels;
      const Index row = (window[0] + first[0] + i) * size_[1] + window[1] + first[1] + j;
      float* to = whole.data() + (row * size_[2] + window[2] + first[2]) * channels;
      for (Index k = 0; k < count[2]; ++k) {
        const float weight = line * weights[2][k];
        // A position that counts nothing may be anything, and is not looked at.
        for (Index c = 0; weight > 0 && c < channels; ++c) to[k * channels + c] += weight * from[k * channels + c];
      }
    }
}

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
