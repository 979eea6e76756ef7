#include "tests/unit/support/host_view.hpp"

#include <algorithm>
#include <optional>

#include "tests/unit/support/device_copy.hpp"

namespace mrmf::test {
namespace {

/// A tensor that may be missing (the first layer's dx), or share its memory with another.
class Result {
 public:
  Result(Backend& device, Tensor host, DeviceTensor* shared = nullptr) : host_(host), shared_(shared) {
    if (!host.data.empty() && shared == nullptr) own_.emplace(device, host.shape);
  }
  Tensor tensor() {
    if (host_.data.empty()) return {host_.shape, {}};
    return shared_ != nullptr ? shared_->tensor() : own_->tensor();
  }
  void fetch() {
    if (!host_.data.empty()) (shared_ != nullptr ? *shared_ : *own_).to_host(host_.data);
  }

 private:
  Tensor host_;
  DeviceTensor* shared_;
  std::optional<DeviceTensor> own_;
};

/// The gradients of an operation with weights and biases.
template <class Op>
void fetch_gradients(Backend& device, Op& op, ConstTensor x, ConstTensor dy, Span dw, Span db) {
  DeviceTensor input(device, x), gradient(device, dy);
  DeviceFloats weights(device, dw), bias(device, db);
  op.backward_weights(input.tensor(), gradient.tensor(), weights.span(), bias.span());
  weights.to_host(dw);
  bias.to_host(db);
}

class HostWeighted final : public WeightedOp {
 public:
  HostWeighted(Backend& device, std::unique_ptr<WeightedOp> op) : device_(device), op_(std::move(op)) {}
  void prepare(Index rows) override { op_->prepare(rows); }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    w_.emplace(device_, w);  // backward reads it, too
    DeviceTensor dx(device_, x);
    DeviceFloats db(device_, b);
    Result result(device_, y);
    op_->forward(dx.tensor(), w_->span(), db.span(), result.tensor());
    result.fetch();
  }
  void backward_data(ConstTensor dy, ConstSpan, Tensor dx) override {
    DeviceTensor gradient(device_, dy);
    Result result(device_, dx);
    op_->backward_data(gradient.tensor(), w_->span(), result.tensor());
    result.fetch();
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    fetch_gradients(device_, *op_, x, dy, dw, db);
  }

 private:
  Backend& device_;
  std::unique_ptr<WeightedOp> op_;
  std::optional<DeviceFloats> w_;
};

class HostLocal final : public LocallyConnectedOp {
 public:
  HostLocal(Backend& device, std::unique_ptr<LocallyConnectedOp> op) : device_(device), op_(std::move(op)) {}
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    DeviceTensor in(device_, x);
    DeviceFloats weights(device_, w), bias(device_, b);
    Result result(device_, y);
    op_->forward(in.tensor(), weights.span(), bias.span(), result.tensor());
    result.fetch();
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    DeviceTensor gradient(device_, dy);
    DeviceFloats weights(device_, w);
    Result result(device_, dx);
    op_->backward_data(gradient.tensor(), weights.span(), result.tensor());
    result.fetch();
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    fetch_gradients(device_, *op_, x, dy, dw, db);
  }
  void update(const StepContext& step, const GradientProduct& first, const GradientProduct* second,
              const UntiedWeights& weights) override {
    device_.begin(step);
    DeviceTensor x(device_, first.x), dy(device_, first.dy);
    std::optional<DeviceTensor> other_x, other_dy;
    GradientProduct other;
    if (second != nullptr)
      other = {other_x.emplace(device_, second->x).tensor(), other_dy.emplace(device_, second->dy).tensor()};
    DeviceFloats w(device_, weights.w), b(device_, weights.b), wv(device_, weights.w_velocity),
        bv(device_, weights.b_velocity);
    op_->update(step, {x.tensor(), dy.tensor()}, second != nullptr ? &other : nullptr,
                {w.span(), b.span(), wv.span(), bv.span()});
    w.to_host(weights.w), b.to_host(weights.b), wv.to_host(weights.w_velocity), bv.to_host(weights.b_velocity);
  }
  void accumulate_weight_gradient(ConstTensor x, ConstTensor dy, Span dw) override {
    DeviceTensor input(device_, x), gradient(device_, dy);
    DeviceFloats weights(device_, dw);
    op_->accumulate_weight_gradient(input.tensor(), gradient.tensor(), weights.span());
    weights.to_host(dw);
  }

 private:
  Backend& device_;
  std::unique_ptr<LocallyConnectedOp> op_;
};

class HostPool final : public PoolOp {
 public:
  HostPool(Backend& device, std::unique_ptr<PoolOp> op) : device_(device), op_(std::move(op)) {}
  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t> winner) override {
    DeviceTensor input(device_, x);
    Result result(device_, y);
    DeviceWinners winners(device_, winner.empty() ? y.shape.with_rows(0) : y.shape);
    op_->forward(input.tensor(), result.tensor(), winners.bytes());
    result.fetch();
    winners.to_host(winner);
  }
  void backward(ConstTensor dy, std::span<const std::uint8_t> winner, Tensor dx) override {
    DeviceTensor gradient(device_, dy);
    DeviceWinners winners(device_, winner.empty() ? dy.shape.with_rows(0) : dy.shape);
    winners.from_host(winner);
    Result result(device_, dx);
    op_->backward(gradient.tensor(), winners.bytes(), result.tensor());
    result.fetch();
  }

 private:
  Backend& device_;
  std::unique_ptr<PoolOp> op_;
};

class HostContrast final : public ContrastOp {
 public:
  HostContrast(Backend& device, std::unique_ptr<ContrastOp> op) : device_(device), op_(std::move(op)) {}
  void forward(ConstTensor x, Span kept, Tensor y) override {
    DeviceTensor input(device_, x);
    DeviceFloats fields(device_, kept);
    Result result(device_, y);
    op_->forward(input.tensor(), fields.span(), result.tensor());
    result.fetch();
    fields.to_host(kept);
  }
  void backward(ConstTensor x, ConstTensor dy, Span kept, Tensor dx) override {
    DeviceTensor input(device_, x), gradient(device_, dy);
    DeviceFloats fields(device_, kept);
    Result result(device_, dx);
    op_->backward(input.tensor(), gradient.tensor(), fields.span(), result.tensor());
    result.fetch();
    fields.to_host(kept);
  }

 private:
  Backend& device_;
  std::unique_ptr<ContrastOp> op_;
};

/// Sums over ranks on the host, of doubles in device memory.
class HostSum final : public AllReduce {
 public:
  HostSum(Backend& device, AllReduce& host) : device_(device), host_(host) {}
  void sum(std::span<double> values) override {
    const Span as_floats{reinterpret_cast<float*>(values.data()), 2 * values.size()};
    std::vector<double> copy(values.size());
    const Span host{reinterpret_cast<float*>(copy.data()), as_floats.size()};
    device_.read(as_floats, host);
    host_.sum(copy);
    device_.write(host, as_floats);
  }
  void start(Span) override {}
  void finish() override {}
  SumTime take_time() override { return {}; }

 private:
  Backend& device_;
  AllReduce& host_;
};

class HostNorm final : public NormOp {
 public:
  HostNorm(Backend& device, std::unique_ptr<NormOp> op) : device_(device), op_(std::move(op)) {}
  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    DeviceTensor input(device_, x);
    Memory copies(device_, memory);
    Result result(device_, y);
    with_ranks(step,
               [&](const StepContext& now) { op_->forward(now, input.tensor(), copies.spans(), result.tensor()); });
    result.fetch();
    copies.fetch(memory);
  }
  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override {
    DeviceTensor input(device_, x), gradient(device_, dy);
    Memory copies(device_, memory);
    DeviceFloats gamma(device_, dgamma), beta(device_, dbeta);
    Result result(device_, dx, dx.data.data() == dy.data.data() ? &gradient : nullptr);
    with_ranks(step, [&](const StepContext& now) {
      op_->backward(now, input.tensor(), gradient.tensor(), copies.spans(), gamma.span(), beta.span(), result.tensor());
    });
    result.fetch();
    gamma.to_host(dgamma);
    beta.to_host(dbeta);
  }

 private:
  struct Memory {
    DeviceFloats gamma, beta, running_mean, running_variance, mean, inverse_deviation, bias;
    Memory(Backend& device, const NormMemory& m)
        : gamma(device, m.gamma),
          beta(device, m.beta),
          running_mean(device, m.running_mean),
          running_variance(device, m.running_variance),
          mean(device, m.mean),
          inverse_deviation(device, m.inverse_deviation),
          bias(device, m.bias) {}
    NormMemory spans() {
      return {gamma.span(),        beta.span(),
              running_mean.span(), running_variance.span(),
              mean.span(),         inverse_deviation.span(),
              bias.span()};
    }
    void fetch(const NormMemory& m) {
      running_mean.to_host(m.running_mean);
      running_variance.to_host(m.running_variance);
      mean.to_host(m.mean);
      inverse_deviation.to_host(m.inverse_deviation);
    }
  };
  template <class Use>
  void with_ranks(StepContext step, Use use) {
    std::optional<HostSum> sum;
    if (step.team_sum != nullptr) step.team_sum = &sum.emplace(device_, *step.team_sum);
    device_.begin(step);
    use(step);
  }

  Backend& device_;
  std::unique_ptr<NormOp> op_;
};

class HostClip final : public ClipOp {
 public:
  HostClip(Backend& device, std::unique_ptr<ClipOp> op) : device_(device), op_(std::move(op)) {}
  void run(Span x, float most) override {
    DeviceFloats values(device_, x);
    op_->run(values.span(), most);
    values.to_host(x);
  }

 private:
  Backend& device_;
  std::unique_ptr<ClipOp> op_;
};

class HostLoss final : public LossOp {
 public:
  HostLoss(Backend& device, std::unique_ptr<LossOp> op) : device_(device), op_(std::move(op)) {}
  void run(const StepContext& step, ConstTensor y, ConstTensor target, Span dy, Span sum) override {
    device_.begin(step);
    DeviceTensor output(device_, y);
    DeviceFloats targets(device_, target.data), total(device_, sum);
    Result result(device_, {y.shape, dy});
    op_->run(step, output.tensor(), {target.shape, targets.span()}, result.tensor().data, total.span());
    result.fetch();
    total.to_host(sum);
  }

 private:
  Backend& device_;
  std::unique_ptr<LossOp> op_;
};

class HostConvPool final : public ConvPoolOp {
 public:
  HostConvPool(Backend& device, std::unique_ptr<ConvPoolOp> op) : device_(device), op_(std::move(op)) {}
  void prepare(Index rows) override { op_->prepare(rows); }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, std::span<std::uint8_t> winner) override {
    w_.emplace(device_, w);
    DeviceTensor input(device_, x);
    DeviceFloats bias(device_, b);
    Result result(device_, y);
    DeviceWinners winners(device_, y.shape);
    op_->forward(input.tensor(), w_->span(), bias.span(), result.tensor(), winners.bytes());
    result.fetch();
    winners.to_host(winner);
  }
  void backward(ConstTensor x, ConstTensor y, ConstTensor dy, std::span<const std::uint8_t> winner, ConstSpan, Span dw,
                Span db, Tensor dx) override {
    DeviceTensor input(device_, x), output(device_, y), gradient(device_, dy);
    DeviceWinners winners(device_, y.shape);
    winners.from_host(winner);
    DeviceFloats weights(device_, dw), bias(device_, db);
    Result result(device_, dx);
    op_->backward(input.tensor(), output.tensor(), gradient.tensor(), winners.bytes(), w_->span(), weights.span(),
                  bias.span(), result.tensor());
    result.fetch();
    weights.to_host(dw);
    bias.to_host(db);
  }

 private:
  Backend& device_;
  std::unique_ptr<ConvPoolOp> op_;
  std::optional<DeviceFloats> w_;
};

class HostView final : public Backend {
 public:
  explicit HostView(std::unique_ptr<Backend> device) : device_(std::move(device)), host_(make_reference_backend()) {}

  std::string name() const override { return device_->name(); }
  std::string description() const override { return device_->description(); }
  Arena allocate(Index count) override { return host_->allocate(count); }
  void swap(Span a, Span b) override {
    DeviceFloats x(*device_, a), y(*device_, b);
    device_->swap(x.span(), y.span());
    x.to_host(a);
    y.to_host(b);
  }
  void fill(Span x, float value) override {
    DeviceFloats copy(*device_, x);
    device_->fill(copy.span(), value);
    copy.to_host(x);
  }

  std::unique_ptr<WeightedOp> conv(const ConvGeometry& geometry, Index max_rows) override {
    return std::make_unique<HostWeighted>(*device_, device_->conv(geometry, max_rows));
  }
  std::unique_ptr<WeightedOp> conv_transpose(const ConvGeometry& geometry, Index max_rows) override {
    return std::make_unique<HostWeighted>(*device_, device_->conv_transpose(geometry, max_rows));
  }
  std::unique_ptr<LocallyConnectedOp> locally_connected(const ConvGeometry& geometry, Index max_rows) override {
    return std::make_unique<HostLocal>(*device_, device_->locally_connected(geometry, max_rows));
  }
  std::unique_ptr<PoolOp> upsample(const UpsampleGeometry& geometry, Index max_rows) override {
    return std::make_unique<HostPool>(*device_, device_->upsample(geometry, max_rows));
  }
  std::unique_ptr<ContrastOp> contrast(const ContrastGeometry& geometry, Index max_rows) override {
    return std::make_unique<HostContrast>(*device_, device_->contrast(geometry, max_rows));
  }
  std::unique_ptr<NormOp> group_norm(const GroupNormSettings& settings, Index max_rows) override {
    return std::make_unique<HostNorm>(*device_, device_->group_norm(settings, max_rows));
  }
  std::unique_ptr<WeightedOp> dense(Index in, Index out, Index max_rows) override {
    return std::make_unique<HostWeighted>(*device_, device_->dense(in, out, max_rows));
  }
  std::unique_ptr<PoolOp> pool(const PoolGeometry& geometry, Index max_rows) override {
    return std::make_unique<HostPool>(*device_, device_->pool(geometry, max_rows));
  }
  std::unique_ptr<NormOp> norm(const NormSettings& settings, Index max_rows) override {
    return std::make_unique<HostNorm>(*device_, device_->norm(settings, max_rows));
  }
  std::unique_ptr<ConvPoolOp> conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool,
                                             Index max_rows) override {
    auto op = device_->conv_pool_relu(conv, pool, max_rows);
    return op ? std::make_unique<HostConvPool>(*device_, std::move(op)) : nullptr;
  }
  std::unique_ptr<NormOp> norm_relu_pool(const NormReluPool& settings, Index max_rows) override {
    auto op = device_->norm_relu_pool(settings, max_rows);
    return op ? std::make_unique<HostNorm>(*device_, std::move(op)) : nullptr;
  }
  std::unique_ptr<NormConvOp> norm_conv(const NormSettings&, const ConvGeometry&, Index) override { return nullptr; }
  std::unique_ptr<ConvNormOp> conv_norm(const ConvNorm&, Index) override { return nullptr; }

  void reshape(ConstTensor x, Tensor y) override {
    if (x.data.data() == y.data.data()) return;
    DeviceTensor input(*device_, x);
    Result result(*device_, y);
    device_->reshape(input.tensor(), result.tensor());
    result.fetch();
  }
  void activate(ActivationKind kind, float slope, ConstTensor x, Tensor y) override {
    DeviceTensor input(*device_, x);
    Result result(*device_, y, x.data.data() == y.data.data() ? &input : nullptr);
    device_->activate(kind, slope, input.tensor(), result.tensor());
    result.fetch();
  }
  void activate_backward(ActivationKind kind, float slope, ConstTensor kept, ConstTensor dy, Tensor dx) override {
    DeviceTensor output(*device_, kept), gradient(*device_, dy);
    Result result(*device_, dx, dx.data.data() == dy.data.data() ? &gradient : nullptr);
    device_->activate_backward(kind, slope, output.tensor(), gradient.tensor(), result.tensor());
    result.fetch();
  }
  void dropout(const StepContext& step, const DropoutSettings& settings, ConstTensor x, Tensor y) override {
    device_->begin(step);
    DeviceTensor input(*device_, x);
    Result result(*device_, y, x.data.data() == y.data.data() ? &input : nullptr);
    device_->dropout(step, settings, input.tensor(), result.tensor());
    result.fetch();
  }
  void add(ConstTensor a, ConstTensor b, Tensor y) override {
    DeviceTensor first(*device_, a), second(*device_, b);
    const float* const to = y.data.data();
    DeviceTensor* const shared = to == a.data.data() ? &first : to == b.data.data() ? &second : nullptr;
    Result result(*device_, y, shared);
    device_->add(first.tensor(), second.tensor(), result.tensor());
    result.fetch();
  }
  void copy_channels(ConstTensor x, Index from, Tensor y, Index to, Index count) override {
    DeviceTensor input(*device_, x), result(*device_, ConstTensor(y));  // the channels that are there stay
    device_->copy_channels(input.tensor(), from, result.tensor(), to, count);
    result.to_host(y.data);
  }
  void copy_box(ConstTensor x, Tensor y, const BoxCopy& box) override {
    DeviceTensor input(*device_, x), result(*device_, ConstTensor(y));  // the positions that are there stay
    device_->copy_box(input.tensor(), result.tensor(), box);
    result.to_host(y.data);
  }
  std::unique_ptr<LossOp> loss(const LossSettings& settings, const Shape& output, Index target_channels) override {
    return std::make_unique<HostLoss>(*device_, device_->loss(settings, output, target_channels));
  }
  void append_history(const StepContext& step, ConstSpan value, Span history) override {
    device_->begin(step);
    DeviceFloats from(*device_, value), to(*device_, history);
    device_->append_history(step, from.span(), to.span());
    to.to_host(history);
  }
  void add_sparsity(const StepContext& step, const SparsitySettings& settings, ConstTensor x, Tensor dx) override {
    device_->begin(step);
    DeviceTensor of(*device_, x), to(*device_, ConstTensor(dx));
    device_->add_sparsity(step, settings, of.tensor(), to.tensor());
    to.to_host(dx.data);
  }
  void scale_rows(Span w, Index count, float length) override {
    DeviceFloats copy(*device_, w);
    device_->scale_rows(copy.span(), count, length);
    copy.to_host(w);
  }
  void accumulate(ConstSpan x, Span y) override {
    DeviceFloats from(*device_, x), to(*device_, y);
    device_->accumulate(from.span(), to.span());
    to.to_host(y);
  }
  std::unique_ptr<ClipOp> clip(Index count) override {
    return std::make_unique<HostClip>(*device_, device_->clip(count));
  }
  void sgd(const StepContext& step, Span w, ConstSpan dw, Span velocity) override {
    device_->begin(step);
    DeviceFloats weights(*device_, w), gradient(*device_, dw), v(*device_, velocity);
    device_->sgd(step, weights.span(), gradient.span(), v.span());
    weights.to_host(w);
    v.to_host(velocity);
  }
  void lion(const StepContext& step, Span w, ConstSpan dw, Span m) override {
    device_->begin(step);
    DeviceFloats weights(*device_, w), gradient(*device_, dw), momentum(*device_, m);
    device_->lion(step, weights.span(), gradient.span(), momentum.span());
    weights.to_host(w);
    momentum.to_host(m);
  }
  void lion_directions(const StepContext& step, Span dw, Span m) override {
    device_->begin(step);
    DeviceFloats gradient(*device_, dw), momentum(*device_, m);
    device_->lion_directions(step, gradient.span(), momentum.span());
    gradient.to_host(dw);
    momentum.to_host(m);
  }
  void lion_move(const StepContext& step, Span w, ConstSpan directions) override {
    device_->begin(step);
    DeviceFloats weights(*device_, w), from(*device_, directions);
    device_->lion_move(step, weights.span(), from.span());
    weights.to_host(w);
  }
  void adam(const StepContext& step, std::size_t group, Span w, ConstSpan dw, Span m, Span v) override {
    device_->begin(step);
    DeviceFloats weights(*device_, w), gradient(*device_, dw), first(*device_, m), second(*device_, v);
    device_->adam(step, group, weights.span(), gradient.span(), first.span(), second.span());
    weights.to_host(w);
    first.to_host(m);
    second.to_host(v);
  }

 private:
  std::unique_ptr<Backend> device_, host_;
};

}  // namespace

std::unique_ptr<Backend> make_host_view(std::unique_ptr<Backend> device) {
  return std::make_unique<HostView>(std::move(device));
}

}  // namespace mrmf::test
