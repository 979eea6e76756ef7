#include "src/data/memory_budget.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/plan/plan.hpp"
#include "src/system/host.hpp"

namespace mrmf {
namespace {

constexpr double kGiga = 1e9;
constexpr Extent kOriginal{1, 1, 1};

/// The memory that this rank may use.
struct Budget {
  double host = 0;  // bytes
  int ranks = 1;    // ranks that share it
  Index rank() const { return static_cast<Index>(host / ranks); }
};

Index visited_count(const DataPart& part) { return visited_rows(part.order).count; }
Index sample_bytes(const DataPart& part) { return part.shape.read_sample().per_sample() * size_of(part.shape.type); }
Index label_bytes(const DataPart& part) {
  return visited_count(part) * part.shape.label.per_sample() * size_of(part.shape.label_type);
}

// Bytes of all samples and of the coarse copies kept beside them.
Index bytes_in_memory(const DataPart& part, Averaging averaging, const std::vector<Extent>& resolutions) {
  Index sample = sample_bytes(part);
  for (const Extent& resolution : resolutions)
    if (resolution != kOriginal && averaging == Averaging::load)
      sample += coarse_shape(part.shape.read_sample(), resolution).per_sample() * size_of(ElementType::float32);
  return visited_count(part) * sample;
}

Index whole_bytes(const DataPart& part, const DataConfig& config) {
  std::vector<Extent> resolutions;
  for (const auto& [resolution, rows] : part.batch_rows) resolutions.push_back(resolution);
  return bytes_in_memory(part, config.averaging, resolutions);
}

// The settings as this part's.
StoreSettings of_part(StoreSettings settings, const DataPart& part) {
  settings.patch = part.patch;
  return settings;
}

Index bytes_streamed(const DataPart& part, const StoreSettings& settings, const Extent& resolution) {
  const auto rows = part.batch_rows.find(resolution);
  return SampleStore::plan(part.shape, visited_rows(part.order), settings, resolution,
                           rows == part.batch_rows.end() ? 1 : rows->second)
      .bytes;
}

// The largest need of any resolution; they follow one after the other.
Index least_bytes(const DataPart& part, const StoreSettings& settings) {
  Index least = 0;
  for (const auto& [resolution, rows] : part.batch_rows)
    least = std::max(
        least,
        SampleStore::plan(part.shape, visited_rows(part.order), of_part(settings, part), resolution, rows).least);
  return least;
}

std::string amount(double bytes) {
  return bytes < 0.1 * kGiga ? fmt::format("{:.3g} MB", bytes / 1e6) : fmt::format("{:.3g} GB", bytes / kGiga);
}

template <typename Of>
Index total(const std::vector<DataPart>& parts, Of of) {
  return std::accumulate(parts.begin(), parts.end(), Index{0},
                         [&](Index sum, const DataPart& part) { return sum + of(part); });
}

[[noreturn]] void too_little(const Budget& budget, const std::string& what, Index needed, const std::string& advice) {
  throw ConfigError(fmt::format(
      "data.memory gives {} ({} per node, {} rank{} on it), but {} need {}; set it to at least {}, {}",
      amount(static_cast<double>(budget.rank())), amount(budget.host), budget.ranks, budget.ranks == 1 ? "" : "s", what,
      amount(static_cast<double>(needed)), amount(1.01 * static_cast<double>(needed) * budget.ranks), advice));
}

// Shares the memory in proportion to the data sets' sizes, but gives each at least its minimum.
std::vector<StoreSettings> share(const DataConfig& config, const std::vector<DataPart>& parts, const Budget& budget) {
  StoreSettings bare{true, config.averaging, 0};
  bare.making = row_making(config.train);  // both splits are stored alike
  const Index there = budget.rank() - total(parts, label_bytes);
  const Index least = total(parts, [&](const DataPart& part) { return least_bytes(part, bare); });
  const Index all = total(parts, [&](const DataPart& part) { return whole_bytes(part, config); });
  if (least > there)
    too_little(budget, "labels, one batch and the next", least + budget.rank() - there,
               "or use a smaller training.batch");
  std::vector<StoreSettings> stores;
  for (const DataPart& part : parts) {
    const double fraction =
        static_cast<double>(whole_bytes(part, config)) / static_cast<double>(std::max<Index>(all, 1));
    stores.push_back(of_part(bare, part));
    stores.back().budget = least_bytes(part, bare) + static_cast<Index>(fraction * static_cast<double>(there - least));
  }
  return stores;
}

std::string stream_text(const std::vector<DataPart>& parts, const std::vector<StoreSettings>& stores, Comm& team,
                        int sharing) {
  std::string text;
  std::map<Extent, std::pair<double, double>> kept;  // kept, and all
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (const auto& [resolution, rows] : parts[i].batch_rows) {
      const Range rows_here = visited_rows(parts[i].order);
      const Index cached = SampleStore::plan(parts[i].shape, rows_here, stores[i], resolution, rows).cached;
      kept[resolution].first += static_cast<double>(std::min(cached, rows_here.count));
      kept[resolution].second += static_cast<double>(rows_here.count);
    }
  for (auto& [resolution, counts] : kept)
    text +=
        fmt::format("{}{:.0f} of {:.0f} samples at {}", text.empty() ? "" : ", ", team.sum(counts.first) / sharing,
                    team.sum(counts.second) / sharing, resolution_text(resolution, parts.front().shape.sample.axes));
  return text;
}

}  // namespace

Index data_bytes(const std::vector<DataPart>& parts, const std::vector<StoreSettings>& stores,
                 const std::vector<Extent>& resolutions) {
  Index bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Index most = 0;
    if (!stores[i].stream) most = bytes_in_memory(parts[i], stores[i].averaging, resolutions);
    for (const Extent& resolution : resolutions)
      if (stores[i].stream) most = std::max(most, bytes_streamed(parts[i], stores[i], resolution));
    bytes += most + label_bytes(parts[i]);
  }
  return bytes;
}

MemoryBudget budget_memory(const DataConfig& config, const std::vector<DataPart>& parts, Comm& team, int host_ranks,
                           int sharing) {
  const Budget budget{config.memory ? *config.memory * kGiga : kShareOfMemory * host_memory(), host_ranks};
  const Index needed =
      total(parts, label_bytes) + total(parts, [&](const DataPart& part) { return whole_bytes(part, config); });
  const bool fits = !team.any(needed > budget.rank());
  MemoryBudget plan;
  if (config.load == LoadRule::memory || (config.load == LoadRule::automatic && fits)) {
    collective_try(team, [&] {
      if (config.memory && needed > budget.rank())
        too_little(budget, "all samples at once (data.load = \"memory\")", needed, "or let data.load be \"auto\"");
    });
    for (const DataPart& part : parts) plan.stores.push_back(of_part({false, config.averaging, 0}, part));
    plan.text = fmt::format("in memory, {} of them", amount(team.sum(static_cast<double>(needed))));
  } else {
    collective_try(team, [&] { plan.stores = share(config, parts, budget); });
    plan.text = "streamed; in memory stay " + stream_text(parts, plan.stores, team, sharing);
  }
  if (team.size() > sharing && std::ranges::any_of(parts, [](const DataPart& part) { return visits_all(part.order); }))
    plan.text += ", training samples counted for every rank";
  plan.text += fmt::format(" (data.memory: {} per node)", amount(budget.host));
  return plan;
}

}  // namespace mrmf
