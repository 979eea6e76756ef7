// The arena of activations and gradients: a step is followed on paper, cell by cell, for random networks. Whoever reads
// must find what was written for it.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "layers/arena_plan.hpp"
#include "layers/execution.hpp"
#include "src/config/presets.hpp"

using namespace mrmf;

namespace {

/// The arena, with the number of a tensor in every cell.
class Shadow {
 public:
  explicit Shadow(const ArenaPlan& plan) : cells_(static_cast<std::size_t>(plan.floats), 0) {}
  int write(const Place& place) {
    REQUIRE(place.first % 16 == 0);
    REQUIRE(place.first >= 0);
    REQUIRE(place.end() <= std::ssize(cells_));
    ++last_;
    std::fill(cells_.begin() + place.first, cells_.begin() + place.end(), last_);
    return last_;
  }
  bool has(const Place& place, int tensor) const {
    return std::all_of(cells_.begin() + place.first, cells_.begin() + place.end(), [&](int c) { return c == tensor; });
  }

 private:
  std::vector<int> cells_;
  int last_ = 0;
};

/// Follows one training step. What a call reads must still be there after it has written, unless it may work in place.
class Follower {
 public:
  Follower(const std::vector<UnitFacts>& units, const ArenaPlan& plan) : units_(units), plan_(plan), arena_(plan) {
    y_.resize(units.size() + 1);
    gradient_.resize(units.size() + 1);
    for (std::size_t u = 0; u < units.size(); ++u) forward(u);
    gradient_.back().tensor = arena_.write(plan.units.back().dy);
    CHECK(has_output(units.size()));
    for (std::size_t u = units.size(); u-- > 0;) backward(u);
    CHECK(has_output(units.size()));
  }

 private:
  struct Gradient {
    int tensor = 0;
    std::set<std::size_t> givers;
  };

  bool has_output(std::size_t number) const {
    return number == 0 || arena_.has(plan_.units[number - 1].output, y_[number]);
  }
  bool has_inputs(std::size_t u, std::size_t from = 0) const {
    return std::all_of(units_[u].reads.begin() + static_cast<std::ptrdiff_t>(std::min(from, units_[u].reads.size())),
                       units_[u].reads.end(), [&](std::size_t number) { return has_output(number); });
  }

  void forward(std::size_t u) {
    const UnitMemory& memory = plan_.units[u];
    CHECK(memory.output.count == units_[u].floats);
    CHECK(has_inputs(u));
    if (units_[u].identity && memory.in_place) {
      CHECK(memory.output.first == plan_.units[units_[u].reads[0] - 1].output.first);
      y_[u + 1] = y_[units_[u].reads[0]];
      return;
    }
    y_[u + 1] = arena_.write(memory.output);
    CHECK(has_inputs(u, memory.in_place ? 2 : 0));  // a sum over one of its first two reads the others afterwards
  }

  void backward(std::size_t u) {
    const UnitFacts& unit = units_[u];
    const UnitMemory& memory = plan_.units[u];
    for (std::size_t reader = u + 1; reader < units_.size(); ++reader)
      if (std::ranges::count(units_[reader].reads, u + 1) > 0) CHECK(gradient_[u + 1].givers.contains(reader));
    const int dy = gradient_[u + 1].tensor;
    const auto reads_hold = [&](bool in_place) {
      CHECK((in_place || arena_.has(memory.dy, dy)));
      if (unit.reads_output) CHECK(has_output(u + 1));
      if (unit.reads_input) CHECK(has_inputs(u));
    };
    reads_hold(false);
    REQUIRE(memory.dx.size() == unit.reads.size());
    std::vector<int> written(unit.reads.size(), dy);
    bool over = false;
    for (std::size_t i = 0; i < unit.reads.size(); ++i) {
      const Place& dx = memory.dx[i].dx;
      if (unit.reads[i] == 0) {
        CHECK(dx.count == 0);
        continue;
      }
      CHECK(dx.count == units_[unit.reads[i] - 1].floats);
      const bool same = dx.first == memory.dy.first;
      if (unit.dx_is_dy || unit.identity) {
        CHECK(same);
        continue;
      }
      over = over || same;
      CHECK((!same || (unit.in_place && unit.reads.size() == 1)));
      written[i] = arena_.write(dx);
    }
    reads_hold(over);
    for (std::size_t i = 0; i < unit.reads.size(); ++i)
      if (unit.reads[i] != 0) add_up(memory.dx[i], written[i], gradient_[unit.reads[i]], u);
  }

  void add_up(const InputGradient& to, int dx, Gradient& gradient, std::size_t u) {
    CHECK(arena_.has(to.dx, dx));
    if (gradient.givers.empty()) {
      CHECK(to.before.count == 0);
      gradient.tensor = dx;
    } else {
      CHECK(to.before.count == to.dx.count);
      CHECK(arena_.has(to.before, gradient.tensor));
      gradient.tensor = arena_.write(to.sum);
      const auto apart = [&](const Place& part) {
        return part.first == to.sum.first || part.end() <= to.sum.first || to.sum.end() <= part.first;
      };
      CHECK((apart(to.before) && apart(to.dx)));
    }
    gradient.givers.insert(u);
  }

  const std::vector<UnitFacts>& units_;
  const ArenaPlan& plan_;
  Shadow arena_;
  std::vector<int> y_;
  std::vector<Gradient> gradient_;
};

/// A unit like one of our layers, which reads what `pick` says.
template <class Pick>
UnitFacts random_unit(Rng& rng, const std::vector<UnitFacts>& units, Pick pick) {
  const auto floats_of = [&](std::size_t number) { return number == 0 ? Index{40} : units[number - 1].floats; };
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
  switch (most(8)) {
    case 0: unit.floats = 1 + most(200); break;                                               // convolution
    case 1: break;                                                                            // batch norm
    case 2: unit.in_place = true, unit.reads_output = true, unit.reads_input = false; break;  // activation
    case 3: unit.in_place = true, unit.reads_input = false; break;                            // dropout
    case 4: unit.floats = 1 + unit.floats / 4, unit.reads_input = false; break;               // pooling
    case 5: unit.in_place = unit.identity = true, unit.reads_input = false; break;            // flatten
    case 6:                                                                                   // add
      more_inputs(true);
      unit.in_place = unit.dx_is_dy = true, unit.reads_input = false;
      break;
    default:  // concat
      more_inputs(false);
      unit.reads_input = false;
      unit.floats = 0;
      for (const std::size_t number : unit.reads) unit.floats += floats_of(number);
  }
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
Index two_widest(const std::vector<UnitFacts>& units, const ArenaPlan& plan) {
  Index outputs = 0, widest = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (!plan.units[u].in_place) outputs += aligned(units[u].floats);
    widest = std::max(widest, aligned(units[u].floats));
  }
  return outputs + 2 * widest;
}

}  // namespace

TEST_CASE("arena plan: whoever reads finds what was written for it, in random networks") {
  for (std::uint64_t key = 0; key < 3000; ++key) {
    CAPTURE(key);
    const std::vector<UnitFacts> units = random_network(key, false);
    const ArenaPlan plan = plan_arena(units);
    const Follower follow(units, plan);
    CHECK(plan.floats <= plan.separate);
  }
}

TEST_CASE("arena plan: chains take no more than outputs in a row and two gradients of the widest") {
  Index planned = 0, before = 0;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    CAPTURE(key);
    const std::vector<UnitFacts> units = random_network(key, true);
    const ArenaPlan plan = plan_arena(units);
    const Follower follow(units, plan);
    CHECK(plan.floats <= two_widest(units, plan));
    planned += plan.floats, before += two_widest(units, plan);
  }
  CHECK(planned < before);
}

TEST_CASE("arena plan: blocks that are needed at the same time lie apart") {
  Rng rng(5);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Block> blocks(1 + rng.below(30));
    for (Block& block : blocks) {
      block.floats = static_cast<Index>(rng.below(100));
      block.begin = rng.below(20);
      block.end = block.begin + rng.below(20);
    }
    const Index size = place_blocks(blocks);
    for (const Block& a : blocks) {
      REQUIRE(a.first + a.floats <= size);
      for (const Block& b : blocks)
        if (&a != &b && a.begin <= b.end && b.begin <= a.end)
          REQUIRE((a.first + a.floats <= b.first || b.first + b.floats <= a.first));
    }
  }
}

// Floats of all arenas with Adam at two rows, measured with outputs in a row and two gradients of the widest.
TEST_CASE("arena plan: the presets take less memory than with outputs in a row") {
  struct Before {
    const char* preset;
    Index fused, plain;
  };
  for (const Before& before :
       {Before{"neuron_inverter", 12'101'688, 12'447'112}, Before{"cosmoflow", 288'057'520, 376'305'840},
        Before{"cosmoflow_mlperf", 510'783'440, 510'783'440}})
    for (const auto& backend : {make_reference_backend(), make_onednn_backend(1)})
      for (const bool fuse : {true, false}) {
        CAPTURE(before.preset);
        const NetworkSettings settings{parse_sample(preset_sample(before.preset)), 2, preset_layers(before.preset), ""};
        const Network network(*backend, settings);
        const Execution execution = plan_execution(*backend, network, {settings, 0, fuse});
        CHECK(execution.floats(network, 2) < (fuse ? before.fused : before.plain));
      }
}
