#include "layers/partition.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "layers/geometry_and_reach.hpp"

namespace mrmf {
namespace {

std::vector<Interval> whole_axis(Index positions, Index blocks) {
  return {static_cast<std::size_t>(blocks), Interval{0, positions}};
}

BlockPositions whole_cut(const Extent& spatial, const Grid& grid) {
  BlockPositions cut;
  for (std::size_t a = 0; a < 3; ++a) cut.axes[a] = whole_axis(spatial[a], grid.blocks[a]);
  return cut;
}

std::vector<Interval> even_pieces(Index positions, Index blocks) {
  std::vector<Interval> pieces;
  for (Index b = 0; b < blocks; ++b) {
    const Index first = positions * b / blocks, end = positions * (b + 1) / blocks;
    pieces.push_back({first, end - first});
  }
  return pieces;
}

/// The box as positions of another, which has it.
Box relative(Box box, const Box& in) {
  MRMF_CHECK(contains(in, box), "positions that are not there");
  for (std::size_t a = 0; a < 3; ++a) box.first[a] -= in.first[a];
  return box;
}

// The cuts of an axis of `positions` where those of its input are mapped to it.
template <class Map>
std::vector<Interval> mapped_pieces(const std::vector<Interval>& from, Index positions, const Map& map) {
  std::vector<Interval> pieces;
  Index first = 0;
  for (std::size_t b = 0; b < from.size(); ++b) {
    const Index end = b + 1 == from.size() ? positions : std::clamp<Index>(map(from[b].end()), 0, positions);
    pieces.push_back({first, end - first});
    first = end;
  }
  return pieces;
}

// A cut of the output: the first whose window has its middle at or behind the cut.
std::vector<Interval> window_pieces(const std::vector<Interval>& in, const AxisWindow& w, Index out) {
  return mapped_pieces(in, out, [&](Index cut) { return ceil_div(2 * (cut + w.before) - w.reach + 1, 2 * w.stride); });
}

/// What windows need of an axis of `in` positions, and the zeros that they see at its ends.
void window_needs(const std::vector<Interval>& out, const AxisWindow& w, Index in, std::vector<Interval>& needs,
                  std::vector<Interval>& pads) {
  for (const Interval& piece : out) {
    const Index first = piece.first * w.stride - w.before, end = (piece.end() - 1) * w.stride - w.before + w.reach;
    const Index from = std::max<Index>(first, 0), to = std::min(end, in);
    needs.push_back({from, to - from});
    pads.push_back({from - first, end - to});
  }
}

AxisWindow window_of(const ConvGeometry& g, std::size_t a) { return {g.reach()[a], g.stride[a], g.pad_before[a]}; }

bool is_window(const LayerSpec& spec) {
  return spec.kind == LayerKind::conv || output_has_fields(spec) || is_pool(spec.kind);
}

// Layers of which each output position follows from the input's alone. Norms are among them: their statistics are
// summed over the ranks.
bool keeps_positions(LayerKind kind) { return is_elementwise(kind) || is_norm(kind); }

void place_window(const LayerEntry& entry, const BlockPositions& in, LayerPlacement& layer) {
  const bool conv = !is_pool(entry.kind);
  const ConvGeometry g = conv ? conv_geometry(entry.input, entry.spec) : ConvGeometry{};
  const PoolGeometry pool = conv ? PoolGeometry{} : pool_geometry(entry.input, entry.spec);
  BlockPositions needs;
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisWindow w = conv ? window_of(g, a) : AxisWindow{pool.window[a], pool.stride[a], 0};
    layer.output.owned.axes[a] = window_pieces(in.axes[a], w, entry.output().spatial[a]);
    window_needs(layer.output.owned.axes[a], w, entry.input.spatial[a], needs.axes[a], layer.pads[a]);
  }
  layer.output.stored = layer.output.owned;
  layer.needs = {needs};
  if (output_has_fields(entry.spec)) layer.fields = layer.output.owned;
}

/// Why a grid does not fit a network, and the axis that has too many blocks.
struct Misfit {
  std::string message;
  std::size_t axis;
};

/// The axis as a message names it: counted from 0, the first of the sample's.
std::string axis_text(std::size_t axis, int axes) { return fmt::format("axis {}", static_cast<int>(axis) + axes - 3); }

// Each input position adds to the outputs of its window. A block makes all outputs that its inputs add to, of which
// those at the cuts lack the neighbours' part: it needs the inputs of all that add to what it owns.
void place_transposed(const LayerEntry& entry, const BlockPositions& in, LayerPlacement& layer) {
  const ConvGeometry g = conv_transpose_geometry(entry.input, entry.spec);
  BlockPositions needs;
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisWindow w = window_of(g, a);
    const Index positions = entry.input.spatial[a], out = g.in[a];
    auto& owned = layer.output.owned.axes[a];
    owned = mapped_pieces(in.axes[a], out, [&](Index cut) {
      return cut * w.stride - w.before + std::max<Index>(0, floor_div(w.reach - w.stride, 2));
    });
    if (w.stride > w.reach && owned.size() > 1)
      throw Misfit{fmt::format("{}: its stride is larger than its window along {}, so run.grid cannot cut that axis",
                               entry.name, axis_text(a, entry.input.axes)),
                   a};
    for (const Interval& piece : owned) {
      const Index first = std::max<Index>(0, ceil_div(piece.first + w.before - w.reach + 1, w.stride));
      const Index end = std::min(positions, floor_div(piece.end() - 1 + w.before, w.stride) + 1);
      const Index made = first * w.stride - w.before, made_end = (end - 1) * w.stride - w.before + w.reach;
      const Index from = std::max<Index>(made, 0), to = std::min(made_end, out);
      needs.axes[a].push_back({first, end - first});
      layer.output.stored.axes[a].push_back({from, to - from});
      layer.pads[a].push_back({from - made, made_end - to});
    }
  }
  layer.needs = {needs};
}

// Features are where the middle of their field is. The output is the input put together again, so it has its positions.
void place_rica(const LayerEntry& entry, const BlockPositions& in, const Grid& grid, LayerPlacement& layer) {
  const ConvGeometry g = locally_connected_geometry(entry.input, entry.spec);
  BlockPositions needs;
  std::array<std::vector<Interval>, 3> no_pads;
  for (std::size_t a = 0; a < 3; ++a) {
    const AxisWindow w = window_of(g, a);
    layer.fields.axes[a] = window_pieces(in.axes[a], w, g.out()[a]);
    const auto empty = [](const Interval& piece) { return piece.count < 1; };
    if (std::ranges::any_of(layer.fields.axes[a], empty))
      throw Misfit{fmt::format("{}: run.grid = {} cuts {} positions of its features along {} into {} blocks, and one "
                               "of them would have none",
                               entry.name, grid.text(entry.input.axes), g.out()[a], axis_text(a, entry.input.axes),
                               grid.blocks[a]),
                   a};
    window_needs(layer.fields.axes[a], w, entry.input.spatial[a], needs.axes[a], no_pads[a]);
  }
  layer.needs = {needs};
  layer.output = {in, in};
}

// A window around each position of the windows around the output's.
void place_contrast(const LayerEntry& entry, const BlockPositions& in, LayerPlacement& layer) {
  BlockPositions needs;
  for (std::size_t a = 0; a < 3; ++a)
    for (const Interval& piece : in.axes[a]) {
      const Index reach = contrast_reach(entry.spec, a), first = std::max<Index>(0, piece.first - reach);
      needs.axes[a].push_back({first, std::min(entry.input.spatial[a], piece.end() + reach) - first});
    }
  layer.needs = {needs};
  layer.output = {in, in};
}

void place_upsampled(const LayerEntry& entry, const BlockPositions& in, LayerPlacement& layer) {
  const UpsampleGeometry g = upsample_geometry(entry.input, entry.spec);
  BlockPositions needs;
  for (std::size_t a = 0; a < 3; ++a) {
    const Index factor = g.factor[a], margin = g.kind == UpsampleKind::linear && factor > 1 ? 1 : 0;
    for (const Interval& piece : in.axes[a]) {
      const Index first = std::max<Index>(0, piece.first - margin);
      const Index end = std::min(entry.input.spatial[a], piece.end() + margin);
      needs.axes[a].push_back({first, end - first});
      layer.output.owned.axes[a].push_back({piece.first * factor, piece.count * factor});
      layer.output.stored.axes[a].push_back({first * factor, (end - first) * factor});
    }
  }
  layer.needs = {needs};
}

/// Along one axis: what each block holds for a batch norm of the input and for the windows behind it, and what of that
/// its statistics are of.
struct Margins {
  std::vector<Interval> held, counted;
};

// Windows may leave positions unread, and each position is to be counted once, by a block that holds it. A block holds
// what it needs, and what follows as far as it counts. So the cuts between what blocks count move from those of what
// they own, as little as that takes: a block counts no position in front of the first that it needs, and the one before
// it no more than up to there, or up to the end of its own needs.
Margins margins(const std::vector<Interval>& owned, const std::vector<Interval>& needs) {
  Margins result;
  Index first = 0;
  for (std::size_t b = 0; b < owned.size(); ++b) {
    Index end = owned[b].end();
    if (b + 1 < owned.size()) {
      const Index next = needs[b + 1].first;
      end = std::clamp(end, next, std::max(needs[b].end(), next));
    }
    result.counted.push_back({first, end - first});
    result.held.push_back({needs[b].first, std::max(needs[b].end(), end) - needs[b].first});
    first = end;
  }
  return result;
}

bool lies_in(const Interval& part, const Interval& all) { return part.first >= all.first && part.end() <= all.end(); }

void check_axis(const Placement& there, bool is_input, Index positions, std::size_t axis) {
  const Interval all{0, positions};
  Index end = 0;
  for (std::size_t b = 0; b < there.owned.axes[axis].size(); ++b) {
    const Interval &owned = there.owned.axes[axis][b], &made = there.stored.axes[axis].at(b);
    MRMF_CHECK(there.whole ? owned == all : owned.first == end, "a position with no owner, or with two");
    MRMF_CHECK(lies_in(made, all), "positions outside of the sample");
    MRMF_CHECK(is_input || lies_in(owned, made), "a block owns positions that it has not made");
    end = owned.end();
  }
  MRMF_CHECK(end == positions, "a position with no owner");
}

bool has_empty_piece(const BlockPositions& cut) {
  return std::ranges::any_of(cut.axes, [](const std::vector<Interval>& pieces) {
    return std::ranges::any_of(pieces, [](const Interval& piece) { return piece.count < 1; });
  });
}

[[noreturn]] void refuse_pieces(const LayerEntry& entry, const Grid& grid, const BlockPositions& cut) {
  std::size_t a = 0;
  const auto empty = [](const Interval& piece) { return piece.count < 1; };
  while (std::ranges::none_of(cut.axes.at(a), empty)) ++a;
  throw Misfit{fmt::format("{}: run.grid = {} cuts {} positions of its output along {} into {} blocks, and one of them "
                           "would have none",
                           entry.name, grid.text(entry.output().axes), entry.output().spatial[a],
                           axis_text(a, entry.output().axes), grid.blocks[a]),
               a};
}

}  // namespace

Extent Grid::coordinates(int rank) const {
  const Index r = rank;
  return {r / (blocks[2] * blocks[1]), r / blocks[2] % blocks[1], r % blocks[2]};
}

Box BlockPositions::block(const Extent& coordinates) const {
  Box box;
  for (std::size_t a = 0; a < 3; ++a) {
    const Interval& piece = axes[a].at(static_cast<std::size_t>(coordinates[a]));
    box.first[a] = piece.first;
    box.count[a] = piece.count;
  }
  return box;
}

std::string Grid::text(int axes) const {
  std::size_t first = 0;
  while (first < 2 && static_cast<int>(first) + axes < 3 && blocks[first] == 1) ++first;
  return fmt::format("[{}]", fmt::join(blocks.begin() + first, blocks.end(), ", "));
}

Partition::Partition(const Network& network, const Grid& grid) : network_(&network), grid_(grid) {
  std::string refusal;
  for (bool fits = false; !fits;) try {
      build();
      fits = true;
    } catch (const Misfit& misfit) {  // fewer blocks along that axis, down to one, which always fits
      if (refusal.empty()) refusal = misfit.message;
      grid_.blocks[misfit.axis] -= 1;
    }
  if (!refusal.empty())
    throw ConfigError(fmt::format("{}; the largest grid that works is {}", refusal, grid_.text(network.input().axes)));
}

void Partition::build() {
  const Shape& in = network_->input();
  for (std::size_t a = 0; a < 3; ++a) {
    if (grid_.blocks[a] > in.spatial[a])
      throw Misfit{
          a + static_cast<std::size_t>(in.axes) < 3
              ? fmt::format("run.grid = {} cuts more axes than samples of {} have", grid_.text(in.axes), to_string(in))
              : fmt::format("run.grid = {} cuts the {} position{} of {} into {} blocks (samples are {})",
                            grid_.text(in.axes), in.spatial[a], in.spatial[a] == 1 ? "" : "s", axis_text(a, in.axes),
                            grid_.blocks[a], to_string(in)),
          a};
    input_.owned.axes[a] = even_pieces(in.spatial[a], grid_.blocks[a]);
  }
  input_.stored = input_.owned;
  layers_.clear();
  cut_weights_.clear();
  layers_.reserve(network_->size());
  for (std::size_t i = 0; i < network_->size(); ++i) place_layer(i);
  read_margins();
  check_placement();
}

std::vector<Partition::Reader> Partition::readers(std::size_t number) const {
  std::vector<Reader> all;
  for (std::size_t i = 0; i < network_->size(); ++i)
    for (std::size_t k = 0; k < network_->wiring()[i].size(); ++k)
      if (network_->wiring()[i][k] == number) all.push_back({i, k});
  return all;
}

// What the readers of an output need of it; none: not all the same.
std::optional<BlockPositions> Partition::common_needs(const std::vector<Reader>& readers) const {
  const auto needs = [&](const Reader& reader) -> const BlockPositions& {
    return layers_[reader.layer].needs[reader.input];
  };
  if (readers.empty()) return {};
  const BlockPositions& first = needs(readers.front());
  if (std::ranges::all_of(readers, [&](const Reader& reader) { return needs(reader) == first; })) return first;
  return {};
}

// Files give any positions, so the input comes as its readers need it, with their halo.
void Partition::read_margins() {
  const std::vector<Reader> of_input = readers(0);
  if (of_input.size() == 1 && network_->entry(0).kind == LayerKind::batch_norm && !layers_[0].output.whole)
    hold_margins_of_norm();
  if (const std::optional<BlockPositions> needs = common_needs(of_input)) input_.stored = *needs;
}

// A batch norm of the input normalises the halo, too, so that it is fused with the convolution behind it. A window of
// which a block holds more than it needs makes no further output of that: it is less than a stride. What every rank
// computes whole is not fused with it: its statistics would be of one rank.
void Partition::hold_margins_of_norm() {
  const std::vector<Reader> of_norm = readers(1);
  const std::optional<BlockPositions> needs = common_needs(of_norm);
  const auto whole = [&](const Reader& reader) { return layers_[reader.layer].output.whole; };
  if (!needs || std::ranges::any_of(of_norm, whole)) return;
  Placement norm = layers_[0].output;
  for (std::size_t a = 0; a < 3; ++a) {
    if (needs->axes[a].front().first > 0) return;
    const Margins axis = margins(norm.owned.axes[a], needs->axes[a]);
    norm.owned.axes[a] = axis.counted;
    norm.stored.axes[a] = axis.held;
  }
  const auto takes_more = [&](const Reader& reader) { return is_window(network_->entry(reader.layer).spec); };
  if (norm.stored != *needs && !std::ranges::all_of(of_norm, takes_more)) return;
  for (const Reader& reader : of_norm) layers_[reader.layer].needs[reader.input] = norm.stored;
  layers_[0].needs[0] = norm.stored;
  layers_[0].output = norm;
}

// Every position of every tensor has its owner, who has made it, and what is needed is there. Only the input may lack
// positions that no layer needs.
void Partition::check_placement() const {
  for (std::size_t number = 0; number <= network_->size(); ++number)
    for (std::size_t a = 0; a < 3; ++a) check_axis(tensor(number), number == 0, shape_of(number).spatial[a], a);
  for (std::size_t i = 0; i < network_->size(); ++i)
    for (std::size_t k = 0; k < layers_[i].needs.size(); ++k) {
      const Extent sizes = shape_of(network_->wiring()[i][k]).spatial;
      for (std::size_t a = 0; a < 3; ++a)
        for (const Interval& needs : layers_[i].needs[k].axes[a])
          MRMF_CHECK(lies_in(needs, {0, sizes[a]}), "a layer needs positions outside of the sample");
    }
}

// Every rank has all inputs, and computes all of the output.
void Partition::gather(std::size_t i, LayerPlacement& layer) const {
  for (const std::size_t number : network_->wiring()[i])
    layer.needs.push_back(whole_cut(network_->output_numbered(number).spatial, grid_));
  const BlockPositions all = whole_cut(network_->entry(i).output().spatial, grid_);
  layer.output = {all, all, true, true};
}

// Whether a layer that follows from this one has more positions than it: then most of the network would be computed by
// all ranks.
bool Partition::grows_behind(std::size_t i) const {
  const Index here = product(network_->entry(i).output().spatial);
  std::vector<bool> follows(network_->size() + 1);
  follows[i + 1] = true;
  for (std::size_t later = i + 1; later < network_->size(); ++later) {
    follows[later + 1] = std::ranges::any_of(network_->wiring()[later], [&](std::size_t n) { return follows[n]; });
    if (follows[later + 1] && product(network_->entry(later).output().spatial) > here) return true;
  }
  return false;
}

void Partition::place_layer(std::size_t i) {
  const LayerEntry& entry = network_->entry(i);
  const std::vector<std::size_t>& reads = network_->wiring()[i];
  LayerPlacement layer;
  const Placement& in = tensor(reads[0]);
  const bool cut = std::ranges::none_of(reads, [&](std::size_t number) { return tensor(number).whole; });
  if (!cut) {
    gather(i, layer);
  } else if (entry.output().axes == 0) {
    place_flat(i, layer);
  } else if (is_window(entry.spec)) {
    place_window(entry, in.owned, layer);
  } else if (entry.kind == LayerKind::rica) {
    place_rica(entry, in.owned, grid_, layer);
  } else if (entry.kind == LayerKind::local_contrast_norm) {
    place_contrast(entry, in.owned, layer);
  } else if (entry.kind == LayerKind::conv_transpose) {
    place_transposed(entry, in.owned, layer);
  } else if (entry.kind == LayerKind::upsample) {
    place_upsampled(entry, in.owned, layer);
  } else if (keeps_positions(entry.kind) || is_join(entry.kind)) {
    layer.needs.assign(reads.size(), in.owned);
    layer.output = {in.owned, in.owned};
  } else {
    require(false, entry.spec, to_string(entry.kind) + " of positions cannot be cut by run.grid");
  }
  if (has_empty_piece(layer.output.owned)) {
    if (grows_behind(i)) refuse_pieces(entry, grid_, layer.output.owned);
    layer = {};
    gather(i, layer);
  }
  // What a transposed convolution or linear upsampling makes beside its own lacks the neighbours' part.
  layer.output.margin_valid = layer.output.owned == layer.output.stored;
  layers_.push_back(std::move(layer));
  if (entry.kind == LayerKind::dense && behind_flatten(i)) cut_columns(i);
  if (!layers_.back().fields.axes[0].empty()) cut_positions(i);
}

// A flatten of a cut tensor, and what follows it before anything is whole.
void Partition::place_flat(std::size_t i, LayerPlacement& layer) {
  const LayerEntry& entry = network_->entry(i);
  const Placement& in = tensor(network_->wiring()[i][0]);
  if (in.unflattened ? entry.kind != LayerKind::dense : entry.kind == LayerKind::flatten && stays_cut(i + 1)) {
    layer.needs = {in.owned};
    layer.output = {.owned = in.owned, .stored = in.owned, .unflattened = true};
    return;
  }
  gather(i, layer);
  if (in.unflattened) layer.needs = {in.owned};
}

// Whether all that follows from a flat tensor can do with a part of it: dense layers, and in front of them what changes
// every feature by itself.
bool Partition::stays_cut(std::size_t number) const {
  bool read = false;
  for (std::size_t i = number; i < network_->size(); ++i) {
    const std::vector<std::size_t>& reads = network_->wiring()[i];
    if (std::ranges::find(reads, number) == reads.end()) continue;
    const LayerKind kind = network_->entry(i).kind;
    read = true;
    if (kind == LayerKind::dense) continue;
    if (!is_elementwise(kind) || !stays_cut(i + 1)) return false;
  }
  return read;
}

// Whether a layer reads a flattened tensor, through layers of one input that keep its features.
bool Partition::behind_flatten(std::size_t i) const {
  for (;;) {
    const std::vector<std::size_t>& reads = network_->wiring()[i];
    if (reads.size() != 1 || reads[0] == 0) return false;
    i = reads[0] - 1;
    if (network_->entry(i).kind == LayerKind::flatten) return true;
    if (network_->entry(i).kind == LayerKind::dense) return false;
  }
}

// Untied weights and biases lie where their positions lie.
void Partition::cut_positions(std::size_t i) {
  const LayerEntry& entry = network_->entry(i);
  PartitionedWeights weights{.layer = i,
                             .whole = {.n = 1, .spatial = locally_connected_geometry(entry.input, entry.spec).out()}};
  for (int rank = 0; rank < grid_.ranks(); ++rank)
    weights.boxes.push_back(layers_[i].fields.block(grid_.coordinates(rank)));
  for (const NamedTensor& part : entry.footprint.params) {
    weights.whole.channels = part.count() / product(weights.whole.spatial);
    cut_weights_.push_back(weights);
    ++weights.tensor;
  }
}

// By the positions that a rank has of the input, or evenly where each has all.
void Partition::cut_columns(std::size_t i) {
  const LayerEntry& entry = network_->entry(i);
  const std::size_t number = network_->wiring()[i][0];
  const Index features = entry.input.channels, ranks = grid_.ranks();
  PartitionedWeights weights{.layer = i, .whole = {.n = entry.output().channels, .spatial = {1, 1, features}}};
  if (tensor(number).unflattened) {
    const Shape in = shape_of(number);
    weights.whole.spatial = in.spatial, weights.whole.channels = in.channels;
    for (int rank = 0; rank < grid_.ranks(); ++rank)
      weights.boxes.push_back(tensor(number).owned.block(grid_.coordinates(rank)));
  } else if (features >= ranks) {
    for (const Interval& piece : even_pieces(features, ranks))
      weights.boxes.push_back({.first = {0, 0, piece.first}, .count = {1, 1, piece.count}});
  } else {
    return;
  }
  cut_weights_.push_back(std::move(weights));
}

std::vector<PartitionedWeights> Partition::cut_weights(int rank) const {
  std::vector<PartitionedWeights> weights = cut_weights_;
  for (PartitionedWeights& one : weights) one.rank = rank;
  return weights;
}

// The shape of a whole tensor, as its positions lie here.
Shape Partition::shape_of(std::size_t number) const {
  while (tensor(number).unflattened) number = network_->wiring()[number - 1][0];
  return network_->output_numbered(number);
}

bool Partition::at_hand(std::size_t layer, std::size_t i) const {
  const Placement& there = tensor(network_->wiring()[layer][i]);
  return there.margin_valid && there.stored == layers_[layer].needs[i];
}

LayerSpec Partition::spec_at(std::size_t i, const Extent& coordinates) const {
  const LayerPlacement& layer = layers_[i];
  LayerSpec spec = network_->entry(i).spec;
  if (layer.pads[0].empty()) return spec;
  spec.same_padding = false;
  for (std::size_t a = 0; a < 3; ++a) {
    const Interval& pads = layer.pads[a].at(static_cast<std::size_t>(coordinates[a]));
    spec.pad_before[a] = pads.first;
    spec.pad_after[a] = pads.count;
  }
  return spec;
}

LayerPosition Partition::position_at(std::size_t i, const Extent& coordinates) const {
  const LayerPlacement& layer = layers_[i];
  LayerPosition result(i);
  if (layer.output.whole) return result;
  const Box made = layer.output.stored.block(coordinates), owned = layer.output.owned.block(coordinates);
  result.output_begin = made.first;
  result.output_extent = made.count;
  result.sample_extent = shape_of(i + 1).spatial;
  if (!at_hand(i, 0)) {
    const Box needs = layer.needs[0].block(coordinates);
    result.available_box =
        relative(intersection(tensor(network_->wiring()[i][0]).owned.block(coordinates), needs), needs);
  }
  if (made == owned) return result;
  result.statistics_box = relative(owned, made);
  return result;
}

Shape Partition::input_at(std::size_t layer, std::size_t i, const Extent& coordinates) const {
  Shape shape = shape_of(network_->wiring()[layer][i]);
  shape.spatial = layers_[layer].needs[i].block(coordinates).count;
  return shape;
}

double Partition::share_at(const Extent& coordinates) const {
  const Placement& output = layers_.back().output;
  if (output.whole) return 1.0 / static_cast<double>(grid_.ranks());
  return static_cast<double>(product(output.owned.block(coordinates).count)) /
         static_cast<double>(product(network_->output().spatial));
}

}  // namespace mrmf
