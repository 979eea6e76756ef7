#include "layers/memory_layout.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace mrmf {
namespace {

/// Lays out the blocks in this order, each at the lowest offset where it fits.
Index place_in_order(std::vector<Lifetime>& blocks, const std::vector<std::size_t>& order) {
  Index size = 0;
  std::vector<const Lifetime*> placed;  // by address
  for (const std::size_t i : order) {
    Lifetime& block = blocks[i];
    block.first = 0;
    for (const Lifetime* other : placed) {
      if (other->end < block.begin || block.end < other->begin) continue;  // never at the same time
      if (other->first >= block.first + aligned(block.floats)) break;      // it fits before this one
      block.first = std::max(block.first, other->first + aligned(other->floats));
    }
    const auto behind = std::ranges::find_if(placed, [&](const Lifetime* other) { return other->first > block.first; });
    placed.insert(behind, &block);
    size = std::max(size, block.first + aligned(block.floats));
  }
  return size;
}

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// The part of a unit's output that is one of its inputs: in a concat's a slice of the channels, in a halo exchange's
/// what lies between the margins.
struct Slot {
  std::size_t unit = kNone, input = 0;
  explicit operator bool() const { return unit != kNone; }
  bool operator==(const Slot&) const = default;
};

bool reads(const UnitFacts& unit, std::size_t number) { return std::ranges::count(unit.reads, number) > 0; }

std::size_t moment_of_backward(const std::vector<UnitFacts>& units, std::size_t u) { return 2 * units.size() - u; }

/// The last moment that reads output `number`, whatever memory holds it; its unit writes it, so at least that one.
std::size_t last_read(const std::vector<UnitFacts>& units, std::size_t number) {
  std::size_t moment = number - 1;
  if (units[number - 1].reads_output) moment = moment_of_backward(units, number - 1);
  for (std::size_t u = number; u < units.size(); ++u)
    if (reads(units[u], number))
      moment = std::max(moment, units[u].reads_in_backward(number) ? moment_of_backward(units, u) : u);
  return moment;
}

/// Whether the slot is a slice of channels.
bool is_slice(const std::vector<UnitFacts>& units, const Slot& slot) { return slot && !units[slot.unit].parts.empty(); }

/// Whether a unit's output may lie between a halo exchange's margins: no slot is within another, and what is reshaped
/// has one span under all its names.
bool fits_between_margins(const UnitFacts& unit) { return unit.parts.empty() && !unit.margin && !unit.identity; }

/// The slot that each output may be written to at once. A slice is one if the output's unit and all its readers
/// take slices. A unit in place hands its slot on to what it writes over, if that is read by nobody afterwards.
std::vector<Slot> slots_of(const std::vector<UnitFacts>& units) {
  std::vector<Slot> slots(units.size() + 1);
  for (std::size_t number = units.size(); number > 0; --number) {
    Slot slice, between;
    bool slices = units[number - 1].accepted_slices.y, fits = fits_between_margins(units[number - 1]);
    for (std::size_t u = number; u < units.size(); ++u) {
      const UnitFacts& reader = units[u];
      if (!reads(reader, number)) continue;
      const auto input = static_cast<std::size_t>(std::ranges::find(reader.reads, number) - reader.reads.begin());
      slices = slices && reader.accepted_slices.x;
      fits = fits && !reader.identity;
      Slot slot;
      if (!reader.parts.empty() || reader.margin)
        slot = {u, input};
      else if (reader.in_place && reader.reads.size() == 1 && last_read(units, number) == u)
        slot = slots[u + 1];
      if (Slot& first = is_slice(units, slot) ? slice : between; !first) first = slot;
    }
    if (slices && slice)
      slots[number] = slice;
    else if (fits)
      slots[number] = between;
  }
  return slots;
}

/// Follows the tensors of one training step through the blocks of memory that hold them.
class ArenaBuilder {
 public:
  explicit ArenaBuilder(const std::vector<UnitFacts>& units)
      : units_(units),
        slots_(slots_of(units)),
        joined_(units.size(), kNone),
        holder_(units.size() + 1, kNone),
        content_{0},
        gradient_(units.size() + 1),
        dy_of_(units.size()),
        given_(units.size()) {
    plan_.units.resize(units.size());
    for (std::size_t u = 0; u < units.size(); ++u) forward(u);
    block(holder_.back()).end = 2 * units.size();  // the network's output
    gradient_.back() = {make(units.back().floats, units.size())};
    for (std::size_t u = units.size(); u-- > 0;) backward(u);
  }

  ArenaLayout finish() {
    plan_.floats = lay_out_blocks(blocks_);
    for (const Lifetime& b : blocks_) plan_.separate += aligned(b.floats);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      UnitMemory& unit = plan_.units[u];
      unit.output = span_of(output_at(u + 1), units_[u].floats);
      unit.dy = span_of(dy_of_[u], units_[u].floats);
      for (std::size_t i = 0; i < unit.dx.size(); ++i) {
        const Given& given = given_[u][i];
        if (given.dx.block == kNone) continue;
        const Index floats = units_[units_[u].reads[i] - 1].floats;
        unit.dx[i] = {span_of(given.dx, floats),
                      given.before.block == kNone ? ArenaSpan{} : span_of(given.before, floats),
                      span_of(given.sum, floats)};
      }
    }
    return std::move(plan_);
  }

 private:
  /// A block, or a piece of one: from a float on, or a concat's slice.
  struct Held {
    std::size_t block = kNone;
    Slot slice = {};
    Index first = 0;
  };
  struct Given {
    Held dx, before, sum;
  };

  std::size_t make(Index floats, std::size_t moment) {
    blocks_.push_back({floats, moment, moment});
    users_.push_back(1);
    return blocks_.size() - 1;
  }
  Lifetime& block(std::size_t i) { return blocks_[i]; }
  /// The span of a tensor of so many floats.
  ArenaSpan span_of(const Held& held, Index floats) const {
    const Index first = blocks_[held.block].first + held.first;
    MRMF_CHECK(held.first >= 0 && held.first + floats <= blocks_[held.block].floats, "a tensor outside of its memory");
    if (!held.slice) return {first, floats};
    const std::vector<Index>& parts = units_[held.slice.unit].parts;
    const auto at = parts.begin() + static_cast<std::ptrdiff_t>(held.slice.input);
    const Index pitch = std::reduce(parts.begin(), parts.end());
    return {first + std::reduce(parts.begin(), at), (floats / *at - 1) * pitch + *at, pitch};
  }
  void used(std::size_t i, std::size_t moment) { blocks_[i].end = std::max(blocks_[i].end, moment); }
  Held output_at(std::size_t number) const {
    const Slot& slot = slots_[number];
    if (!slot || is_slice(units_, slot)) return {holder_[number], slot};
    return {holder_[number], {}, *units_[slot.unit].margin};
  }
  /// Whether the memory is one gradient's alone and no slice, so that a sum may be written over it.
  bool own(const Held& held) const { return users_[held.block] == 1 && !held.slice; }

  /// Whether unit u may write over output `number`: it is the last that reads what lies there, under any name or in a
  /// slot of it.
  bool may_overwrite(std::size_t u, std::size_t number) const {
    if (number == 0 || slots_[number] != slots_[u + 1]) return false;  // the network's input is the caller's
    const std::vector<std::size_t>& reads = units_[u].reads;
    for (std::size_t i = 2; i < reads.size(); ++i)  // read after the first two have been added
      if (content_[reads[i]] == content_[number]) return false;
    for (std::size_t other = 1; other <= u; ++other) {
      const bool within = slots_[other] && slots_[other].unit + 1 == content_[number];
      if ((content_[other] == content_[number] || within) && last_read(units_, other) > u) return false;
    }
    return true;
  }

  /// The block for a unit's output that is written over no other.
  std::size_t block_of_output(std::size_t u) {
    const std::size_t whole = slots_[u + 1] ? slots_[u + 1].unit : u;  // the unit whose output it is, or is within
    if (joined_[whole] == kNone) joined_[whole] = make(units_[whole].floats, u);
    return joined_[whole];
  }

  void forward(std::size_t u) {
    const UnitFacts& unit = units_[u];
    std::size_t over = kNone;
    if (unit.identity && unit.reads[0] != 0)
      over = unit.reads[0];
    else if (unit.in_place)
      for (const std::size_t number : {unit.reads[0], unit.reads.size() > 1 ? unit.reads[1] : unit.reads[0]})
        if (over == kNone && may_overwrite(u, number)) over = number;
    if (unit.shortcut && may_overwrite(u, unit.reads[1])) over = unit.reads[1];
    plan_.units[u].in_place = over != kNone;
    holder_[u + 1] = over != kNone ? holder_[over] : block_of_output(u);
    content_.push_back(over != kNone && unit.identity ? content_[over] : u + 1);
    used(holder_[u + 1], last_read(units_, u + 1));
  }

  void backward(std::size_t u) {
    const UnitFacts& unit = units_[u];
    const std::size_t moment = moment_of_backward(units_, u);
    const Held dy = gradient_[u + 1];
    MRMF_CHECK(dy.block != kNone, "an output that no unit reads");
    const bool own_dy = own(dy);  // when backward writes, before any of its gradients are added up
    dy_of_[u] = dy;
    used(dy.block, moment);
    for (std::size_t i = 0; i < unit.reads.size(); ++i) {
      Given given;
      if (const std::size_t number = unit.reads[i]; number != 0) {
        if (hands_out_slice(u, number))
          given.dx = {dy.block, {u, i}, dy.first};
        else if (unit.margin && own_dy)  // where it adds what other ranks send
          given.dx = {dy.block, {}, dy.first + *unit.margin};
        else if (unit.dx_is_dy || unit.identity || (takes_over(unit, i) && own_dy))
          given.dx = dy;  // where nothing else is to be read from it
        else
          given.dx = {make(units_[number - 1].floats, moment)};
        if (given.dx.block == dy.block) ++users_[dy.block];
        if (unit.reads.size() == 1) --users_[dy.block];
        add_up(given, number, moment);
      }
      given_[u].push_back(given);
    }
    plan_.units[u].dx.resize(unit.reads.size());
    if (unit.reads.size() > 1 || unit.reads[0] == 0) --users_[dy.block];
  }

  /// Whether the gradient of input i may be written over dy: of a single input, or a shortcut.
  static bool takes_over(const UnitFacts& unit, std::size_t i) {
    return unit.shortcut ? i == 1 : unit.in_place && unit.reads.size() == 1;
  }

  /// Whether concat u gives that output a slice of its dy as gradient: the output's unit takes slices, or the gradient
  /// is a sum with what others give.
  bool hands_out_slice(std::size_t u, std::size_t number) const {
    if (units_[u].parts.empty()) return false;
    if (units_[number - 1].accepted_slices.dy || gradient_[number].block != kNone) return true;
    return std::any_of(units_.begin() + static_cast<std::ptrdiff_t>(number),
                       units_.begin() + static_cast<std::ptrdiff_t>(u),
                       [&](const UnitFacts& earlier) { return reads(earlier, number); });
  }

  /// Adds a unit's dx to what later units gave for that output, in memory that nothing else is to be read from.
  void add_up(Given& given, std::size_t number, std::size_t moment) {
    given.before = std::exchange(gradient_[number], given.dx);
    given.sum = given.dx;
    if (given.before.block == kNone) return;
    used(given.before.block, moment);
    given.sum = own(given.before) ? given.before
                : own(given.dx)   ? given.dx
                                  : Held{make(units_[number - 1].floats, moment)};
    for (const Held& part : {given.before, given.dx})
      if (part.block != given.sum.block) --users_[part.block];
    gradient_[number] = given.sum;
  }

  const std::vector<UnitFacts>& units_;
  std::vector<Slot> slots_;          // slots of each output
  std::vector<std::size_t> joined_;  // for each unit: the block of its output, once any of it has been written
  std::vector<Lifetime> blocks_;
  std::vector<int> users_;            // users of a block of gradients: those to come
  std::vector<std::size_t> holder_;   // the block of each output
  std::vector<std::size_t> content_;  // equal for an output and its reshaped form: the same values
  std::vector<Held> gradient_;        // gradient of each output: what is summed so far
  std::vector<Held> dy_of_;
  std::vector<std::vector<Given>> given_;
  ArenaLayout plan_;
};

}  // namespace

Index lay_out_blocks(std::vector<Lifetime>& blocks) {
  std::vector<std::size_t> by_size(blocks.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::vector<std::size_t> by_time = by_size, by_life = by_size;
  const auto life = [&](std::size_t i) { return blocks[i].end - blocks[i].begin; };
  std::ranges::stable_sort(by_size, [&](auto a, auto b) { return blocks[a].floats > blocks[b].floats; });
  std::ranges::stable_sort(by_time, [&](auto a, auto b) { return blocks[a].begin < blocks[b].begin; });
  std::ranges::stable_sort(by_life, [&](auto a, auto b) { return life(a) > life(b); });
  // No order is the best for all networks.
  const std::vector<std::size_t>* best = nullptr;
  Index least = 0;
  for (const auto* order : {&by_size, &by_time, &by_life}) {
    const Index size = place_in_order(blocks, *order);
    if (best == nullptr || size < least) best = order, least = size;
  }
  return best == nullptr ? 0 : place_in_order(blocks, *best);
}

ArenaLayout lay_out_arena(const std::vector<UnitFacts>& units) { return ArenaBuilder(units).finish(); }

namespace {

/// Calls visit(offset in the whole weights, in the box's own, floats) for features that lie side by side in both.
template <class Visit>
void for_runs(const Shape& whole, const Box& box, const Visit& visit) {
  const Extent& s = whole.spatial;
  MRMF_CHECK(contains({.count = s}, box), "columns of another layer's weights");
  const Index floats = box.count[2] * whole.channels;
  Index own = 0;
  for (Index row = 0; row < whole.n; ++row)
    for (Index i = box.first[0]; i < box.end(0); ++i)
      for (Index j = box.first[1]; j < box.end(1); ++j, own += floats)
        visit((((row * s[0] + i) * s[1] + j) * s[2] + box.first[2]) * whole.channels, own, floats);
}

}  // namespace

void PartitionedWeights::take(ConstSpan all, Span own) const {
  MRMF_CHECK(std::ssize(all) == whole.count() && std::ssize(own) == count(rank), "weights of another layer");
  for_runs(whole, boxes.at(static_cast<std::size_t>(rank)),
           [&](Index from, Index to, Index floats) { std::copy_n(all.data() + from, floats, own.data() + to); });
}

void PartitionedWeights::put(int of_rank, ConstSpan own, Span all) const {
  MRMF_CHECK(std::ssize(all) == whole.count() && std::ssize(own) == count(of_rank), "weights of another layer");
  for_runs(whole, boxes.at(static_cast<std::size_t>(of_rank)),
           [&](Index to, Index from, Index floats) { std::copy_n(own.data() + from, floats, all.data() + to); });
}

ParameterLayout::ParameterLayout(const Network& network, std::vector<PartitionedWeights> cut,
                                 std::vector<bool> in_place)
    : cut_(std::move(cut)), in_place_(std::move(in_place)) {
  for (std::size_t i = 0; i < network.size(); ++i) {
    ArenaSpan span{size_, network.entry(i).params.count};
    if (const std::vector<PartitionedTensor> parts = partitioned_tensors(i); !parts.empty()) {
      cuts_.push_back({size_, behind_partitioned(i)});
      if (!this->in_place(i)) gradient_cuts_.push_back({gradients_size_, behind_partitioned(i)});
      span.count += behind_partitioned(i) - parts.back().whole.end();
    }
    size_ = aligned(span.end());
    param_spans_.push_back(span);
    gradients_.push_back({gradients_size_, this->in_place(i) ? 0 : span.count});
    if (gradients_.back().count == 0) continue;
    if (with_gradients_.empty() || with_gradients_.back().params.end() != span.first)
      with_gradients_.push_back({{span.first, 0}, gradients_size_});
    with_gradients_.back().params.count = size_ - with_gradients_.back().params.first;
    gradients_size_ = aligned(gradients_.back().end());
  }
}

const PartitionedWeights* ParameterLayout::partitioned(std::size_t layer, std::size_t tensor) const {
  const auto found = std::ranges::find_if(
      cut_, [&](const PartitionedWeights& one) { return one.layer == layer && one.tensor == tensor; });
  return found == cut_.end() ? nullptr : &*found;
}

std::vector<ParameterLayout::PartitionedTensor> ParameterLayout::partitioned_tensors(std::size_t layer) const {
  std::vector<PartitionedTensor> parts;
  PartitionedTensor next{nullptr, {}, {}};
  while ((next.cut = partitioned(layer, parts.size())) != nullptr) {
    next.own = {next.own.end(), next.cut->count(next.cut->rank)};
    next.whole = {next.whole.end(), next.cut->whole.count()};
    parts.push_back(next);
  }
  return parts;
}

Index ParameterLayout::behind_partitioned(std::size_t layer) const {
  const std::vector<PartitionedTensor> parts = partitioned_tensors(layer);
  MRMF_CHECK(!parts.empty(), "a layer with whole weights");
  return aligned(parts.back().own.end());
}

std::vector<ArenaSpan> ParameterLayout::counted() const {
  const bool first = cut_.empty() || cut_.front().rank == 0;
  return first ? std::vector<ArenaSpan>{{0, size_}} : cuts_;
}

void ParameterLayout::take(std::size_t layer, ConstSpan all, Span own) const {
  const std::vector<PartitionedTensor> parts = partitioned_tensors(layer);
  if (parts.empty()) {
    std::ranges::copy(all, own.begin());
    return;
  }
  for (const PartitionedTensor& part : parts)
    part.cut->take(all.subspan(static_cast<std::size_t>(part.whole.first), static_cast<std::size_t>(part.whole.count)),
                   span_at(own, part.own));
  const auto rest = static_cast<std::size_t>(parts.back().whole.end());
  std::ranges::copy(all.subspan(rest), own.subspan(static_cast<std::size_t>(behind_partitioned(layer))).begin());
}

}  // namespace mrmf
