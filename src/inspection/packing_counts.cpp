#include "src/inspection/packing_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>

#include "io/rows/row_source.hpp"
#include "io/rows/sample_order.hpp"

namespace mrmf {
namespace {

// Adds what this rank's files are.
void add_packings(const RowSource& rows, PackingCount& count) {
  rows.for_each_packing([&](const Packing& packing) {
    if (const std::string text = packing.text(); !text.empty()) ++count.texts[text];
    if (!packing.not_applied.empty()) ++count.not_applied[packing.not_applied];
    if (packing.scaled()) ++count.scaled;
    if (packing.whole()) ++count.whole;
    if (packing.declared) ++count.declared;
  });
}

using Counted = std::map<std::string, Index>;

// The texts of each name, of all ranks.
void share(const std::vector<PackingCount>& own, Counted PackingCount::*texts, std::vector<PackingCount>& all,
           Comm& comm) {
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::string lines;  // for each text: which name, how often, and the text
    for (std::size_t i = 0; i < own.size() && rank == comm.rank(); ++i)
      for (const auto& [text, count] : own[i].*texts) lines += fmt::format("{} {} {}\n", i, count, text);
    comm.broadcast(lines, rank);
    std::istringstream in(lines);
    std::size_t name = 0;
    Index count = 0;
    for (std::string text; in >> name >> count && std::getline(in >> std::ws, text);) (all[name].*texts)[text] += count;
  }
}

// Some of them, the most frequent first: each with how many it holds for, and `others` of those that are not told.
std::vector<std::string> frequent(const Counted& counted, const PackingCount& count, const std::string& others) {
  constexpr std::size_t kMost = 4;
  std::vector<std::pair<Index, std::string>> sorted;
  for (const auto& [text, number] : counted) sorted.emplace_back(number, text);
  std::ranges::stable_sort(sorted, std::greater<>(), &std::pair<Index, std::string>::first);
  std::vector<std::string> texts;
  Index told = 0, all = 0;
  for (const auto& [number, text] : sorted) {
    all += number;
    if (texts.size() == kMost) continue;
    texts.push_back((number == count.all ? "" : fmt::format("{} of {} {}: ", number, count.all, count.what)) + text);
    told += number;
  }
  if (all > told) texts.push_back(fmt::format("{} of {} {}: {}", all - told, count.all, count.what, others));
  return texts;
}

}  // namespace

std::vector<PackingCount> count_packings(const DatasetSpec& spec, const std::vector<std::string>& names, Comm& comm) {
  const RowSources sources(spec, nullptr, names, {.words = true});
  std::vector<PackingCount> own(names.size()), all(names.size());
  const bool groups = spec.rows == RowsBy::groups;
  const Range files = piece(std::ssize(spec.files), comm.rank(), comm.size());
  collective_try(comm, [&] {
    for (Index file = files.first; file < files.first + files.count; ++file) {
      const auto open = sources.open(static_cast<std::size_t>(file));
      for (std::size_t i = 0; i < names.size(); ++i) {
        add_packings(*(*open)[i], own[i]);
        own[i].all += groups ? (*open)[i]->shape().front() : 1;
      }
    }
  });
  std::vector<std::int64_t> sums;
  for (const PackingCount& one : own) sums.insert(sums.end(), {one.all, one.scaled, one.whole, one.declared});
  comm.sum(std::span(sums));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = {{}, sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3], groups ? "groups" : "files", {}};
  share(own, &PackingCount::texts, all, comm);
  share(own, &PackingCount::not_applied, all, comm);
  return all;
}

std::vector<std::string> packing_texts(const PackingCount& count) {
  return frequent(count.texts, count, "by attributes of their own");
}

std::vector<std::string> not_applied_texts(const std::string& name, const PackingCount& count) {
  std::vector<std::string> texts = frequent(count.not_applied, count, "other attributes, which are not applied either");
  const bool all = count.not_applied.size() == 1 && count.not_applied.begin()->second == count.all;
  for (std::string& text : texts) text.insert(0, "'" + name + (all ? "': " : "' in "));
  return texts;
}

void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
}

}  // namespace mrmf
