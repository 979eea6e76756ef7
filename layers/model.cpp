#include "layers/model.hpp"

#include <algorithm>

#include "layers/layers.hpp"

namespace mrmf {
namespace {

constexpr Index kScalars = 16;  // that travel behind the gradients in one all-reduce

Span part(Span arena, const Place& place) {
  return arena.subspan(static_cast<std::size_t>(place.first), static_cast<std::size_t>(place.count));
}

Index aligned(Index count) { return (count + 15) / 16 * 16; }

// conv, max_pool, relu in a row: the pattern backends offer a fused operation for.
bool is_conv_pool_relu(const std::vector<LayerSpec>& specs, std::size_t i) {
  return i + 2 < specs.size() && specs[i].kind == LayerKind::conv && specs[i + 1].kind == LayerKind::max_pool &&
         specs[i + 2].kind == LayerKind::relu;
}

}  // namespace

Model::Model(Backend& backend, const ModelSettings& settings) : network_(backend, settings.network) {
  plan_units(backend, settings.network, settings.fuse);
  Index cache = 0, activations = 0, widest = 0;
  Place output;
  for (Unit& unit : units_) {
    unit.cache = {cache, unit.run->footprint().cache};
    cache = aligned(unit.cache.end());
    if (!unit.in_place) {
      output = {activations, unit.out.count()};
      activations = aligned(output.end());
    }
    unit.output = output;
    widest = std::max(widest, unit.out.count());
  }
  params_ = backend.allocate(network_.params_size());
  grads_ = backend.allocate(network_.params_size() + kScalars);
  state_ = backend.allocate(network_.state_size());
  cache_ = backend.allocate(cache);
  activations_ = backend.allocate(activations);
  for (Arena& gradient : gradient_) gradient = backend.allocate(widest);
  for (std::size_t i = 0; i < network_.size(); ++i) {
    const Entry& entry = network_.entry(i);
    Rng rng(mix(settings.seed, i));
    entry.layer->initialise(rng, part(params_.span(), entry.params), part(state_.span(), entry.state));
  }
  prepare(max_rows());
}

void Model::plan_units(Backend& backend, const NetworkSettings& settings, bool fuse) {
  bool read_later = false;  // some backward reads the output of the units so far
  for (std::size_t i = 0; i < network_.size();) {
    const Entry& entry = network_.entry(i);
    Unit unit;
    unit.first = i;
    unit.last = i + 1;
    unit.run = entry.layer.get();
    if (fuse && is_conv_pool_relu(settings.layers, i)) {
      if (auto fused = make_conv_pool_relu(backend, entry.input, settings.layers[i], settings.layers[i + 1])) {
        unit.last = i + 3;
        unit.run = fused.get();
        fused_.push_back(std::move(fused));
      }
    }
    unit.out = unit.run->output();
    // The caller owns x, so the first unit may not write over it; nor may a unit over an output still to be read.
    const Footprint footprint = unit.run->footprint();
    unit.in_place = !units_.empty() && (footprint.identity || (footprint.in_place && !read_later));
    read_later = footprint.reads_output || (unit.in_place && footprint.identity && read_later);
    i = unit.last;
    units_.push_back(unit);
  }
}

Group Model::group(std::size_t first, std::size_t last) {
  Group result;
  const auto begin = [&](auto member, Index size) {
    return first < network_.size() ? (network_.entry(first).*member).first : size;
  };
  const auto end = [&](auto member, Index size) {
    return last < network_.size() ? (network_.entry(last).*member).first : size;
  };
  const auto span = [&](Arena& arena, auto member, Index size) {
    const Index from = begin(member, size);
    return part(arena.span(), {from, end(member, size) - from});
  };
  result.params = span(params_, &Entry::params, network_.params_size());
  result.state = span(state_, &Entry::state, network_.state_size());
  for (std::size_t i = first; i < last; ++i)
    result.signatures.push_back(network_.entry(i).name + ": " + network_.entry(i).layer->signature());
  return result;
}

void Model::prepare(Index rows) {
  MRMF_CHECK(rows <= max_rows(), "more rows than the model was built for");
  for (const Unit& unit : units_) unit.run->prepare(rows);
}

Lent Model::lend(const Unit& unit, const Step& step) {
  const Entry& entry = network_.entry(unit.first);
  return {step, part(params_.span(), entry.params), part(grads_.span(), entry.params), part(state_.span(), entry.state),
          part(cache_.span(), unit.cache)};
}

Tensor Model::output_of(const Unit& unit, Index rows) {
  const Shape shape = unit.out.rows(rows);
  return {shape, part(activations_.span(), {unit.output.first, shape.count()})};
}

ConstTensor Model::forward(const Step& step, ConstTensor x) {
  MRMF_CHECK(x.shape.n <= max_rows() && x.shape.per_sample() == network_.input().per_sample(),
             "the batch does not fit the model");
  ConstTensor in = x;
  for (const Unit& unit : units_) {
    const Tensor y = output_of(unit, x.shape.n);
    unit.run->forward(lend(unit, step), in, y);
    in = y;
  }
  return in;
}

Span Model::output_gradient(Index rows) {
  return gradient_[0].span().first(static_cast<std::size_t>(network_.output().rows(rows).count()));
}

void Model::backward(const Step& step, ConstTensor x) {
  const Index rows = x.shape.n;
  std::size_t side = 0;
  for (std::size_t i = units_.size(); i-- > 0;) {
    const Unit& unit = units_[i];
    const ConstTensor in = i > 0 ? ConstTensor(output_of(units_[i - 1], rows)) : x;
    const Tensor y = output_of(unit, rows);
    const ConstTensor dy(y.shape, gradient_[side].span().first(y.data.size()));
    if (!unit.in_place) side = 1 - side;
    Tensor dx{in.shape, {}};
    if (i > 0) dx.data = gradient_[side].span().first(in.data.size());
    unit.run->backward(lend(unit, step), in, y, dy, dx);
  }
}

}  // namespace mrmf
