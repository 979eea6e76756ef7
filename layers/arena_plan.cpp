#include "layers/arena_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace mrmf {
namespace {

/// The places of `order`, one after the other, each at the lowest address where it fits.
Index place_in_order(std::vector<Block>& blocks, const std::vector<std::size_t>& order) {
  Index size = 0;
  std::vector<const Block*> placed;  // by address
  for (const std::size_t i : order) {
    Block& block = blocks[i];
    block.first = 0;
    for (const Block* other : placed) {
      if (other->end < block.begin || block.end < other->begin) continue;  // never at the same time
      if (other->first >= block.first + aligned(block.floats)) break;      // it fits before this one
      block.first = std::max(block.first, other->first + aligned(other->floats));
    }
    const auto behind = std::ranges::find_if(placed, [&](const Block* other) { return other->first > block.first; });
    placed.insert(behind, &block);
    size = std::max(size, block.first + aligned(block.floats));
  }
  return size;
}

/// Follows the tensors of one training step through the blocks of memory that hold them.
class Planner {
 public:
  explicit Planner(const std::vector<UnitFacts>& units)
      : units_(units),
        holder_(units.size() + 1, kNone),
        content_{0},
        gradient_(units.size() + 1, kNone),
        dy_of_(units.size()),
        given_(units.size()) {
    plan_.units.resize(units.size());
    for (std::size_t u = 0; u < units.size(); ++u) forward(u);
    block(holder_.back()).end = 2 * units.size();  // the network's output
    gradient_.back() = make(units.back().floats, units.size());
    for (std::size_t u = units.size(); u-- > 0;) backward(u);
  }

  ArenaPlan finish() {
    plan_.floats = place_blocks(blocks_);
    for (const Block& b : blocks_) plan_.separate += aligned(b.floats);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      UnitMemory& unit = plan_.units[u];
      unit.output = place(holder_[u + 1], units_[u].floats);
      unit.dy = place(dy_of_[u], units_[u].floats);
      for (std::size_t i = 0; i < unit.dx.size(); ++i) {
        const Given& given = given_[u][i];
        if (given.dx == kNone) continue;
        const Index floats = units_[units_[u].reads[i] - 1].floats;
        unit.dx[i] = {place(given.dx, floats), given.before == kNone ? Place{} : place(given.before, floats),
                      place(given.sum, floats)};
      }
    }
    return std::move(plan_);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Given {
    std::size_t dx = kNone, before = kNone, sum = kNone;  // blocks
  };

  std::size_t make(Index floats, std::size_t moment) {
    blocks_.push_back({floats, moment, moment});
    users_.push_back(1);
    return blocks_.size() - 1;
  }
  Block& block(std::size_t i) { return blocks_[i]; }
  Place place(std::size_t i, Index floats) const { return {blocks_[i].first, floats}; }
  void used(std::size_t i, std::size_t moment) { blocks_[i].end = std::max(blocks_[i].end, moment); }
  std::size_t moment_of_backward(std::size_t u) const { return 2 * units_.size() - u; }

  /// The last moment that reads output `number`, whatever memory holds it; units write it, so at least its own.
  std::size_t last_read(std::size_t number) const {
    std::size_t moment = number - 1;
    if (units_[number - 1].reads_output) moment = moment_of_backward(number - 1);
    for (std::size_t u = number; u < units_.size(); ++u)
      if (std::ranges::count(units_[u].reads, number) > 0)
        moment = std::max(moment, units_[u].reads_input ? moment_of_backward(u) : u);
    return moment;
  }

  /// Whether unit u may write over output `number`: it is the last that reads what lies there, under any name.
  bool may_overwrite(std::size_t u, std::size_t number) const {
    if (number == 0) return false;  // the network's input is the caller's
    const std::vector<std::size_t>& reads = units_[u].reads;
    for (std::size_t i = 2; i < reads.size(); ++i)  // read after the first two have been added
      if (content_[reads[i]] == content_[number]) return false;
    for (std::size_t other = 1; other <= u; ++other)
      if (content_[other] == content_[number] && last_read(other) > u) return false;
    return true;
  }

  void forward(std::size_t u) {
    const UnitFacts& unit = units_[u];
    std::size_t over = kNone;
    if (unit.identity && unit.reads[0] != 0)
      over = unit.reads[0];
    else if (unit.in_place)
      for (const std::size_t number : {unit.reads[0], unit.reads.size() > 1 ? unit.reads[1] : unit.reads[0]})
        if (over == kNone && may_overwrite(u, number)) over = number;
    plan_.units[u].in_place = over != kNone;
    holder_[u + 1] = over != kNone ? holder_[over] : make(unit.floats, u);
    content_.push_back(over != kNone && unit.identity ? content_[over] : u + 1);
    used(holder_[u + 1], last_read(u + 1));
  }

  void backward(std::size_t u) {
    const UnitFacts& unit = units_[u];
    const std::size_t moment = moment_of_backward(u), dy = gradient_[u + 1];
    MRMF_CHECK(dy != kNone, "an output that no unit reads");
    dy_of_[u] = dy;
    used(dy, moment);
    const bool alias = unit.dx_is_dy || unit.identity;
    for (const std::size_t number : unit.reads) {
      Given given;
      if (number != 0) {
        // A single input takes over dy's memory where nothing else is to be read from it.
        const bool over = unit.reads.size() == 1 && unit.in_place && users_[dy] == 1;
        given.dx = alias || over ? dy : make(units_[number - 1].floats, moment);
        if (alias || over) ++users_[dy];
        if (unit.reads.size() == 1) --users_[dy];
        add_up(given, number, moment);
      }
      given_[u].push_back(given);
    }
    plan_.units[u].dx.resize(unit.reads.size());
    if (unit.reads.size() > 1 || unit.reads[0] == 0) --users_[dy];
  }

  /// Adds a unit's dx to what later units gave for that output, in memory that nothing else is to be read from.
  void add_up(Given& given, std::size_t number, std::size_t moment) {
    given.before = std::exchange(gradient_[number], given.dx);
    given.sum = given.dx;
    if (given.before == kNone) return;
    used(given.before, moment);
    const bool over_before = users_[given.before] == 1, over_dx = users_[given.dx] == 1;
    given.sum = over_before ? given.before : over_dx ? given.dx : make(units_[number - 1].floats, moment);
    for (const std::size_t part : {given.before, given.dx})
      if (part != given.sum) --users_[part];
    gradient_[number] = given.sum;
  }

  const std::vector<UnitFacts>& units_;
  std::vector<Block> blocks_;
  std::vector<int> users_;             // of a block of gradients: those to come
  std::vector<std::size_t> holder_;    // the block of each output
  std::vector<std::size_t> content_;   // equal for an output and its reshaped form: the same values
  std::vector<std::size_t> gradient_;  // of each output: the block of what is summed so far
  std::vector<std::size_t> dy_of_;
  std::vector<std::vector<Given>> given_;
  ArenaPlan plan_;
};

}  // namespace

Index place_blocks(std::vector<Block>& blocks) {
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

ArenaPlan plan_arena(const std::vector<UnitFacts>& units) { return Planner(units).finish(); }

}  // namespace mrmf
