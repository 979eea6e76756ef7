// The arena of activations and gradients: a step is followed on paper, cell by cell, for random networks. Whoever reads
// must find what was written for it.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "layers/execution.hpp"
#include "layers/memory_layout.hpp"
#include "src/config/model_config.hpp"

using namespace mrmf;

namespace {

constexpr Index kPositions = 4;  // of every tensor below

/// The arena, with the number of a tensor in every cell.
class Shadow {
 public:
  explicit Shadow(const ArenaLayout& plan) : cells_(static_cast<std::size_t>(plan.floats), 0) {}
  int name() { return ++last_; }  ///< of a new tensor
  /// A tensor of so many floats.
  int write(const ArenaSpan& span, Index floats) { return write(span, floats, name()); }
  int write(const ArenaSpan& span, Index floats, int tensor) {
    REQUIRE(span.first >= 0);
    REQUIRE(span.end() <= std::ssize(cells_));
    all_of(span, floats, [&](int& cell) { return cell = tensor, true; });
    return tensor;
  }
  bool has(const ArenaSpan& span, Index floats, int tensor) {
    return all_of(span, floats, [&](int& cell) { return cell == tensor; });
  }

 private:
  /// A slice has its channels at every `pitch` floats; there are so many that all floats have a cell.
  template <class Test>
  bool all_of(const ArenaSpan& span, Index floats, const Test& test) {
    Index channels = span.pitch == 0 ? floats : 1;
    while ((span.count - channels) % std::max<Index>(span.pitch, 1) != 0 ||
           (span.pitch != 0 && ((span.count - channels) / span.pitch + 1) * channels != floats))
      REQUIRE(++channels <= span.pitch);
    REQUIRE((span.pitch != 0 || span.count == floats));
    for (Index first = span.first; first < span.end(); first += span.pitch == 0 ? floats : span.pitch)
      for (Index c = 0; c < channels; ++c)
        if (!test(cells_[static_cast<std::size_t>(first + c)])) return false;
    return true;
  }

  std::vector<int> cells_;
  int last_ = 0;
};

/// Follows one training step. What a call reads must still be there after it has written, unless it may work in place.
class Follower {
 public:
  Follower(const std::vector<UnitFacts>& units, const ArenaLayout& plan) : units_(units), plan_(plan), arena_(plan) {
    y_.resize(units.size() + 1);
    gradient_.resize(units.size() + 1);
    for (std::size_t u = 0; u < units.size(); ++u) forward(u);
    gradient_.back().tensor = arena_.write(plan.units.back().dy, units.back().floats);
    CHECK(has_output(units.size()));
    for (std::size_t u = units.size(); u-- > 0;) backward(u);
    CHECK(has_output(units.size()));
  }
  int slices() const { return slices_; }        ///< outputs that were written to their place in a concat's
  int gradients() const { return gradients_; }  ///< that are slices of a concat's
  int between() const { return between_; }      ///< outputs that were written between a halo exchange's margins
  int gradients_between() const { return gradients_between_; }
  int over_shortcuts() const { return over_shortcuts_; }  ///< outputs of units with a shortcut that are written over it
  int over_dy() const { return over_dy_; }                ///< gradients of shortcuts that are written over dy

 private:
  struct Gradient {
    int tensor = 0;
    std::set<std::size_t> givers;
  };

  Index floats_of(std::size_t number) const { return units_[number - 1].floats; }
  /// Input i of concat u as a slice of `whole`.
  ArenaSpan slice(std::size_t u, std::size_t i, const ArenaSpan& whole) const {
    const std::vector<Index>& parts = units_[u].parts;
    const Index pitch = std::accumulate(parts.begin(), parts.end(), Index{0});
    const Index before = std::accumulate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i), Index{0});
    return {whole.first + before, (units_[u].floats / pitch - 1) * pitch + parts[i], pitch};
  }
  static bool same(const ArenaSpan& a, const ArenaSpan& b) {
    return a.first == b.first && a.count == b.count && a.pitch == b.pitch;
  }
  /// Whether input i of unit u lies in its place of the output before the call.
  bool lies_there(std::size_t u, std::size_t i) const {
    const std::size_t number = units_[u].reads[i];
    return !units_[u].parts.empty() && number != 0 &&
           same(plan_.units[number - 1].output, slice(u, i, plan_.units[u].output));
  }

  /// Of exchange u: what lies between the margins of this span, and whether its input does before the call.
  ArenaSpan interior(std::size_t u, const ArenaSpan& whole) const {
    return {whole.first + *units_[u].margin, floats_of(units_[u].reads[0])};
  }
  bool lies_between(std::size_t u) const {
    const std::size_t number = units_[u].reads[0];
    return units_[u].margin && number != 0 && same(plan_.units[number - 1].output, interior(u, plan_.units[u].output));
  }
  /// Whether an output lies between the margins of some exchange, or is written over one that does.
  bool is_between(std::size_t number) const {
    for (std::size_t u = number; u < units_.size(); ++u)
      if (units_[u].margin && plan_.units[number - 1].output.first == interior(u, plan_.units[u].output).first)
        return true;
    return false;
  }
  std::array<ArenaSpan, 2> margins(std::size_t u) const {
    const ArenaSpan &all = plan_.units[u].output, inner = interior(u, all);
    return {{{all.first, *units_[u].margin}, {inner.end(), all.end() - inner.end()}}};
  }

  bool has_output(std::size_t number) {
    if (number == 0) return true;
    const UnitFacts& unit = units_[number - 1];
    if (lies_between(number - 1)) {
      for (const ArenaSpan& margin : margins(number - 1))
        if (!arena_.has(margin, margin.count, y_[number])) return false;
      return has_output(unit.reads[0]);
    }
    if (unit.identity && plan_.units[number - 1].in_place) return has_output(unit.reads[0]);
    const ArenaSpan& output = plan_.units[number - 1].output;
    if (unit.parts.empty()) return arena_.has(output, unit.floats, y_[number]);
    for (std::size_t i = 0; i < unit.parts.size(); ++i) {
      const int tensor = lies_there(number - 1, i) ? y_[unit.reads[i]] : y_[number];
      if (!arena_.has(slice(number - 1, i, output), floats_of_part(number - 1, i), tensor)) return false;
    }
    return true;
  }
  Index floats_of_part(std::size_t u, std::size_t i) const { return units_[u].parts[i] * kPositions; }
  bool has_inputs(std::size_t u, std::size_t from = 0) {
    return std::all_of(units_[u].reads.begin() + static_cast<std::ptrdiff_t>(std::min(from, units_[u].reads.size())),
                       units_[u].reads.end(), [&](std::size_t number) { return has_output(number); });
  }

  void forward(std::size_t u) {
    const UnitMemory& memory = plan_.units[u];
    CHECK(has_inputs(u));
    if (units_[u].identity && memory.in_place) {
      CHECK(memory.output.first == plan_.units[units_[u].reads[0] - 1].output.first);
      y_[u + 1] = y_[units_[u].reads[0]];
      return;
    }
    if (lies_between(u)) {
      ++between_;
      y_[u + 1] = arena_.name();
      for (const ArenaSpan& margin : margins(u)) arena_.write(margin, margin.count, y_[u + 1]);
      CHECK(has_output(u + 1));
      return;
    }
    CHECK((memory.output.pitch != 0 || memory.output.first % 16 == 0 || is_between(u + 1)));
    if (memory.output.pitch != 0) {
      ++slices_;
      CHECK(units_[u].accepted_slices.y);
      for (const UnitFacts& reader : units_)
        CHECK((reader.accepted_slices.x || std::ranges::count(reader.reads, u + 1) == 0));
    }
    if (units_[u].parts.empty()) {
      y_[u + 1] = arena_.write(memory.output, units_[u].floats);
      CHECK(has_inputs(u, memory.in_place ? 2 : 0));  // a sum over one of its first two reads the others afterwards
      if (units_[u].shortcut) {
        CHECK(has_output(units_[u].reads[0]));
        if (memory.in_place) ++over_shortcuts_;
      }
      return;
    }
    y_[u + 1] = arena_.name();
    for (std::size_t i = 0; i < units_[u].parts.size(); ++i)
      if (!lies_there(u, i)) arena_.write(slice(u, i, memory.output), floats_of_part(u, i), y_[u + 1]);
    CHECK((has_inputs(u) && has_output(u + 1)));
  }

  void backward(std::size_t u) {
    const UnitFacts& unit = units_[u];
    const UnitMemory& memory = plan_.units[u];
    for (std::size_t reader = u + 1; reader < units_.size(); ++reader)
      if (std::ranges::count(units_[reader].reads, u + 1) > 0) CHECK(gradient_[u + 1].givers.contains(reader));
    const int dy = gradient_[u + 1].tensor;
    CHECK((memory.dy.pitch == 0 || unit.accepted_slices.dy));
    const auto reads_hold = [&](bool in_place) {
      CHECK((in_place || arena_.has(memory.dy, unit.floats, dy)));
      if (unit.reads_output) CHECK(has_output(u + 1));
      if (unit.reads_input) CHECK((unit.shortcut ? has_output(unit.reads[0]) : has_inputs(u)));
    };
    reads_hold(false);
    REQUIRE(memory.dx.size() == unit.reads.size());
    std::vector<int> written(unit.reads.size(), dy);
    bool over = false;
    for (std::size_t i = 0; i < unit.reads.size(); ++i) {
      const ArenaSpan& dx = memory.dx[i].dx;
      if (unit.reads[i] == 0) {
        CHECK(dx.count == 0);
        continue;
      }
      if (dx.pitch != 0 && !unit.parts.empty()) {
        ++gradients_;
        CHECK(same(dx, slice(u, i, memory.dy)));
        continue;
      }
      if (unit.margin && same(dx, interior(u, memory.dy))) {
        ++gradients_between_;
        over = true;
        written[i] = arena_.write(dx, floats_of(unit.reads[i]));  // sums with what other ranks send
        continue;
      }
      const bool is_dy = dx.first == memory.dy.first;
      if (unit.dx_is_dy || unit.identity) {
        CHECK(is_dy);
        continue;
      }
      over = over || is_dy;
      CHECK((!is_dy || (unit.shortcut ? i == 1 : unit.in_place && unit.reads.size() == 1)));
      if (is_dy && unit.shortcut) ++over_dy_;
      written[i] = arena_.write(dx, floats_of(unit.reads[i]));
    }
    reads_hold(over);
    for (std::size_t i = 0; i < unit.reads.size(); ++i)
      if (unit.reads[i] != 0) add_up(memory.dx[i], written[i], unit.reads[i], u);
  }

  void add_up(const InputGradient& to, int dx, std::size_t number, std::size_t u) {
    Gradient& gradient = gradient_[number];
    const Index floats = floats_of(number);
    CHECK(arena_.has(to.dx, floats, dx));
    if (gradient.givers.empty()) {
      CHECK(to.before.count == 0);
      gradient.tensor = dx;
    } else {
      CHECK(arena_.has(to.before, floats, gradient.tensor));
      gradient.tensor = arena_.write(to.sum, floats);
      const auto apart = [&](const ArenaSpan& part) {
        return (part.first == to.sum.first && part.pitch == 0) || part.end() <= to.sum.first ||
               to.sum.end() <= part.first;
      };
      CHECK(to.sum.pitch == 0);
      CHECK((apart(to.before) && apart(to.dx)));
    }
    gradient.givers.insert(u);
  }

  const std::vector<UnitFacts>& units_;
  const ArenaLayout& plan_;
  Shadow arena_;
  std::vector<int> y_;
  std::vector<Gradient> gradient_;
  int slices_ = 0, gradients_ = 0, between_ = 0, gradients_between_ = 0, over_shortcuts_ = 0, over_dy_ = 0;
};

/// Makes it a concat whose inputs may lie in their places beforehand.
template <class FloatsOf>
void take_slices(UnitFacts& concat, FloatsOf floats_of) {
  concat.accepted_slices.x = true;
  for (const std::size_t number : concat.reads) concat.parts.push_back(floats_of(number) / kPositions);
}

/// A unit like one of our layers, which reads what `pick` says.
template <class Pick>
UnitFacts random_unit(Rng& rng, const std::vector<UnitFacts>& units, Pick pick) {
  const auto floats_of = [&](std::size_t number) { return number == 0 ? 10 * kPositions : units[number - 1].floats; };
  const auto most = [&](Index n) { return static_cast<Index>(rng.below(static_cast<std::uint64_t>(n))); };
  UnitFacts unit;
  unit.reads = {pick()};
  unit.floats = floats_of(unit.reads[0]);
  const auto more_inputs = [&](bool equal) {
    for (Index tries = most(6); tries >= 0; --tries) {
      const std::size_t number = pick();
      if (std::ranges::count(unit.reads, number) == 0 && (!equal || floats_of(number) == unit.floats))
        unit.reads.push_back(number);
    }
  };
  switch (most(10)) {
    case 0: unit.floats = kPositions * (1 + most(50)); break;                                    // convolution
    case 1: break;                                                                               // batch norm
    case 2: unit.in_place = true, unit.reads_output = true, unit.reads_input = false; break;     // activation
    case 3: unit.in_place = true, unit.reads_input = false; break;                               // dropout
    case 4: unit.floats = kPositions * (1 + unit.floats / 16), unit.reads_input = false; break;  // pooling
    case 5: unit.in_place = unit.identity = true, unit.reads_input = false; break;               // flatten
    case 6:                                                                                      // exchange
      unit.reads_input = false;
      if (most(4) > 0) unit.margin = kPositions * most(3);
      unit.floats += unit.margin.value_or(0) + kPositions * most(3);
      return unit;
    case 7:  // add
      more_inputs(true);
      unit.in_place = unit.dx_is_dy = true, unit.reads_input = false;
      break;
    case 8:  // convolution with a shortcut
      unit.reads_output = most(2) > 0;
      unit.reads.push_back(pick());
      if (unit.reads[1] == 0) return unit.reads.pop_back(), unit;
      unit.floats = floats_of(unit.reads[1]), unit.shortcut = true;
      return unit;
    default:  // concat
      more_inputs(false);
      unit.reads_input = false;
      unit.floats = 0;
      for (const std::size_t number : unit.reads) unit.floats += floats_of(number);
      if (most(4) > 0) take_slices(unit, floats_of);
      return unit;
  }
  if (!unit.identity && !unit.dx_is_dy) unit.accepted_slices = {.x = most(2) > 0, .y = most(2) > 0, .dy = most(2) > 0};
  return unit;
}

/// Every output but the last has a reader: a concat at the end reads what nobody does.
std::vector<UnitFacts> random_network(std::uint64_t key, bool chain) {
  Rng rng(key);
  std::vector<UnitFacts> units;
  const std::size_t count = 1 + rng.below(16);
  while (units.size() < count)
    units.push_back(random_unit(rng, units, [&] {
      const std::size_t before = units.size();
      return chain || rng.below(2) == 0 ? before : static_cast<std::size_t>(rng.below(before + 1));
    }));
  UnitFacts last;
  last.reads_input = false;
  for (std::size_t number = 1; number <= count; ++number)
    if (std::ranges::none_of(units, [&](const UnitFacts& u) { return std::ranges::count(u.reads, number) > 0; })) {
      last.reads.push_back(number);
      last.floats += units[number - 1].floats;
    }
  if (last.reads.size() > 1) units.push_back(last);
  return units;
}

/// What a chain took when outputs had places one after the other, and backward went between two of the widest.
Index two_widest(const std::vector<UnitFacts>& units, const ArenaLayout& plan) {
  Index outputs = 0, widest = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!plan.units[u].in_place) outputs += aligned(units[u].floats);
    widest = std::max(widest, aligned(units[u].floats));
  }
  return outputs + 2 * widest;
}

}  // namespace

TEST_CASE("arena layout: whoever reads finds what was written for it, in random networks") {
  int slices = 0, gradients = 0, between = 0, gradients_between = 0, over_shortcuts = 0, over_dy = 0;
  for (std::uint64_t key = 0; key < 3000; ++key) {
    CAPTURE(key);
    const std::vector<UnitFacts> units = random_network(key, false);
    const ArenaLayout plan = lay_out_arena(units);
    const Follower follow(units, plan);
    CHECK(plan.floats <= plan.separate);
    slices += follow.slices(), gradients += follow.gradients();
    between += follow.between(), gradients_between += follow.gradients_between();
    over_shortcuts += follow.over_shortcuts(), over_dy += follow.over_dy();
  }
  CHECK((slices > 450 && gradients > 500));
  CHECK((between > 500 && gradients_between > 500));
  CHECK((over_shortcuts > 200 && over_dy > 500));
}

TEST_CASE("arena layout: chains take no more than outputs in a row and two gradients of the widest") {
  Index planned = 0, before = 0;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    CAPTURE(key);
    const std::vector<UnitFacts> units = random_network(key, true);
    const ArenaLayout plan = lay_out_arena(units);
    const Follower follow(units, plan);
    CHECK(plan.floats <= two_widest(units, plan));
    planned += plan.floats, before += two_widest(units, plan);
  }
  CHECK(planned < before);
}

TEST_CASE("arena layout: blocks that are needed at the same time lie apart") {
  Rng rng(5);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Lifetime> blocks(1 + rng.below(30));
    for (Lifetime& block : blocks) {
      block.floats = static_cast<Index>(rng.below(100));
      block.begin = rng.below(20);
      block.end = block.begin + rng.below(20);
    }
    const Index size = lay_out_blocks(blocks);
    for (const Lifetime& a : blocks) {
      REQUIRE(a.first + a.floats <= size);
      for (const Lifetime& b : blocks)
        if (&a != &b && a.begin <= b.end && b.begin <= a.end)
          REQUIRE((a.first + a.floats <= b.first || b.first + b.floats <= a.first));
    }
  }
}

// Floats of all arenas with Adam at two rows, measured with outputs in a row and two gradients of the widest.
TEST_CASE("arena layout: the presets take less memory than with outputs in a row") {
  struct Before {
    const char* preset;
    Index fused, plain;
  };
  for (const Before& before :
       {Before{"neuron_inverter", 12'101'688, 12'447'112}, Before{"cosmoflow", 288'057'520, 376'305'840},
        Before{"cosmoflow_mlperf", 510'783'440, 510'783'440}})
    for (const auto& backend : {make_reference_backend(), make_cpu_backend(1)})
      for (const bool fuse : {true, false}) {
        CAPTURE(before.preset);
        const NetworkSettings settings{parse_sample(preset_sample(before.preset)), 2, preset_layers(before.preset), ""};
        const Network network(*backend, settings);
        const Execution execution = build_execution(*backend, network, {settings, 0, fuse});
        CHECK(execution.floats(network, 2) < (fuse ? before.fused : before.plain));
      }
}

TEST_CASE("arena layout: a U-Net's concats copy nothing where the backend takes slices") {
  for (const auto& backend : {make_reference_backend(), make_cpu_backend(1)}) {
    const NetworkSettings settings{parse_sample(preset_sample("unet3d")), 2, preset_layers("unet3d"), ""};
    const Network network(*backend, settings);
    const Execution execution = build_execution(*backend, network, {settings, 0, true});
    int inputs = 0;
    for (const Unit& unit : execution.units) {
      if (unit.join == nullptr) continue;
      for (std::size_t i = 0; i < unit.reads.size(); ++i, ++inputs) {
        const Unit& writer = execution.units[unit.reads[i] - 1];
        CHECK((writer.memory.output.pitch == unit.out.channels) == backend->accepts_slices());
        CHECK((unit.memory.dx[i].dx.pitch == unit.out.channels) == backend->accepts_slices());
      }
    }
    CHECK(inputs >= 4);
  }
}
