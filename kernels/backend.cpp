#include "kernels/backend.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/errors.hpp"
#include "kernels/formulas.hpp"
#include "kernels/operations.hpp"

namespace mrmf {

void AllReduce::start_update(Span, Span, const UpdatePiece&) { MRMF_CHECK(false, "these sums update nothing"); }

Extent ConvGeometry::out() const {
  Extent result{};
  const Extent taps = reach();
  for (std::size_t a = 0; a < 3; ++a) result[a] = (in[a] + pad_before[a] + pad_after[a] - taps[a]) / stride[a] + 1;
  return result;
}

Extent ConvGeometry::reach() const {
  Extent result{};
  for (std::size_t a = 0; a < 3; ++a) result[a] = (kernel[a] - 1) * dilation[a] + 1;
  return result;
}

Extent UpsampleGeometry::out() const {
  Extent result{};
  for (std::size_t a = 0; a < 3; ++a) result[a] = in[a] * factor[a];
  return result;
}

Extent PoolGeometry::out() const {
  Extent result{};
  for (std::size_t a = 0; a < 3; ++a) result[a] = (in[a] - window[a]) / stride[a] + 1;
  return result;
}

Box ContrastGeometry::middle() const {
  Box box;
  for (std::size_t a = 0; a < 3; ++a) {
    const Index half = window[a] / 2, begin = std::max<Index>(0, out.first[a] - half);
    box.first[a] = begin;
    box.count[a] = std::min(in[a], out.end(a) + half) - begin;
  }
  return box;
}

double ContrastGeometry::weight(std::size_t axis, Index distance) const {
  const double of_deviation = static_cast<double>(distance) / (static_cast<double>(window[axis]) / 4);
  return std::exp(-of_deviation * of_deviation / 2);
}

LossSettings LossSettings::single(LossKind kind) {
  LossSettings settings;
  settings.weights = {};
  settings.weights[static_cast<std::size_t>(kind)] = 1;
  return settings;
}

Task LossSettings::task() const {
  if (weight(LossKind::binary_cross_entropy) > 0) return Task::binary;
  return weight(LossKind::cross_entropy) > 0 || weight(LossKind::dice) > 0 ? Task::classes : Task::regression;
}

namespace {

/// One batch in memory that host and backend share.
class HostFeed final : public Feed {
 public:
  HostFeed(Backend& backend, const Shape& samples, Index outputs)
      : samples_(samples),
        outputs_(outputs),
        x_(backend.allocate(samples.count())),
        targets_(backend.allocate(samples.n * outputs)) {}

  HostBatch host(Index rows) override {
    return {x_.span().first(static_cast<std::size_t>(samples_.with_rows(rows).count())),
            targets_.span().first(static_cast<std::size_t>(rows * outputs_))};
  }
  Batch submit(Index rows) override {
    const HostBatch filled = host(rows);
    return {{samples_.with_rows(rows), filled.x}, {Shape{.n = rows, .channels = outputs_}, filled.targets}};
  }

 private:
  Shape samples_;
  Index outputs_;
  Arena x_, targets_;
};

}  // namespace

// What a backend in the host's own memory does; a device backend overrides it.
void Backend::write(ConstSpan host, Span x) { std::ranges::copy(host, x.begin()); }
void Backend::read(ConstSpan x, Span host) { std::ranges::copy(x, host.begin()); }
void Backend::write_activation(ConstSpan host, Tensor x) { write(host, x.data); }
void Backend::read_activation(ConstTensor x, Span host) { read(x.data, host); }

void Backend::reshape(ConstTensor x, Tensor y) {
  if (x.data.data() != y.data.data()) std::ranges::copy(x.data, y.data.begin());
}

std::unique_ptr<Feed> Backend::feed(const Shape& samples, Index outputs) {
  return std::make_unique<HostFeed>(*this, samples, outputs);
}

void ClipOp::run_over(Span x, float most, std::span<const Span> counted, AllReduce& ranks) {
  double squares = 0;
  for (const Span part : counted)
    for (const float value : part) squares += double{value} * value;
  ranks.sum(std::span(&squares, 1));
  const float factor = clip_factor(squares, most);
  if (factor == 1) return;
  for (float& value : x) value *= factor;
}

void Backend::add_over(AllReduce& ranks, Tensor x, Span floats) {
  (void)floats;
  ranks.start(x.data);
  ranks.finish();
}

void Backend::append_history(const StepContext& step, ConstSpan value, Span history) {
  history[static_cast<std::size_t>(step.batch_index)] = value[0];
}

}  // namespace mrmf
