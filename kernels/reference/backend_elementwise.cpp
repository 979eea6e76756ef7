// The reference's memory, and its plain functions: swapping, filling, activations, dropout, sums, channels, and
// optimizer steps.
#include "kernels/reference/backend.hpp"

#include <cmath>
#include <cstdlib>
#include <new>

#include "kernels/formulas.hpp"

namespace mrmf {

Arena reference::ReferenceBackend::allocate(Index count) {
  constexpr std::size_t alignment = 64;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  const std::size_t rounded = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  auto* const data = static_cast<float*>(std::aligned_alloc(alignment, rounded));
  if (data == nullptr) throw std::bad_alloc();
  std::fill_n(data, rounded / sizeof(float), 0.0F);
  return {data, static_cast<std::size_t>(count), +[](float* p) { std::free(p); }};
}

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<reference::ReferenceBackend>(); }

}  // namespace mrmf

namespace mrmf::reference {

// The plain functions: swapping, filling, activations, dropout, sums, channels, and optimizer steps.

void ReferenceBackend::swap(Span a, Span b) { std::swap_ranges(a.begin(), a.end(), b.begin()); }

void ReferenceBackend::fill(Span x, float value) { std::fill(x.begin(), x.end(), value); }

void ReferenceBackend::activate(ActivationKind kind, float slope, ConstTensor x, Tensor y) {
  for (std::size_t i = 0; i < x.data.size(); ++i) y.data[i] = activation(kind, slope, x.data[i]);
}

void ReferenceBackend::activate_backward(ActivationKind kind, float slope, ConstTensor kept, ConstTensor dy,
                                         Tensor dx) {
  for (std::size_t i = 0; i < kept.data.size(); ++i)
    dx.data[i] = activation_gradient(kind, slope, kept.data[i], dy.data[i]);
}

void ReferenceBackend::dropout(const StepContext& step, const DropoutSettings& settings, ConstTensor x, Tensor y) {
  if (!step.training) {
    if (x.data.data() != y.data.data()) std::copy(x.data.begin(), x.data.end(), y.data.begin());
    return;
  }
  MRMF_CHECK(static_cast<Index>(step.ids.size()) >= x.shape.n, "dropout needs the sample id of every row");
  const DropoutMask mask(step, settings.layer, settings.rate);
  const Extent& sizes = x.shape.spatial;
  Index at = 0;
  for (Index row = 0; row < x.shape.n; ++row)
    for (Index i = 0; i < sizes[0]; ++i)
      for (Index j = 0; j < sizes[1]; ++j)
        for (Index k = 0; k < sizes[2]; ++k)
          for (Index c = 0; c < x.shape.channels; ++c, ++at) {
            const Index feature = settings.position(sizes, i, j, k) * x.shape.channels + c;
            const Random4 block = mask.block(step.ids[row], feature);
            y.data[at] = x.data[at] * (mask.keeps(block, feature) ? mask.scale : 0.0F);
          }
}

void ReferenceBackend::add(ConstTensor a, ConstTensor b, Tensor y) {
  for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] = a.data[i] + b.data[i];
}

void ReferenceBackend::copy_channels(ConstTensor x, Index from, Tensor y, Index to, Index count) {
  for (Index position = 0; position < x.shape.n * product(x.shape.spatial); ++position)
    for (Index c = 0; c < count; ++c)
      y.data[position * y.shape.channels + to + c] = x.data[position * x.shape.channels + from + c];
}

void ReferenceBackend::copy_box(ConstTensor x, Tensor y, const BoxCopy& box) {
  const auto at = [](const Shape& shape, Index row, const Extent& p, Index channel) {
    Index position = row;
    for (std::size_t a = 0; a < 3; ++a) position = position * shape.spatial[a] + p[a];
    return static_cast<std::size_t>(position * shape.channels + channel);
  };
  for (Index n = 0; n < x.shape.n; ++n)
    for (Index i = 0; i < box.count[0]; ++i)
      for (Index j = 0; j < box.count[1]; ++j)
        for (Index k = 0; k < box.count[2]; ++k)
          for (Index c = 0; c < x.shape.channels; ++c) {
            const float value = x.data[at(x.shape, n, {box.from[0] + i, box.from[1] + j, box.from[2] + k}, c)];
            float& target = y.data[at(y.shape, n, {box.to[0] + i, box.to[1] + j, box.to[2] + k}, c)];
            target = box.add ? target + value : value;
          }
}

void ReferenceBackend::accumulate(ConstSpan x, Span y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += x[i];
}

namespace {

class Clip final : public ClipOp {
 public:
  void run(Span x, float most) override {
    double squares = 0;
    for (const float value : x) squares += double{value} * value;
    const float factor = clip_factor(squares, most);
    for (float& value : x) value *= factor;
  }
};

}  // namespace

std::unique_ptr<ClipOp> ReferenceBackend::clip(Index) { return std::make_unique<Clip>(); }

void ReferenceBackend::sgd(const StepContext& step, Span w, ConstSpan dw, Span velocity) {
  for (std::size_t i = 0; i < w.size(); ++i)
    velocity.empty() ? sgd_update(step.sgd, w[i], dw[i]) : sgd_update(step.sgd, w[i], dw[i], velocity[i]);
}

void ReferenceBackend::lion(const StepContext& step, Span w, ConstSpan dw, Span m) {
  for (std::size_t i = 0; i < w.size(); ++i) lion_update(step.lion, w[i], dw[i], m[i]);
}

void ReferenceBackend::lion_directions(const StepContext& step, Span dw, Span m) {
  for (std::size_t i = 0; i < dw.size(); ++i) dw[i] = lion_direction(step.lion, dw[i], m[i]);
}

void ReferenceBackend::lion_move(const StepContext& step, Span w, ConstSpan directions) {
  for (std::size_t i = 0; i < w.size(); ++i) mrmf::lion_move(step.lion, w[i], directions[i]);
}

void ReferenceBackend::adam(const StepContext& step, std::size_t group, Span w, ConstSpan dw, Span m, Span v) {
  const AdamStep& numbers = step.adam.at(group);
  for (std::size_t i = 0; i < w.size(); ++i) adam_update(numbers, w[i], dw[i], m[i], v[i]);
}

}  // namespace mrmf::reference
