#include "layers/model.hpp"

namespace mrmf {

Model::Model(Backend& backend, const ModelSettings& settings, Span params)
    : backend_(&backend),
      network_(backend, settings.network),
      execution_(plan_execution(backend, network_, settings)),
      params_at_(params) {
  constexpr int moments = 2;  // Adam's; SGD needs one less
  backend.require_memory(execution_.floats(network_, moments),
                         "training at a batch of " + std::to_string(max_rows()) + " per rank");
  if (params.empty()) {
    params_ = backend.allocate(network_.params_size());
    params_at_ = params_.span();
  }
  grads_ = backend.allocate(network_.params_size() + kReducedScalars);
  state_ = backend.allocate(network_.state_size());
  cache_ = backend.allocate(execution_.cache);
  activations_ = backend.allocate(execution_.activations);
  for (Arena& gradient : gradient_) gradient = backend.allocate(execution_.widest);
  if (params.empty()) initialise(settings.seed);
  prepare(max_rows());
}

void Model::initialise(std::uint64_t seed) {
  std::vector<float> params(params_.size()), state(state_.size());
  for (std::size_t i = 0; i < network_.size(); ++i) {
    const Entry& entry = network_.entry(i);
    Rng rng(mix(seed, i));
    entry.layer->initialise(rng, part(params, entry.params), part(state, entry.state));
  }
  backend_->write(params, params_.span());
  backend_->write(state, state_.span());
}

Group Model::group(std::size_t first, std::size_t last) {
  Group result;
  const auto begin = [&](auto member, Index size) {
    return first < network_.size() ? (network_.entry(first).*member).first : size;
  };
  const auto end = [&](auto member, Index size) {
    return last < network_.size() ? (network_.entry(last).*member).first : size;
  };
  const auto span = [&](Span arena, auto member, Index size) {
    const Index from = begin(member, size);
    return part(arena, {from, end(member, size) - from});
  };
  result.params = span(params_at_, &Entry::params, network_.params_size());
  result.state = span(state_.span(), &Entry::state, network_.state_size());
  for (std::size_t i = first; i < last; ++i)
    result.signatures.push_back(network_.entry(i).name + ": " + network_.entry(i).layer->signature());
  return result;
}

void Model::prepare(Index rows) {
  MRMF_CHECK(rows <= max_rows(), "more rows than the model was built for");
  for (const Unit& unit : execution_.units) unit.run->prepare(rows);
}

LayerBuffers Model::buffers_of(const Unit& unit, const Step& step) {
  const auto place = [&](auto member) {  // from the first layer to the last that has any
    Place whole = network_.entry(unit.first).*member;
    for (std::size_t i = unit.first + 1; i < unit.last; ++i)
      if (const Place& next = network_.entry(i).*member; next.count > 0) whole.count = next.end() - whole.first;
    return whole;
  };
  const Place params = place(&Entry::params), state = place(&Entry::state);
  return {step, part(params_at_, params), part(grads_.span(), params), part(state_.span(), state),
          part(cache_.span(), unit.cache)};
}

Tensor Model::output_of(const Unit& unit, Index rows) {
  const Shape shape = unit.out.rows(rows);
  return {shape, part(activations_.span(), {unit.output.first, backend_->activation_floats(shape)})};
}

Span Model::activation(Span arena, const Shape& shape) const {
  return arena.first(static_cast<std::size_t>(backend_->activation_floats(shape)));
}

ConstTensor Model::forward(const Step& step, ConstTensor x) {
  MRMF_CHECK(x.shape.n <= max_rows() && x.shape.per_sample() == network_.input().per_sample(),
             "the batch does not fit the model");
  ConstTensor in = x;
  for (const Unit& unit : execution_.units) {
    const Tensor y = output_of(unit, x.shape.n);
    unit.run->forward(buffers_of(unit, step), in, y);
    in = y;
  }
  return in;
}

Span Model::output_gradient(Index rows) { return activation(gradient_[0].span(), network_.output().rows(rows)); }

void Model::backward(const Step& step, ConstTensor x, const GradientSums& sums) {
  auto open = static_cast<Index>(grads_.size());  // gradients from here on are already being summed
  const Index rows = x.shape.n;
  std::size_t side = 0;
  for (std::size_t i = execution_.units.size(); i-- > 0;) {
    const Unit& unit = execution_.units[i];
    const ConstTensor in = i > 0 ? ConstTensor(output_of(execution_.units[i - 1], rows)) : x;
    const Tensor y = output_of(unit, rows);
    const ConstTensor dy(y.shape, activation(gradient_[side].span(), y.shape));
    if (!unit.in_place) side = 1 - side;
    Tensor dx{in.shape, {}};
    if (i > 0) dx.data = activation(gradient_[side].span(), in.shape);
    unit.run->backward(buffers_of(unit, step), in, y, dy, dx);
    const Index ready = i > 0 ? network_.entry(unit.first).params.first : 0;
    if (sums.ranks != nullptr && (i == 0 || open - ready >= sums.bucket)) {
      sums.ranks->start(part(grads_.span(), {ready, open - ready}));
      open = ready;
    }
  }
  if (sums.ranks != nullptr) sums.ranks->finish();
}

}  // namespace mrmf
