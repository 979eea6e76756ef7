#include "io/same_rows.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace mrmf {
namespace {

/// What rows are made of, all but how far along they are: for each piece its name, its array, how many rows further it
/// is there than the first piece, and its part of the row.
using Make = std::vector<std::tuple<std::size_t, ObjectIdentity, Index, std::vector<Index>>>;

/// Rows of one make, by how far along the first piece's array they are.
struct Stretch {
  Index start = 0, count = 0;
  RowLocation place;
};

/// The origins of one name, along rows that continue.
class Cursor {
 public:
  explicit Cursor(const std::vector<RowOrigin>& origins) : origins_(origins) {}

  /// Those of a row that is not before the last one asked for: of overlapping ones (parts of a row) all.
  const std::vector<const RowOrigin*>& at(Index row) {
    const auto is_past = [&](const RowOrigin* origin) { return origin->first + origin->count <= row; };
    std::erase_if(here_, is_past);
    for (; next_ < origins_.size() && origins_[next_].first <= row; ++next_)
      if (!is_past(&origins_[next_])) here_.push_back(&origins_[next_]);
    return here_;
  }

 private:
  const std::vector<RowOrigin>& origins_;
  std::size_t next_ = 0;
  std::vector<const RowOrigin*> here_;
};

// What the rows from `row` on are made of, and where.
std::pair<Make, Index> make_of(std::vector<Cursor>& names, Index row) {
  Make make;
  Index start = 0;
  for (std::size_t name = 0; name < names.size(); ++name)
    for (const RowOrigin* const origin : names[name].at(row)) {
      const Index at = origin->row + row - origin->first;
      if (make.empty()) start = at;
      make.emplace_back(name, origin->array, at - start, origin->part);
    }
  return {std::move(make), start};
}

bool has_all_names(const Make& make, std::size_t names) {
  std::set<std::size_t> there;
  for (const auto& piece : make) there.insert(std::get<0>(piece));
  return there.size() == names;
}

using Makes = std::map<Make, std::vector<Stretch>>;

void add_file(const FileRows& file, std::size_t number, Makes& makes) {
  if (file.names.size() == 1) {  // the usual case, without a search for each stretch
    const std::vector<RowOrigin>& origins = file.names.front();
    const bool apart = std::ranges::adjacent_find(origins, [](const RowOrigin& a, const RowOrigin& b) {
                         return a.first + a.count > b.first;
                       }) == origins.end();
    if (apart) {
      for (const RowOrigin& origin : origins)
        makes[{{0, origin.array, 0, origin.part}}].push_back(
            {origin.row, origin.count, {number, origin.first, origin.count}});
      return;
    }
  }
  std::set<Index> cuts{0, file.rows};
  for (const std::vector<RowOrigin>& origins : file.names)
    for (const RowOrigin& origin : origins) cuts.insert(origin.first), cuts.insert(origin.first + origin.count);
  std::vector<Cursor> cursors(file.names.begin(), file.names.end());
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    const Index count = *std::next(cut) - *cut;
    auto [make, start] = make_of(cursors, *cut);
    if (has_all_names(make, file.names.size())) makes[std::move(make)].push_back({start, count, {number, *cut, count}});
  }
}

}  // namespace

std::optional<SameRows> find_same_rows(const std::vector<FileRows>& files) {
  Makes makes;
  for (std::size_t i = 0; i < files.size(); ++i) add_file(files[i], i, makes);
  std::optional<SameRows> first;
  const auto order = [](const RowLocation& place) { return std::pair(place.file, place.first); };
  for (auto& [make, stretches] : makes) {
    std::ranges::sort(stretches, {}, &Stretch::start);
    const Stretch* longest = nullptr;  // of those before, the one that ends last
    for (const Stretch& next : stretches) {
      if (longest != nullptr && next.start < longest->start + longest->count) {
        const Index count = std::min(next.start + next.count, longest->start + longest->count) - next.start;
        RowLocation one{longest->place.file, longest->place.first + next.start - longest->start, count};
        RowLocation other{next.place.file, next.place.first, count};
        if (order(other) < order(one)) std::swap(one, other);
        if (!first || order(other) < order(first->again)) first = {one, other};
      }
      if (longest == nullptr || next.start + next.count > longest->start + longest->count) longest = &next;
    }
  }
  return first;
}

namespace {

/// From where to where along the first piece's array.
struct Reach {
  Index begin = 0, end = 0;
};

/// The rows of stretches that are taken, ascending, joined where they touch.
std::vector<Reach> taken_spans(const std::vector<Stretch>& stretches, const std::vector<std::vector<bool>>& taken) {
  std::vector<Reach> spans, joined;
  for (const Stretch& stretch : stretches)
    for (Index i = 0; i < stretch.count; ++i) {
      if (!taken[stretch.place.file][static_cast<std::size_t>(stretch.place.first + i)]) continue;
      const Index at = stretch.start + i;
      if (!spans.empty() && spans.back().end == at)
        ++spans.back().end;
      else
        spans.push_back({at, at + 1});
    }
  std::ranges::sort(spans, {}, &Reach::begin);
  for (const Reach& span : spans)
    if (!joined.empty() && span.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, span.end);
    else
      joined.push_back(span);
  return joined;
}

}  // namespace

std::vector<RowLocation> rows_also_in(const std::vector<FileRows>& here, const std::vector<FileRows>& there,
                                      const std::vector<std::vector<bool>>& taken) {
  Makes own, others;
  for (std::size_t i = 0; i < here.size(); ++i) add_file(here[i], i, own);
  for (std::size_t i = 0; i < there.size(); ++i) add_file(there[i], i, others);
  std::vector<RowLocation> common;
  for (const auto& [make, stretches] : own) {
    const auto other = others.find(make);
    if (other == others.end()) continue;
    const std::vector<Reach> spans = taken_spans(other->second, taken);
    for (const Stretch& stretch : stretches) {
      const Index end = stretch.start + stretch.count;
      auto span = std::ranges::upper_bound(spans, stretch.start, {}, &Reach::end);
      for (; span != spans.end() && span->begin < end; ++span) {
        const Index first = std::max(span->begin, stretch.start), last = std::min(span->end, end);
        common.push_back({stretch.place.file, stretch.place.first + first - stretch.start, last - first});
      }
    }
  }
  return common;
}

}  // namespace mrmf
