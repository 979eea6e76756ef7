#include "src/inspection/packing_count.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "io/row_source.hpp"
#include "io/sample_order.hpp"

namespace mrmf {

std::vector<PackingCount> count_packings(const DatasetSpec& spec, const std::vector<std::string>& names, Comm& comm) {
  const RowSources sources(spec, nullptr, names, {.words = true});
  std::vector<PackingCount> own(names.size()), all(names.size());
  const Range files = piece(std::ssize(spec.files), comm.rank(), comm.size());
  collective_try(comm, [&] {
    for (Index file = files.first; file < files.first + files.count; ++file) {
      const auto open = sources.open(static_cast<std::size_t>(file));
      for (std::size_t i = 0; i < names.size(); ++i)
        if (const std::string text = (*open)[i]->packing().text(); !(*open)[i]->holds_words() && !text.empty())
          ++own[i][text];
    }
  });
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::string lines;  // of each: which name, how often, and the text
    for (std::size_t i = 0; i < own.size() && rank == comm.rank(); ++i)
      for (const auto& [text, count] : own[i]) lines += fmt::format("{} {} {}\n", i, count, text);
    comm.broadcast(lines, rank);
    std::istringstream in(lines);
    std::size_t name = 0;
    Index count = 0;
    for (std::string text; in >> name >> count && std::getline(in >> std::ws, text);) all[name][text] += count;
  }
  return all;
}

std::vector<std::string> packing_texts(const PackingCount& count, Index files) {
  constexpr std::size_t kMost = 4;
  std::vector<std::pair<Index, std::string>> sorted;
  for (const auto& [text, number] : count) sorted.emplace_back(number, text);
  std::ranges::stable_sort(sorted, std::greater<>(), &std::pair<Index, std::string>::first);
  std::vector<std::string> texts;
  Index told = 0;
  for (const auto& [number, text] : sorted) {
    if (texts.size() == kMost) break;
    texts.push_back((number == files ? "" : fmt::format("{} of {} files: ", number, files)) + text);
    told += number;
  }
  Index all = 0;
  for (const auto& [number, text] : sorted) all += number;
  if (all > told) texts.push_back(fmt::format("{} of {} files: by attributes of their own", all - told, files));
  return texts;
}

}  // namespace mrmf
