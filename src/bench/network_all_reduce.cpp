// `mrmf bench network`: seconds of a sum over ranks by scheme and length, beside what its bytes and codes take at
// least.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ostream>

#include "src/bench/bench.hpp"
#include "src/training/gradient_compression.hpp"

namespace mrmf {
namespace {

struct Row {
  std::size_t values;
  SumTrial trial;
  double limit;  // seconds that the link needs for the bytes, and the rank for the codes
};

std::vector<Row> measure(const SumBenchSettings& settings, double link, Comm& world) {
  using enum Communication;
  std::vector<Row> rows;
  for (const Index values : settings.values)
    for (const Communication scheme : {fp32, bf16, int8, levels8, levels4, vote}) {
      if (world.size() > most_workers({scheme})) continue;
      const SumTrial trial = try_sum(scheme, static_cast<std::size_t>(values), settings.times, world);
      rows.push_back({static_cast<std::size_t>(values), trial, trial.packing + trial.sent / link});
    }
  return rows;
}

std::string json_of(const std::vector<Row>& rows, const Comm& world, double link, bool given) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows)
    all.push_back({{"values", row.values},
                   {"communication", to_string(row.trial.scheme)},
                   {"sent_bytes", row.trial.sent},
                   {"seconds", row.trial.seconds},
                   {"packing_seconds", row.trial.packing},
                   {"limit_seconds", row.limit}});
  return nlohmann::ordered_json{
      {"ranks", world.size()}, {"bytes_per_second", link}, {"measured", !given}, {"sums", all}}
      .dump(2);
}

}  // namespace

void bench_network(const SumBenchSettings& settings, Comm& world, std::ostream& out) {
  if (world.size() == 1) throw ConfigError("bench network needs two ranks or more: mpirun -n 2 mrmf bench network");
  const bool given = settings.gbit > 0;
  const double link = given ? settings.gbit * 1e9 / 8 : measured_link(world);
  const std::vector<Row> rows = measure(settings, link, world);
  if (!world.root()) return;
  if (settings.print_json) {
    out << json_of(rows, world, link, given) << "\n";
    return;
  }
  out << fmt::format("{} ranks; {} {:.3g} Gbit/s that each sends\n", world.size(),
                     given ? "by" : "measured:", 8e-9 * link);
  out << fmt::format("{:>10} {:<8} {:>10} {:>10} {:>11} {:>10} {:>7} {:>9}\n", "values", "", "MB sent", "ms",
                     "packing ms", "both ms", "ratio", "fp32 / it");
  double plain = 0;
  for (const Row& row : rows) {
    if (row.trial.scheme == Communication::fp32) plain = row.trial.seconds;
    out << fmt::format("{:>10} {:<8} {:>10.3f} {:>10.2f} {:>11.2f} {:>10.2f} {:>7.2f} {:>9.2f}\n", row.values,
                       to_string(row.trial.scheme), 1e-6 * row.trial.sent, 1e3 * row.trial.seconds,
                       1e3 * row.trial.packing, 1e3 * row.limit, row.trial.seconds / row.limit,
                       plain / row.trial.seconds);
  }
}

}  // namespace mrmf
