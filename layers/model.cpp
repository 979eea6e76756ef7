#include "layers/model.hpp"

#include <algorithm>

namespace mrmf {

Model::Model(Backend& backend, const ModelSettings& settings, Span params)
    : backend_(&backend),
      reference_backend_(settings.grid.ranks() > 1 ? make_reference_backend() : nullptr),
      network_(reference_backend_ ? *reference_backend_ : backend, settings.network),
      execution_(build_execution(backend, network_, settings)),
      weights_of_others_(weight_copies(network_)),
      params_at_(params) {
  constexpr int moments = 2;  // Adam's; SGD needs one less
  backend.require_memory(execution_.floats(network_, moments),
                         "training at a batch of " + std::to_string(max_rows()) + " per rank");
  const auto allocate = [&](Index count) {
    return settings.shared ? backend.allocate_shared(count) : backend.allocate(count);
  };
  if (params.empty()) {
    params_ = allocate(layout().size());
    params_at_ = params_.span();
  }
  grads_ = allocate(layout().gradients() + kReducedScalars);
  state_ = backend.allocate(network_.state_size());
  cache_ = backend.allocate(execution_.cache);
  activations_ = backend.allocate(execution_.activations);
  std::size_t inputs = 0;
  for (const Unit& unit : execution_.units) inputs = std::max(inputs, unit.reads.size());
  x_.reserve(inputs), dx_.reserve(inputs);
  static_assert(kMostTerms + 1 <= kReducedScalars);
  if (has_terms()) live_ = live_units(execution_, network_);
  if (params.empty()) initialise(settings.seed);
  prepare(max_rows());
}

void Model::initialise(std::uint64_t seed) {
  std::vector<float> state(state_.size());
  for (std::size_t i = 0; i < network_.size(); ++i) {
    const LayerEntry& entry = network_.entry(i);
    Rng rng(mix(seed, i));
    const Span own = span_at(params_.span(), layout().params_of(i)), own_state = span_at(state, entry.state);
    const bool direct = backend_->synchronous() && layout().partitioned(i) == nullptr;  // a copy might not fit
    std::vector<float> whole(direct ? 0 : static_cast<std::size_t>(entry.params.count)), part(direct ? 0 : own.size());
    entry.layer->initialise(rng, direct ? own : Span(whole), own_state);
    if (!direct) layout().take(i, whole, part), backend_->write(part, own);
  }
  backend_->write(state, state_.span());
  copy_weights(Copied::all);
}

std::vector<LayerGroup> Model::groups(bool top) {
  std::vector<LayerGroup> result;
  for (std::size_t first = 0, last = 0; first < network_.size(); first = last) {
    const bool here = network_.entry(first).top;
    while (last < network_.size() && network_.entry(last).top == here) ++last;
    if (here == top) result.push_back(group(first, last));
  }
  return result;
}

LayerGroup Model::group(std::size_t first, std::size_t last) {
  LayerGroup result;
  const auto span = [&](Span arena, const auto& span_of) {
    const auto begin = [&](std::size_t i) { return i < network_.size() ? span_of(i).first : std::ssize(arena); };
    return span_at(arena, {begin(first), begin(last) - begin(first)});
  };
  result.params = span(params_at_, [&](std::size_t i) { return layout().params_of(i); });
  result.state = span(state_.span(), [&](std::size_t i) { return network_.entry(i).state; });
  return result;
}

void Model::prepare(Index rows) {
  MRMF_CHECK(rows <= max_rows(), "more rows than the model was built for");
  for (const Unit& unit : execution_.units) unit.layer->prepare(rows);
}

bool Model::constrains() const {
  return !weights_of_others_.empty() ||
         std::ranges::any_of(execution_.units, [](const Unit& unit) { return unit.layer->constrains(); });
}

void Model::constrain(std::uint64_t updates) {
  for (const Unit& unit : execution_.units)
    if (unit.layer->constrains()) unit.layer->constrain(span_at(params_at_, layout().params_of(unit.first)));
  copy_weights_after(*backend_, weights_of_others_, params_at_, updates);
}

LayerBuffers Model::buffers_of(const Unit& unit, const StepContext& step) {
  const auto unit_span = [&](const auto& span_of) {  // from the first layer to the last that has any
    if (unit.first == unit.last) return ArenaSpan{};
    ArenaSpan whole = span_of(unit.first);
    for (std::size_t i = unit.first + 1; i < unit.last; ++i)
      if (const ArenaSpan next = span_of(i); next.count > 0) whole.count = next.end() - whole.first;
    return whole;
  };
  const ArenaSpan params = unit_span([&](std::size_t i) { return layout().params_of(i); });
  const ArenaSpan state = unit_span([&](std::size_t i) { return network_.entry(i).state; });
  const ArenaSpan grads = unit_span([&](std::size_t i) { return layout().gradients_of(i); });
  const bool in_place = !unit.is_halo_exchange() && layout().in_place(unit.first);
  const Span updated = in_place ? span_at(params_at_, params) : Span{};
  const Span velocity = in_place && !velocity_.empty() ? span_at(velocity_, params) : Span{};
  const bool copies = unit.replicated && step.halo_messages != nullptr;
  if (copies) copies_ = step, copies_.team_sum = step.same_block_sum, copies_.sample_sum = nullptr;
  return {copies ? copies_ : step,
          span_at(params_at_, params),
          span_at(grads_.span(), grads),
          span_at(state_.span(), state),
          span_at(cache_.span(), unit.cache),
          span_at(params_at_, unit.bias),
          updated,
          velocity};
}

LayerBuffers Model::buffers_of(const Unit& unit, const StepContext& step, ConstTensor x) {
  LayerBuffers buffers = buffers_of(unit, step);
  if (!unit.shortcut) return buffers;
  buffers.shortcut = input_of(unit, 1, x);
  buffers.dshortcut = gradient_of(unit, 1, x);
  return buffers;
}

Tensor Model::activation(const ArenaSpan& span, const Shape& shape) {
  const Index floats = span.pitch == 0 ? backend_->activation_floats(shape)
                                       : (shape.n * product(shape.spatial) - 1) * span.pitch + shape.channels;
  return {shape, span_at(activations_.span(), {span.first, floats}), span.pitch};
}

Tensor Model::output_of(const Unit& unit, Index rows) {
  return activation(unit.memory.output, unit.out.with_rows(rows));
}

ConstTensor Model::input_of(const Unit& unit, std::size_t i, ConstTensor x) {
  const std::size_t number = unit.reads[i];
  return number == 0 ? x : ConstTensor(output_of(execution_.units[number - 1], x.shape.n));
}

ConstTensor Model::forward(const StepContext& step, ConstTensor x) {
  MRMF_CHECK(x.shape.n <= max_rows() && x.shape.per_sample() == execution_.input.per_sample(),
             "the batch does not fit the model");
  const std::vector<Unit>& units = execution_.units;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!computes(u, step, &LiveUnits::forward)) continue;
    if (!units[u].overlaps_next) {
      forward(units[u], step, x);
      continue;
    }
    const Unit &exchange = units[u], &reader = units[++u];
    call(&Layer::begin_forward, exchange, step, x);
    call(&Layer::begin_forward, reader, step, x);
    call(&Layer::end_forward, exchange, step, x);
    call(&Layer::end_forward, reader, step, x);
  }
  return output(x.shape.n);
}

void Model::call(Forward half, const Unit& unit, const StepContext& step, ConstTensor x) {
  (unit.layer->*half)(buffers_of(unit, step, x), input_of(unit, 0, x), output_of(unit, x.shape.n));
}

ConstTensor Model::forward(const Unit& unit, const StepContext& step, ConstTensor x) {
  const Tensor y = output_of(unit, x.shape.n);
  x_.clear();
  for (std::size_t i = 0; i < unit.reads.size(); ++i) x_.push_back(input_of(unit, i, x));
  if (unit.join != nullptr)
    unit.join->join(x_, y);
  else
    unit.layer->forward(buffers_of(unit, step, x), x_[0], y);
  return y;
}

Span Model::output_gradient(Index rows) {
  const Unit& last = execution_.units.back();
  return activation(last.memory.dy, last.out.with_rows(rows)).data;
}

void Model::backward(const StepContext& step, ConstTensor x, const GradientSums& sums) {
  if (has_terms()) return backward_from_terms(step, x, sums);
  auto open = static_cast<Index>(grads_.size());  // gradients from here on are already being summed
  // Ranks have different numbers of row-parallel weights, and all must begin the same sums.
  const auto floats = [&](Index first) {
    Index count = open - first;
    for (const ArenaSpan& cut : layout().partitioned_gradients())
      if (cut.first >= first && cut.end() <= open) count -= cut.count;
    return count;
  };
  for (std::size_t i = execution_.units.size(); i-- > 0;) {
    if (i > 0 && execution_.units[i - 1].overlaps_next) {
      backward_overlapped(execution_.units[i - 1], execution_.units[i], step, x);
      --i;
    } else {
      backward(execution_.units[i], step, x);
    }
    const Unit& unit = execution_.units[i];
    Index ready = 0;
    if (i > 0) ready = unit.first < network_.size() ? layout().gradients_of(unit.first).first : open;
    if (sums.all_reduce != nullptr && (i == 0 || floats(ready) >= sums.bucket)) {
      start_sums(sums, ready, open);
      open = ready;
    }
  }
  if (sums.all_reduce != nullptr) sums.all_reduce->finish();
  if (sums.same_block != nullptr) sums.same_block->finish();
}

void Model::start_sums(const GradientSums& sums, Index first, Index end) {
  const auto start = [&](AllReduce* all_reduce, const ArenaSpan& span) {
    if (span.count == 0) return;
    if (sums.update != nullptr) return start_update(sums, all_reduce, span);
    if (all_reduce != nullptr) all_reduce->start(span_at(grads_.span(), span));
  };
  for (const ArenaSpan& cut : layout().partitioned_gradients()) {
    if (cut.first < first || cut.end() > end) continue;
    start(sums.all_reduce, {first, cut.first - first});
    start(sums.same_block, cut);
    first = cut.end();
  }
  start(sums.all_reduce, {first, end - first});
}

// Backward is done with these weights, so it does not matter how soon they change.
void Model::start_update(const GradientSums& sums, AllReduce* all_reduce, const ArenaSpan& span) {
  MRMF_CHECK(layout().gradients() == layout().size(), "updates in pieces beside those in place");
  const Index end = std::min(span.end(), std::ssize(params_at_));
  const ArenaSpan updated{span.first, end - span.first};
  if (all_reduce == nullptr) return (*sums.update)(updated, updated);
  if (span.end() > end) all_reduce->start(span_at(grads_.span(), {end, span.end() - end}));
  if (updated.count == 0) return;
  all_reduce->start_update(span_at(grads_.span(), updated), span_at(params_at_, updated),
                           [update = sums.update, updated](Index first, Index count) {
                             (*update)(updated, {updated.first + first, count});
                           });
}

void Model::all_reduce_gradients(const GradientSums& sums) {
  start_sums(sums, 0, std::ssize(grads_.span()));
  if (sums.all_reduce != nullptr) sums.all_reduce->finish();
  if (sums.same_block != nullptr) sums.same_block->finish();
}

void Model::backward(const Unit& unit, const StepContext& step, ConstTensor x) {
  if (unit.terms != nullptr) {
    run_terms(unit, step, x);
  } else if (unit.join != nullptr) {
    dx_.clear();
    for (std::size_t i = 0; i < unit.reads.size(); ++i) dx_.push_back(gradient_of(unit, i, x));
    unit.join->join_backward(activation(unit.memory.dy, unit.out.with_rows(x.shape.n)), dx_);
  } else {
    call(&Layer::backward, unit, step, x);
  }
  add_up(unit, x);
}

void Model::backward_overlapped(const Unit& exchange, const Unit& reader, const StepContext& step, ConstTensor x) {
  call(&Layer::begin_backward, reader, step, x);
  add_up(reader, x);
  call(&Layer::begin_backward, exchange, step, x);
  call(&Layer::end_backward, reader, step, x);
  call(&Layer::end_backward, exchange, step, x);
  add_up(exchange, x);
}

void Model::call(Backward half, const Unit& unit, const StepContext& step, ConstTensor x) {
  const Tensor y = output_of(unit, x.shape.n);
  (unit.layer->*half)(buffers_of(unit, step, x), input_of(unit, 0, x), y, activation(unit.memory.dy, y.shape),
                      gradient_of(unit, 0, x));
}

/// Where the unit puts the gradient of input i.
Tensor Model::gradient_of(const Unit& unit, std::size_t i, ConstTensor x) {
  const Shape shape = input_of(unit, i, x).shape;
  return unit.reads[i] == 0 ? Tensor{shape, {}} : activation(unit.memory.dx[i].dx, shape);
}

void Model::add_up(const Unit& unit, ConstTensor x) {
  for (std::size_t i = 0; i < unit.reads.size(); ++i)
    if (const InputGradient& to = unit.memory.dx[i]; to.before.count > 0) {
      const Tensor dx = gradient_of(unit, i, x);
      backend_->add(activation(to.before, dx.shape), dx, activation(to.sum, dx.shape));
    }
}

bool drops(const Network& network) {
  const std::vector<bool> serves = network.serving();
  for (std::size_t i = 0; i < network.size(); ++i)
    if (serves[i] && network.entry(i).kind == LayerKind::dropout && network.entry(i).spec.rate > 0) return true;
  return false;
}

ConstTensor forward_with_dropout(Model& model, const StepContext& step, ConstTensor x) {
  StepContext evaluation = step, training = step;
  evaluation.training = false;
  training.training = true;
  const std::vector<Unit>& units = model.units();
  for (std::size_t u = 0; u < units.size(); ++u) {  // dropout is never a part of a fused unit
    if (!model.computes(u, evaluation, &LiveUnits::forward)) continue;
    const std::size_t first = units[u].first;
    const bool dropout = first < model.network().size() && model.network().entry(first).kind == LayerKind::dropout;
    model.forward(units[u], dropout ? training : evaluation, x);
  }
  return model.output(x.shape.n);
}

NetworkSettings serving_network(const Network& whole, NetworkSettings settings) {
  const std::vector<bool> serves = whole.serving();
  settings.layers.clear();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!serves[i]) continue;
    LayerSpec spec = whole.entry(i).spec;
    spec.weights_of.clear();
    spec.every = 0;
    spec.from.clear();
    if (!is_source(spec.kind))
      for (const std::size_t number : whole.wiring()[i])
        spec.from.push_back(number == 0 ? std::string(kInput) : whole.entry(number - 1).name);
    settings.layers.push_back(std::move(spec));
  }
  settings.parts = {};
  settings.bottom = {};
  return settings;
}

void copy_layers(Backend& backend, const Model& from, Model& to) {
  const auto copy = [&](ConstSpan values, Span there) {
    std::vector<float> host(values.size());
    backend.read(values, host);
    backend.write(host, there);
  };
  const auto part = [](ConstSpan arena, const ArenaSpan& span) {
    return arena.subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count));
  };
  for (const LayerEntry& entry : to.network().entries()) {
    const std::vector<LayerEntry>& all = from.network().entries();
    const auto source = std::ranges::find_if(all, [&](const LayerEntry& one) { return one.name == entry.name; });
    MRMF_CHECK(source != all.end(), "a layer that the other model has not");
    copy(part(from.params(), source->params), span_at(to.params(), entry.params));
    copy(part(from.state(), source->state), span_at(to.state(), entry.state));
  }
}

}  // namespace mrmf
