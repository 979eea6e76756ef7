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

}  // namespace mrmf
