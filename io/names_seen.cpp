#include "io/names_seen.hpp"

#include <algorithm>
#include <sstream>
#include <string>

#include "kernels/check.hpp"

namespace mrmf {
namespace {

bool say_the_same(const LabelNames& one, const LabelNames& other) {
  return one.listed == other.listed && one.complete == other.complete && one.outputs == other.outputs &&
         one.unused.empty() == other.unused.empty() &&
         std::ranges::equal(one.of, other.of, [](const auto& a, const auto& b) {
           return a.first == b.first && a.second.text == b.second.text;
         });
}

// Lines of a text, for the other ranks: names and paths have no line ends in them.
void write_names(std::ostream& to, Index file, const LabelNames& names) {
  to << file << ' ' << names.outputs << ' ' << names.listed << ' ' << names.complete << ' ' << names.of.size() << '\n'
     << names.unused << '\n';
  for (const auto& [number, name] : names.of) to << number << '\n' << name.text << '\n' << name.where << '\n';
}

std::pair<Index, LabelNames> read_names(std::istream& from) {
  std::pair<Index, LabelNames> read;
  std::size_t count = 0;
  std::string line;
  from >> read.first >> read.second.outputs >> read.second.listed >> read.second.complete >> count;
  std::getline(from, line);
  std::getline(from, read.second.unused);
  for (; count > 0; --count) {
    Index number = 0;
    from >> number;
    LabelNames::Name& name = read.second.of[number];
    std::getline(from, line);
    std::getline(from, name.text);
    std::getline(from, name.where);
  }
  from >> std::ws;
  return read;
}

}  // namespace

void NamesSeen::add(Index file, const LabelNames& names) {
  if (std::ranges::none_of(different_, [&](const auto& one) { return say_the_same(one.second, names); }))
    different_.emplace_back(file, names);
}

LabelNames NamesSeen::agreed(Comm& comm) const {
  const bool here = std::ranges::any_of(
      different_, [](const auto& one) { return !one.second.of.empty() || !one.second.unused.empty(); });
  if (!comm.any(here)) return {};
  std::vector<std::pair<Index, LabelNames>> all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::ostringstream own;
    for (const auto& [file, names] : different_)
      if (rank == comm.rank()) write_names(own, file, names);
    std::string text = own.str();
    comm.broadcast(text, rank);
    for (std::istringstream from(text); from.peek() != std::istringstream::traits_type::eof();)
      all.push_back(read_names(from));
  }
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
  LabelNames names = all.front().second;
  for (const auto& [file, more] : all) {
    if (const std::string text = contradiction(names, more); !text.empty())
      throw DataError(text + "; " + rename_text(more));
    names.add(more);
  }
  return names;
}

}  // namespace mrmf
