// Which rows of a data set train, validate or test: by shares chosen at random, by groups that stay together, by
// folds; and the equal pieces of these.
#include "io/rows/split.hpp"
#include "io/rows/split_column_and_groups.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "io/rows/class_values.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

/// The rows with the smallest hashes, the smallest `first` of them aside: exactly as many as wanted, and most stay when
/// rows are added.
std::vector<Index> random_rows(Index rows, Index first, Index wanted, std::uint64_t seed) {
  constexpr std::uint64_t kSplit = 0x73706c6974;  // apart from other uses of the seed
  const auto random_key = [&](Index row) {
    return std::pair(mix(mix(seed, kSplit), static_cast<std::uint64_t>(row)), row);
  };
  std::vector<Index> chosen(static_cast<std::size_t>(rows));
  std::iota(chosen.begin(), chosen.end(), Index{0});
  std::ranges::nth_element(chosen, chosen.begin() + first + wanted, {}, random_key);
  chosen.resize(static_cast<std::size_t>(first + wanted));
  std::ranges::nth_element(chosen, chosen.begin() + first, {}, random_key);
  chosen.erase(chosen.begin(), chosen.begin() + first);
  std::ranges::sort(chosen);
  return chosen;
}

std::vector<Subset> by_roles(const RowChoice& choice, const SplitColumn& column) {
  const auto roles = roles_of(choice, column);
  std::vector<Subset> parts;
  // Without a choice, rows of the word "test" test, if that is asked for; all others are for nothing.
  const auto otherwise = [&](std::size_t value) {
    return tests(choice.test_roles, column, column.values[value]) ? Subset::test : Subset::all;
  };
  for (const std::int32_t row : column.of_row) {
    const auto value = static_cast<std::size_t>(row);
    parts.push_back(roles[value] ? *roles[value] : otherwise(value));
  }
  return parts;
}

std::vector<Subset> by_shares(const RowChoice& choice, Index rows) {
  std::vector<Subset> parts(static_cast<std::size_t>(rows), Subset::train);
  if (rows < 2) return parts;
  const auto share = [&](double of) { return static_cast<Index>(std::llround(of * static_cast<double>(rows))); };
  const Index validate = std::clamp<Index>(share(choice.validation), 1, rows - 1);
  for (const Index row : random_rows(rows, 0, validate, choice.seed))
    parts[static_cast<std::size_t>(row)] = Subset::validation;
  if (choice.test == 0) return parts;
  if (rows < 3)
    throw DataError("there are " + std::to_string(rows) +
                    " rows, and the split has 3 sides, each of which needs one; leave data.split.test out");
  const Index test = std::clamp<Index>(share(choice.test), 1, rows - 1 - validate);
  for (const Index row : random_rows(rows, validate, test, choice.seed))
    parts[static_cast<std::size_t>(row)] = Subset::test;
  return parts;
}

}  // namespace

std::vector<std::string> RowChoice::columns() const {
  if (rule != SplitRule::arrays) return column.empty() ? std::vector<std::string>{} : std::vector<std::string>{column};
  std::vector<std::string> names = train_roles;
  names.insert(names.end(), validation_roles.begin(), validation_roles.end());
  names.insert(names.end(), test_roles.begin(), test_roles.end());
  return names;
}

std::vector<Index> choose_rows(const RowChoice& choice, Index rows, const SplitColumn& column,
                               const std::vector<std::int32_t>& strata) {
  std::vector<Index> chosen;
  std::vector<Subset> parts;
  if (choice.part != Subset::all) {
    MRMF_CHECK(choice.columns().empty() || std::ssize(column.of_row) == rows, "the column is not of these rows");
    parts = choice.by_roles()                                  ? by_roles(choice, column)
            : choice.rule == SplitRule::rows && strata.empty() ? by_shares(choice, rows)
                                                               : parts_of_rows(choice, rows, column, strata);
  }
  for (Index row = 0; row < rows; ++row)
    if (choice.part == Subset::all || parts[static_cast<std::size_t>(row)] == choice.part) chosen.push_back(row);
  return chosen;
}

std::string ranges_text(const std::vector<Index>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (end - i > 1) text += (end - i == 2 ? ", " : "-") + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

std::vector<Index> rows_of_piece(const RowPiece& piece, std::vector<Index> rows) {
  if (piece.all()) return rows;
  MRMF_CHECK(piece.number >= 0 && piece.number < piece.of, "a part that there is not");
  constexpr std::uint64_t kPiece = 0x7069656365;  // apart from other uses of the seed
  std::ranges::sort(rows, {}, [&](Index row) {
    return std::pair(mix(mix(piece.seed, kPiece), static_cast<std::uint64_t>(row)), row);
  });
  const Range own = mrmf::piece(std::ssize(rows), piece.number, piece.of);
  Index held = 0;
  if (piece.held_out > 0 && own.count > 1)
    held = std::clamp<Index>(std::llround(piece.held_out * static_cast<double>(own.count)), 1, own.count - 1);
  const Range wanted = piece.held ? Range{own.first, held} : Range{own.first + held, own.count - held};
  const auto first = rows.begin() + wanted.first;
  std::vector<Index> chosen(first, first + wanted.count);
  std::ranges::sort(chosen);
  return chosen;
}

namespace {

/// What the parts have of all rows and of each class so far, against what they are to have.
class Balance {
 public:
  Balance(const std::vector<RowCluster>& groups, const std::vector<double>& shares) : shares_(shares) {
    for (const RowCluster& group : groups)
      for (const auto& [c, rows] : group.class_rows) classes_ = std::max(classes_, static_cast<std::size_t>(c) + 1);
    totals_.resize(classes_ + 1);
    has_.resize((classes_ + 1) * shares.size());
    for (const RowCluster& group : groups) each(group, [&](std::size_t c, double rows) { totals_[c] += rows; });
  }

  // How much further from its share the part is with the group: less is better. Squares, relative to each class.
  double cost(const RowCluster& group, std::size_t part) const {
    double sum = 0;
    each(group, [&](std::size_t c, double rows) {
      const double lacks = shares_[part] * totals_[c] - has_[part * (classes_ + 1) + c];
      sum += rows * (rows - 2 * lacks) / totals_[c];
    });
    return sum;
  }
  void add(const RowCluster& group, std::size_t part, double sign = 1) {
    each(group, [&](std::size_t c, double rows) { has_[part * (classes_ + 1) + c] += sign * rows; });
  }

 private:
  // All rows are one more class, the last.
  template <class Visit>
  void each(const RowCluster& group, const Visit& visit) const {
    for (const auto& [c, rows] : group.class_rows) visit(static_cast<std::size_t>(c), static_cast<double>(rows));
    visit(classes_, static_cast<double>(group.rows));
  }

  const std::vector<double>& shares_;
  std::size_t classes_ = 0;
  std::vector<double> totals_, has_;
};

// Moves groups, in their order, to parts that they suit better, until none does. A group that came early met empty
// parts.
void move_to_balance(const std::vector<RowCluster>& groups, const std::vector<std::size_t>& order, Balance& balance,
                     std::vector<std::size_t>& members, std::vector<std::size_t>& part) {
  constexpr int most_rounds = 20;
  if (std::ranges::all_of(groups, [](const RowCluster& group) { return group.rows == 1; })) return;
  bool moved = true;
  for (int round = 0; moved && round < most_rounds; ++round) {
    moved = false;
    for (const std::size_t g : order) {
      if (members[part[g]] == 1) continue;
      balance.add(groups[g], part[g], -1);
      std::size_t best = part[g];
      for (std::size_t p = 0; p < members.size(); ++p)
        if (balance.cost(groups[g], p) < balance.cost(groups[g], best)) best = p;
      balance.add(groups[g], best);
      if (best == part[g]) continue;
      --members[part[g]];
      ++members[best];
      part[g] = best;
      moved = true;
    }
  }
}

}  // namespace

std::vector<std::size_t> assign_groups(const std::vector<RowCluster>& groups, const std::vector<double>& shares) {
  MRMF_CHECK(groups.size() >= shares.size(), "fewer groups than parts");
  std::vector<std::size_t> order(groups.size()), part(groups.size()), members(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const RowCluster &x = groups[a], &y = groups[b];
    return x.random_key != y.random_key ? x.random_key < y.random_key : a < b;
  });
  Balance balance(groups, shares);
  std::size_t left = groups.size(), without = shares.size();
  for (const std::size_t g : order) {
    // The last groups go to parts that have none.
    const bool needed = left-- == without;
    std::size_t best = shares.size();
    double least = 0;
    for (std::size_t p = 0; p < shares.size(); ++p) {
      if (needed && members[p] > 0) continue;
      const double cost = balance.cost(groups[g], p);
      if (best == shares.size() || cost < least) best = p, least = cost;
    }
    part[g] = best;
    without -= members[best]++ == 0 ? 1 : 0;
    balance.add(groups[g], best);
  }
  move_to_balance(groups, order, balance, members, part);
  return part;
}

namespace {

constexpr Index kAtOnce = Index{1} << 16;  // rows

// Number of each value, as they come.
template <class Value>
std::int32_t number_of(std::map<Value, std::int32_t>& numbers, const Value& value) {
  return numbers.try_emplace(value, static_cast<std::int32_t>(numbers.size())).first->second;
}

void add_number_strata(const RowSource& labels, std::map<double, std::int32_t>& numbers,
                       std::vector<std::int32_t>& strata) {
  const Index rows = labels.shape().front(), wide = labels.row_elements();
  std::vector<std::byte> raw;
  std::vector<float> row(static_cast<std::size_t>(wide));
  for (Index first = 0; first < rows; first += kAtOnce) {
    const Index count = std::min(kAtOnce, rows - first);
    raw.resize(static_cast<std::size_t>(count * labels.row_bytes()));
    labels.read(first, count, raw.data());
    for (Index i = 0; i < count; ++i) {
      double value = number_at(labels.type(), raw.data(), i * wide);
      if (wide > 1) {
        for (Index c = 0; c < wide; ++c)
          row[static_cast<std::size_t>(c)] = static_cast<float>(number_at(labels.type(), raw.data(), i * wide + c));
        const auto index = one_hot_index(row);
        value = index ? static_cast<double>(*index) : -1;
      }
      strata.push_back(number_of(numbers, std::isfinite(value) ? value : -1.0));
    }
  }
}

/// Which rows belong together: those with the same value of a column, or each row by itself.
struct Groups {
  std::vector<RowCluster> groups;
  std::vector<std::size_t> of_row;  ///< group of each row; groups.size(): of none, since it tests already
};

std::uint64_t hash_of(const std::string& value, std::uint64_t seed) {
  return mix(seed, XXH3_64bits(value.data(), value.size()));
}

Groups make_groups(const RowChoice& choice, Index rows, const SplitColumn& column,
                   const std::vector<std::int32_t>& strata) {
  constexpr std::uint64_t kSplit = 0x73706c6974;  // apart from other uses of the seed
  const bool grouped = choice.by_groups();
  Groups all;
  all.groups.resize(grouped ? column.values.size() : static_cast<std::size_t>(rows));
  std::vector<std::map<std::int32_t, Index>> of(strata.empty() ? 0 : all.groups.size());
  for (Index row = 0; row < rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    const std::size_t g = grouped ? static_cast<std::size_t>(column.of_row[r]) : r;
    all.of_row.push_back(g);
    RowCluster& group = all.groups[g];
    group.rows += 1;
    group.random_key = grouped ? hash_of(column.values[g], choice.seed)
                               : mix(mix(choice.seed, kSplit), static_cast<std::uint64_t>(row));
    if (!strata.empty()) of[g][strata[r]] += 1;
  }
  for (std::size_t g = 0; g < of.size(); ++g) all.groups[g].class_rows.assign(of[g].begin(), of[g].end());
  return all;
}

std::string counted(std::size_t count, const char* one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

void require_groups(const RowChoice& choice, std::size_t groups, std::size_t parts, const SplitColumn& column) {
  if (groups >= parts) return;
  const std::string what = choice.by_groups() ? "'" + column.name + "' has " + counted(groups, "group")
                                              : "there are " + counted(groups, "row");
  if (choice.rule == SplitRule::folds)
    throw DataError(what + ", and data.split.folds = " + std::to_string(choice.folds) +
                    (choice.test > 0 ? " with rows that test" : "") + " needs at least " + std::to_string(parts) +
                    "; take fewer folds");
  throw DataError(what + ", and the split has " + std::to_string(parts) +
                  " sides, each of which needs one; take fewer sides, or split by rows (data.split.by = \"rows\")");
}

// Groups are named by whole numbers or words: numbers with a fraction are measurements.
void require_names(const SplitColumn& column, const std::string& key) {
  if (column.words) return;
  for (const std::string& value : column.values)
    if (value.find_first_not_of("-0123456789") != std::string::npos && std::fmod(std::stod(value), 1.0) != 0)
      throw DataError("'" + column.name + "' holds numbers that are not whole, such as " + value + ", and " + key +
                      " wants whole numbers or words that name what rows belong to; name another data set");
}

/// Shares rows out over parts; index into `parts` of each row.
std::vector<Subset> by_shares(const RowChoice& choice, Groups all, const SplitColumn& column) {
  std::vector<Subset> parts{Subset::train, Subset::validation};
  std::vector<double> shares{1 - choice.validation - choice.test, choice.validation};
  if (choice.test > 0) parts.push_back(Subset::test), shares.push_back(choice.test);
  require_groups(choice, all.groups.size(), parts.size(), column);
  const std::vector<std::size_t> part = assign_groups(all.groups, shares);
  std::vector<Subset> of_row;
  for (const std::size_t g : all.of_row) of_row.push_back(parts[part[g]]);
  return of_row;
}

std::vector<Subset> by_shared_folds(const RowChoice& choice, Groups all, const SplitColumn& column) {
  const auto folds = static_cast<std::size_t>(choice.folds), fold = static_cast<std::size_t>(choice.fold);
  require_groups(choice, all.groups.size(), folds + (choice.test > 0 ? 1 : 0), column);
  std::vector<std::size_t> tests(all.groups.size(), 0);
  if (choice.test > 0) tests = assign_groups(all.groups, {1 - choice.test, choice.test});
  std::vector<RowCluster> rest;
  std::vector<std::size_t> rest_index(all.groups.size());
  for (std::size_t g = 0; g < all.groups.size(); ++g)
    if (tests[g] == 0) rest_index[g] = rest.size(), rest.push_back(all.groups[g]);
  require_groups(choice, rest.size(), folds, column);
  const std::vector<std::size_t> of = assign_groups(rest, std::vector<double>(folds, 1.0 / choice.folds));
  std::vector<Subset> of_row;
  for (const std::size_t g : all.of_row)
    of_row.push_back(tests[g] == 1 ? Subset::test : of[rest_index[g]] == fold ? Subset::validation : Subset::train);
  return of_row;
}

// Each value of the column is a fold, but for those that are named to test.
std::vector<Subset> by_fold_column(const RowChoice& choice, const SplitColumn& column) {
  for (const std::string& one : choice.test_roles)
    if (!holds(column, one))
      throw DataError("'" + column.name + "' does not hold " + one +
                      ", which data.split.test names; name one of its "
                      "values");
  std::vector<Subset> part(column.values.size(), Subset::train);
  int folds = 0;
  for (std::size_t v = 0; v < part.size(); ++v) {
    if (tests(choice.test_roles, column, column.values[v]))
      part[v] = Subset::test;
    else if (folds++ == choice.fold)
      part[v] = Subset::validation;
  }
  if (folds < 2)
    throw DataError("'" + column.name + "' has " + std::to_string(folds) +
                    " fold, and folds are two or more; name another data set, or let data.split.folds make them");
  if (choice.fold >= folds)
    throw DataError("data.split.fold = " + std::to_string(choice.fold) + ", and '" + column.name + "' has " +
                    std::to_string(folds) + " folds, counted from 0; take one of them");
  std::vector<Subset> of_row;
  for (const std::int32_t value : column.of_row) of_row.push_back(part[static_cast<std::size_t>(value)]);
  return of_row;
}

}  // namespace

std::vector<std::int32_t> read_strata(const RowSources& labels, const std::vector<Index>& rows_of_file) {
  std::vector<std::int32_t> strata;
  std::map<double, std::int32_t> numbers;
  std::map<std::string, std::int32_t> words;
  for (std::size_t file = 0; file < rows_of_file.size(); ++file) {
    const auto open = labels.at(file);
    const RowSource& rows = *open->front();
    const std::vector<Index>& shape = rows.shape();
    if (shape.front() != rows_of_file[file] || shape.size() > 2) return {};
    if (!rows.holds_words()) {
      add_number_strata(rows, numbers, strata);
      continue;
    }
    for (Index first = 0; first < shape.front(); first += kAtOnce)
      for (const std::string& word : rows.words(first, std::min(kAtOnce, shape.front() - first)))
        strata.push_back(number_of(words, word));
  }
  return strata;
}

std::vector<Subset> parts_of_rows(const RowChoice& choice, Index rows, const SplitColumn& column,
                                  const std::vector<std::int32_t>& strata) {
  if (choice.rule == SplitRule::folds && choice.folds == 0) {
    require_names(column, "data.split.by = \"folds\"");
    return by_fold_column(choice, column);
  }
  if (choice.by_groups()) require_names(column, "data.split.by = \"groups\"");
  Groups all = make_groups(choice, rows, column, strata);
  return choice.rule == SplitRule::folds ? by_shared_folds(choice, std::move(all), column)
                                         : by_shares(choice, std::move(all), column);
}

std::string parts_text(const RowChoice& choice, const SplitColumn& column, const std::vector<Subset>& parts) {
  std::string text;
  if (choice.rule == SplitRule::folds) {
    std::size_t folds = static_cast<std::size_t>(choice.folds);
    if (folds == 0)
      for (const std::string& value : column.values) folds += tests(choice.test_roles, column, value) ? 0 : 1;
    text = "fold " + std::to_string(choice.fold) + " (from 0) of " + std::to_string(folds) + " validates";
  }
  if (!choice.by_groups()) return text;
  std::array<std::set<std::int32_t>, 3> of;
  for (std::size_t row = 0; row < parts.size(); ++row)
    of[static_cast<std::size_t>(parts[row]) - 1].insert(column.of_row[row]);
  text += (text.empty() ? "" : ": ") + counted(of[0].size(), "group") + " of '" + column.name + "' train" +
          (of[0].size() == 1 ? "s" : "") + ", " + std::to_string(of[1].size()) + " validate" +
          (of[1].size() == 1 ? "s" : "");
  if (!of[2].empty()) text += ", " + std::to_string(of[2].size()) + " test" + (of[2].size() == 1 ? "s" : "");
  return text;
}

std::string one_class_text(const std::vector<Subset>& parts, const std::vector<std::int32_t>& strata) {
  std::set<std::int32_t> all(strata.begin(), strata.end());
  if (all.size() < 2) return "";
  for (const auto& [part, verb] : {std::pair(Subset::train, "train"), std::pair(Subset::validation, "validate")}) {
    std::set<std::int32_t> of;
    for (std::size_t row = 0; row < parts.size(); ++row)
      if (parts[row] == part) of.insert(strata[row]);
    if (of.size() == 1)
      return std::string("all rows that ") + verb + " are of one class, and there are " + std::to_string(all.size()) +
             ": " + (part == Subset::train ? "nothing can be learnt of the others" : "their scores say little") +
             "; take fewer folds, or groups that have several classes";
  }
  return "";
}

}  // namespace mrmf
