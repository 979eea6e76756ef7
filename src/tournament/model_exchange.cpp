#include "src/tournament/model_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/errors.hpp"
#include "layers/network.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;  // floats: a megabyte

// A layer with another's weights travels with that one: its own would be written over.
void require_owner(const std::string& name, const LayerSpec& layer, const Network& network) {
  if (layer.weights_of.empty()) return;
  for (const LayerEntry& entry : network.entries())
    if (entry.spec.name == layer.weights_of && names_layer(name, entry.spec)) return;
  throw ConfigError(
      fmt::format("tournament.exchange names \"{}\", and {} has the weights of {}; name that layer: who has its "
                  "weights goes with it",
                  name, layer.name, layer.weights_of));
}

std::vector<bool> layers_of(const std::vector<std::string>& names, const Network& network) {
  std::vector<bool> travels(network.size(), names.empty());
  for (const std::string& name : names) {
    bool found = false;
    for (std::size_t i = 0; i < network.size(); ++i) {
      const LayerSpec& spec = network.entry(i).spec;
      if (!names_layer(name, spec)) continue;
      require_owner(name, spec, network);
      travels[i] = found = true;
    }
    if (!found)
      throw ConfigError("tournament.exchange names \"" + name +
                        "\", which stands for no layer of the model; the layers are listed by mrmf inspect");
  }
  return travels;
}

void add(std::vector<ArenaSpan>& spans, const ArenaSpan& span) {
  if (span.count == 0) return;
  if (!spans.empty() && spans.back().end() == span.first)
    spans.back().count += span.count;
  else
    spans.push_back(span);
}

// Calls visit(first, part) for the parts of the spans that hold floats [first, first + count).
template <class Visit>
void for_each_part(const std::vector<Span>& spans, std::size_t first, std::size_t count, const Visit& visit) {
  std::size_t begin = 0;
  for (const Span span : spans) {
    const std::size_t from = std::max(first, begin), to = std::min(first + count, begin + span.size());
    if (from < to) visit(from - first, span.subspan(from - begin, to - from));
    begin += span.size();
  }
}

}  // namespace

void require_layers(const std::vector<std::string>& names, const Network& network) { layers_of(names, network); }

ExchangedTensors::ExchangedTensors(ModelState& model_state, const std::vector<std::string>& names)
    : model_state_(model_state) {
  Model& model = model_state.model;
  const Network& network = model.network();
  const std::vector<bool> travels = layers_of(names, network);
  if (names.empty()) {
    params_ = {{0, std::ssize(model.params())}};
    state_ = {{0, std::ssize(model.state())}};
    bottom_ = top_ = true;
    return;
  }
  bottom_ = top_ = true;
  for (std::size_t i = 0; i < network.size(); ++i) {
    const ArenaSpan& own = model.layout().params_of(i);
    if (travels[i]) {
      add(params_, own);
      add(state_, network.entry(i).state);
    } else if (own.count > 0) {
      (network.entry(i).top ? top_ : bottom_) = false;
    }
  }
}

std::vector<Span> ExchangedTensors::model() const {
  std::vector<Span> spans;
  for (const ArenaSpan& span : params_) spans.push_back(span_at(model_state_.model.params(), span));
  for (const ArenaSpan& span : state_) spans.push_back(span_at(model_state_.model.state(), span));
  return spans;
}

std::vector<Span> ExchangedTensors::moments() const {
  std::vector<Span> spans;
  for (const Span all : model_state_.optimizer.moments())
    for (const ArenaSpan& span : params_) spans.push_back(span_at(all, span));
  return spans;
}

MomentAges ExchangedTensors::ages(const MomentAges& own, const MomentAges& visitor) const {
  return {bottom_ ? visitor.bottom : own.bottom, top_ ? visitor.top : own.top};
}

std::size_t floats_of(const std::vector<Span>& spans) {
  std::size_t count = 0;
  for (const Span span : spans) count += span.size();
  return count;
}

void Route::send(Backend& backend, const std::vector<Span>& from, const std::vector<bool>& gives,
                 const Arrived& arrived) {
  const std::size_t all = floats_of(from), most = std::min(all, kPiece);
  std::vector<std::vector<float>> pieces(roots_.size());
  for (std::size_t s = 0; s < roots_.size(); ++s)
    if (gives[s]) pieces[s].resize(most);
  for (std::size_t first = 0; first < all; first += kPiece) {
    const std::size_t count = std::min(kPiece, all - first);
    for (std::size_t s = 0; s < roots_.size(); ++s) {
      if (!gives[s]) continue;
      const Span piece = Span(pieces[s]).first(count);
      if (ranks_.rank() == roots_[s])
        for_each_part(from, first, count,
                      [&](std::size_t at, Span part) { backend.read(part, piece.subspan(at, part.size())); });
      ranks_.broadcast(piece, roots_[s]);
    }
    for (std::size_t s = 0; s < roots_.size(); ++s)
      if (gives[s] && static_cast<int>(s) != mine_) arrived(first, Span(pieces[s]).first(count));
  }
}

std::vector<std::vector<std::int64_t>> Route::tell(const std::vector<std::int64_t>& mine) {
  std::vector<std::vector<std::int64_t>> all(roots_.size(), mine);
  for (std::size_t s = 0; s < roots_.size(); ++s) ranks_.broadcast(all[s], roots_[s]);
  return all;
}

void write_to(Backend& backend, const std::vector<Span>& spans, std::size_t first, ConstSpan values) {
  for_each_part(spans, first, values.size(),
                [&](std::size_t at, Span part) { backend.write(values.subspan(at, part.size()), part); });
}

void swap_with(Backend& backend, const std::vector<Span>& spans, std::vector<float>& values) {
  std::vector<float> own;
  std::size_t at = 0;
  for (const Span span : spans)
    for_each_chunk(span, kPiece, [&](Span part) {
      const Span stored = Span(values).subspan(at, part.size());
      own.resize(part.size());
      backend.read(part, own);
      backend.write(stored, part);
      std::ranges::copy(own, stored.begin());
      at += part.size();
    });
}

}  // namespace mrmf
