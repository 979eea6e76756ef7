#include "src/bench/table_rounds.hpp"

#include <algorithm>

#include "src/bench/bench.hpp"

namespace mrmf {
namespace {

// The median of a number that get(round) finds in every round.
template <class Get>
double over(const std::vector<TableRound>& rounds, const Get& get) {
  std::vector<double> values;
  for (const TableRound& round : rounds) values.push_back(get(round.times));
  return median(values);
}

template <class Get>
Line line_over(const std::vector<TableRound>& rounds, const Get& get) {
  return {over(rounds, [&](const TeamTables& times) { return get(times).latency; }),
          over(rounds, [&](const TeamTables& times) { return get(times).per_unit; })};
}

}  // namespace

RoundSpread spread_of(const std::vector<TableRound>& rounds) {
  RoundSpread spread;
  std::vector<double> all;
  for (std::size_t network = 0; network < rounds.front().steps.size(); ++network) {
    std::vector<double> seconds;
    for (const TableRound& round : rounds) seconds.push_back(round.steps.at(network).seconds);
    const auto [least, most] = std::ranges::minmax(seconds);
    all.push_back((most - least) / median(seconds));
    if (all.back() < spread.most) continue;
    spread.most = all.back();
    spread.worst = rounds.front().steps[network].network;
  }
  if (!all.empty()) spread.median = median(all);
  return spread;
}

TeamTables median_of(const std::vector<TableRound>& rounds) {
  TeamTables all = rounds.front().times;
  for (std::size_t i = 0; i < all.operations.size(); ++i) {
    const auto pass = [&](const auto& get) {
      return over(rounds, [&](const TeamTables& times) { return get(times.operations.at(i)); });
    };
    OperationTime& point = all.operations[i];
    point.forward = pass([](const OperationTime& one) { return one.forward; });
    if (point.data) point.data = pass([](const OperationTime& one) { return one.data.value(); });
    if (point.weights) point.weights = pass([](const OperationTime& one) { return one.weights.value(); });
  }
  for (std::size_t i = 0; i < all.updates.size(); ++i)
    all.updates[i].seconds = over(rounds, [&](const TeamTables& times) { return times.updates.at(i).seconds; });
  all.loss = line_over(rounds, [](const TeamTables& times) { return times.loss; });
  all.load = line_over(rounds, [](const TeamTables& times) { return times.load; });
  for (std::optional<Line> TeamTables::*line : {&TeamTables::message, &TeamTables::sum, &TeamTables::update_sum})
    if (all.*line) all.*line = line_over(rounds, [&](const TeamTables& times) { return (times.*line).value(); });
  all.small_sum = over(rounds, [](const TeamTables& times) { return times.small_sum; });
  all.spread = spread_of(rounds).median;
  return all;
}

}  // namespace mrmf
