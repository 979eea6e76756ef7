// A convolution and the batch norm of its output in one operation (ConvNormOp).
#include <algorithm>
#include <utility>

#include "kernels/cpu/batch_norm.hpp"
#include "kernels/cpu/convolutions.hpp"

namespace mrmf::cpu {
namespace {

/// Where the convolution goes plane by plane, the norm needs fewer passes over its output z: the moments of z are added
/// as it is stored, and its gradient is made as the weight gradient reads it. Otherwise one runs after the other. The
/// gradient of z takes its place, or is not stored.
class ConvThenNorm final : public ConvNormOp {
 public:
  ConvThenNorm(ConvNormParts parts, const ConvNorm& settings)
      : parts_(std::move(parts)),
        planewise_(dynamic_cast<PlanewiseNormConv*>(parts_.norm_conv.get())),
        adding_(dynamic_cast<PlanewiseConv*>(parts_.conv[0].get())),
        data_(dynamic_cast<PlanewiseConv*>(parts_.conv[1].get())),
        making_(dynamic_cast<PlanewiseConv*>(parts_.conv[2].get())),
        input_(product(settings.conv.in) * settings.conv.in_channels),
        norm_(settings.output, settings.shortcut) {}

  bool accepts_slices() const override { return true; }
  Index kept_floats(Index rows) const override {
    return whole_lines(norm_.kept_floats(rows)) + normalised_floats(rows);
  }
  void prepare(Index rows) override {
    norm_.sums().prepare_moments();
    if (planewise_ != nullptr) return planewise_->prepare_making(rows);
    if (parts_.norm_conv != nullptr) return parts_.norm_conv->prepare(rows);
    for (const auto& pass : parts_.conv) pass->prepare(rows);
    if (making_ != nullptr) making_->prepare_making(rows, data_);
  }

  void forward(const StepContext& step, const Forward& f) override {
    NormSums& sums = norm_.sums();
    const bool added = convolve(step, f);
    if (step.training && added)
      sums.update_statistics(step, f.memory);
    else if (step.training)
      sums.update_statistics(step, f.z.data, f.memory);
    const norm_loops::Terms terms = sums.terms(step, f.memory);
    norm_.forward(terms, f.z, f.shortcut, f.y, step.training ? of_norm(f.kept, f.x.shape.n) : Span{});
  }

  void backward(const StepContext& step, const Backward& b) override {
    MRMF_CHECK(b.input == nullptr || b.dx.data.empty(), "a batch norm fused with its convolution gives no dx");
    NormSums& sums = norm_.sums();
    NormGradient of{sums.terms(step, b.memory), {}, b.z, b.dy, b.y, b.dshortcut};
    norm_.add_gradients(of, of_norm(b.kept, b.x.shape.n));
    sums.parameter_gradients(b.memory, b.dgamma, b.dbeta);
    of.data = sums.data_terms(step, std::ssize(b.z.data) / b.z.shape.channels, b.memory);
    const MadeGradient dz{b.z.shape, [&](Index first, Index last, float* to) { norm_.data_lines(of, first, last, to); },
                          b.z.data.data(), !b.dx.data.empty()};
    if (planewise_ == nullptr && making_ == nullptr) norm_.data_gradient(of, b.z);
    if (parts_.norm_conv != nullptr) return backward_of_input(b, dz);
    if (dz.wanted && making_ != nullptr && data_ != nullptr &&
        making_->backward_making({b.x, b.w, b.dx, b.dw, b.db}, dz, *data_))
      return;
    if (making_ != nullptr)
      making_->backward_weights_making(b.x, dz, b.dw, b.db);
    else
      parts_.conv[2]->backward_weights(b.x, b.z, b.dw, b.db);
    if (!b.dx.data.empty()) parts_.conv[1]->backward_data(b.z, b.w, b.dx);
  }

 private:
  Index normalised_floats(Index rows) const {
    return parts_.norm_conv != nullptr && parts_.norm_conv->keeps_normalised() ? rows * input_ : 0;
  }
  Span of_norm(Span kept, Index rows) const { return kept.first(static_cast<std::size_t>(norm_.kept_floats(rows))); }
  Span normalised(Span kept, Index rows) const {
    return kept.subspan(static_cast<std::size_t>(whole_lines(norm_.kept_floats(rows))),
                        static_cast<std::size_t>(normalised_floats(rows)));
  }

  /// Whether the moments of z were added.
  bool convolve(const StepContext& step, const Forward& f) {
    if (parts_.norm_conv == nullptr) {
      if (adding_ == nullptr || !step.training) return parts_.conv[0]->forward(f.x, f.w, f.b, f.z), false;
      return adding_->forward_adding(f.x, f.w, f.b, f.z, norm_.sums()), true;
    }
    const NormConvOp::Forward call{
        .x = f.x, .memory = *f.input, .w = f.w, .b = f.b, .normalised = normalised(f.kept, f.x.shape.n), .y = f.z};
    if (planewise_ == nullptr || !step.training) return parts_.norm_conv->forward(step, call), false;
    return planewise_->forward_adding(step, call, norm_.sums()), true;
  }

  void backward_of_input(const Backward& b, const MadeGradient& dz) {
    const NormConvOp::Backward call{.x = b.x,
                                    .dy = b.z,
                                    .memory = *b.input,
                                    .w = b.w,
                                    .normalised = normalised(b.kept, b.x.shape.n),
                                    .dgamma = b.input_dgamma,
                                    .dbeta = b.input_dbeta,
                                    .dw = b.dw,
                                    .db = b.db};
    if (planewise_ != nullptr)
      planewise_->backward_making(call, dz);
    else
      parts_.norm_conv->backward(call);
  }

  ConvNormParts parts_;
  PlanewiseNormConv* planewise_;  // null: the pass does not go plane by plane, as the next three
  PlanewiseConv *adding_, *data_, *making_;
  Index input_;  // floats of a row of x
  NormPasses norm_;
};

}  // namespace

std::unique_ptr<ConvNormOp> make_conv_norm(ConvNormParts parts, const ConvNorm& settings) {
  return std::make_unique<ConvThenNorm>(std::move(parts), settings);
}

}  // namespace mrmf::cpu
