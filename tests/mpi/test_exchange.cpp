// What travels between trainers: parameters, running statistics, moments and step numbers, between equal places.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "mpi/comm.hpp"
#include "src/tournament/tournament.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

// A model whose floats all say whose they are and where.
void fill(ModelState& model, float whose) {
  std::vector<Span> spans = model.optimizer.moments();
  spans.push_back(model.model.params());
  spans.push_back(model.model.state());
  float number = 0;
  for (const Span span : spans)
    for (float& value : span) value = whose + (number += 1) / 1e6F;
  model.optimizer.set_ages({static_cast<std::uint64_t>(10 * whose), static_cast<std::uint64_t>(10 * whose + 1)});
}

std::vector<float> floats(const std::vector<Span>& spans) {
  std::vector<float> all;
  for (const Span span : spans) all.insert(all.end(), span.begin(), span.end());
  return all;
}

}  // namespace

TEST_CASE("exchange: each of two gets what the other had, in every place, and nothing else changes") {
  Comm world = Comm::world();
  if (world.size() < 2) return;
  Comm pair = world.split(world.rank() / 2);
  if (pair.size() < 2) return;
  const auto backend = make_cpu_backend(1);
  for (const std::vector<std::string>& names : {std::vector<std::string>{}, {"conv*"}, {"dense1", "conv1"}}) {
    const ModelSettings settings = small_model(24, 1);
    ModelState mine(*backend, settings, {}, {1, 1, 1}), theirs(*backend, settings, {}, {1, 1, 1});
    fill(mine, 1.0F + static_cast<float>(pair.rank()));
    fill(theirs, 2.0F - static_cast<float>(pair.rank()));
    const ExchangedTensors travelling(mine, names), others(theirs, names);
    const std::vector<float> before = floats({mine.model.params(), mine.model.state()});
    Route route(pair.duplicate(), {0, 1}, pair.rank());
    std::vector<float> visitor(floats_of(travelling.model()));
    route.send(*backend, travelling.model(), {true, true}, [&](std::size_t first, ConstSpan values) {
      std::ranges::copy(values, visitor.begin() + static_cast<std::ptrdiff_t>(first));
    });
    CHECK(visitor == floats(others.model()));
    swap_with(*backend, travelling.model(), visitor);
    CHECK(floats(travelling.model()) == floats(others.model()));
    swap_with(*backend, travelling.model(), visitor);
    CHECK(floats({mine.model.params(), mine.model.state()}) == before);
    // Both at once, each into its own places, from which it also sends.
    route.send(*backend, travelling.moments(), {true, true},
               [&](std::size_t first, ConstSpan values) { write_to(*backend, travelling.moments(), first, values); });
    CHECK(floats(travelling.moments()) == floats(others.moments()));
    const MomentAges ages = travelling.ages(mine.optimizer.ages(), theirs.optimizer.ages());
    if (names.empty()) CHECK(ages == theirs.optimizer.ages());
    if (names.size() == 2) CHECK(ages.top == mine.optimizer.ages().top);  // only a part of it has travelled
    const auto told = route.tell({pair.rank() + 5, 7});
    CHECK(told == std::vector<std::vector<std::int64_t>>{{5, 7}, {6, 7}});
  }
}

TEST_CASE("exchange: what is larger than a piece, whose bounds are not those of the spans") {
  Comm world = Comm::world();
  const auto backend = make_cpu_backend(1);
  const int senders = std::min(2, world.size());
  const bool sends = world.rank() < senders;
  std::vector<float> first(100003), second(700001);
  const auto of = [](int rank, std::size_t index) { return static_cast<float>((index * 7 + 13 * rank) % 1000003); };
  const auto fill = [&](std::vector<float>& values, std::size_t begin) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = sends ? of(world.rank(), begin + i) : -1;
  };
  fill(first, 0), fill(second, first.size());
  const std::vector<Span> spans{first, second};
  std::vector<int> roots(static_cast<std::size_t>(senders));
  std::iota(roots.begin(), roots.end(), 0);
  std::vector<bool> gives(roots.size(), false);
  gives.back() = true;  // the last of the senders alone: all others get what it has, in its places
  Route route(world.duplicate(), roots, sends ? world.rank() : -1);
  route.send(*backend, spans, gives, [&](std::size_t at, ConstSpan values) { write_to(*backend, spans, at, values); });
  const std::vector<float> all = floats(spans);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) wrong += all[i] == of(senders - 1, i) ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("exchange: a team waits for another for longer than the limit of a call") {
  Comm world = Comm::world();
  if (world.size() < 2) return;
  Comm limited = world.duplicate();
  limited.limit(0.2);
  Comm team = limited.split(world.rank() == 0 ? 0 : 1);
  Rendezvous rendezvous(limited);
  if (team.limit() > 0 && world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(600));
  std::vector<float> said(2, world.rank() == 0 ? 3.0F : 0.0F);
  const double waited = rendezvous.sum_when_all_arrive(said, team);
  CHECK(said == std::vector<float>{3, 3});
  if (world.rank() != 0) CHECK(waited > 0.3);
}

TEST_CASE("exchange: a name that stands for no layer") {
  const auto backend = make_cpu_backend(1);
  ModelState model(*backend, small_model(24, 1), {}, {1, 1, 1});
  CHECK_THROWS_AS(ExchangedTensors(model, {"conv1", "decoder*"}), ConfigError);
}
