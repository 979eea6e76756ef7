#include "src/data/row_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "io/rows/dataset.hpp"
#include "io/rows/row_source.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

constexpr Index kMostRows = Index{1} << 22;  // whose hashes are kept

std::string of_how_many(Index looked, Index samples) {
  return looked == samples ? fmt::format("{}", samples) : fmt::format("{} looked at (of {})", looked, samples);
}

// "14 of 64 rows (11 training, 3 validation)"
std::string parts_text(Index train, Index validation, const RowsOfPart& a, const RowsOfPart& b) {
  return fmt::format("{} of {} rows ({} training, {} validation)", train + validation,
                     of_how_many(a.rows.looked() + b.rows.looked(), a.rows.samples() + b.rows.samples()), train,
                     validation);
}

// "row 50 of chunk.h5"
std::string row_text(const RowsOfPart& part, Index sample) {
  const RowRun at = StoredRows(part.shape).at(sample);
  if (part.spec.rows == RowsBy::axis) return fmt::format("row {} of {}", at.rows.first, part.spec.files[at.file]);
  return RowSources(part.spec, part.shape, {part.spec.samples}).open(at.file)->front()->row_text(at.rows.first);
}

}  // namespace

RowFacts::RowFacts(Index samples, Index per_sample, Index mask)
    : samples_(samples), step_(std::max<Index>(1, (samples + kMostRows - 1) / kMostRows)), mask_(mask) {
  hashes_.resize(per_sample > 1 ? static_cast<std::size_t>((samples + step_ - 1) / step_) : 0);
}

void RowFacts::add_constant(Index sample, bool zero) {
  ++constant_;
  zeros_ += zero ? 1 : 0;
  if (first_constant_ < 0 || sample < first_constant_) first_constant_ = sample;
}

bool RowFacts::has_no_number(ConstSpan values) const {
  for (Index i = 0; i < std::ssize(values); ++i)
    if (!(mask_ > 0 && (i + 1) % mask_ == 0) && !std::isnan(values[static_cast<std::size_t>(i)])) return false;
  return true;
}

void RowFacts::add(Index sample, ConstSpan values, const StoredNumbers& stored) {
  constexpr float kExact = 16777216;  // 2^24: up to here float32 holds every whole number
  if (has_no_number(values)) {
    ++missing_;
    if (first_missing_ < 0 || sample < first_missing_) first_missing_ = sample;
    return;
  }
  if (hashes_.empty() || sample % step_ != 0) return;
  std::int64_t& hash = hashes_[static_cast<std::size_t>(sample / step_)];
  const auto all_same = [](const auto& numbers) {
    return std::ranges::all_of(numbers, [&](auto value) { return value == numbers[0]; });
  };
  if (!all_same(values)) {
    hash = static_cast<std::int64_t>(XXH3_64bits(values.data(), values.size_bytes()));
  } else if (std::abs(values[0]) < kExact) {
    return add_constant(sample, values[0] == 0);
  } else {
    const std::vector<ExactNumber> exact = stored();
    if (all_same(exact)) return add_constant(sample, false);
    std::vector<double> parts;  // a long double has bytes that say nothing
    for (const ExactNumber number : exact) {
      parts.push_back(static_cast<double>(number));
      parts.push_back(static_cast<double>(number - static_cast<ExactNumber>(parts.back())));
    }
    hash = static_cast<std::int64_t>(XXH3_64bits(parts.data(), parts.size() * sizeof(double)));
  }
  if (hash == 0) hash = 1;
}

void RowFacts::share(Comm& comm) {
  comm.sum(hashes_);
  std::vector<std::int64_t> counts{constant_, zeros_, missing_};
  comm.sum(counts);
  constant_ = counts[0], zeros_ = counts[1], missing_ = counts[2];
  for (Index* const first : {&first_constant_, &first_missing_}) {
    const double none = static_cast<double>(samples_);
    const double of_all = comm.min(*first < 0 ? none : static_cast<double>(*first));
    *first = of_all < none ? static_cast<Index>(of_all) : -1;
  }
}

std::vector<std::int64_t> RowFacts::sorted() const {
  std::vector<std::int64_t> hashes;
  std::ranges::copy_if(hashes_, std::back_inserter(hashes), [](std::int64_t hash) { return hash != 0; });
  std::ranges::sort(hashes);
  return hashes;
}

Index RowFacts::repeated() const {
  const std::vector<std::int64_t> hashes = sorted();
  Index repeated = 0;
  for (std::size_t i = 1; i < hashes.size(); ++i) repeated += hashes[i] == hashes[i - 1] ? 1 : 0;
  return repeated;
}

Index RowFacts::also_in(const RowFacts& other) const {
  const std::vector<std::int64_t> there = other.sorted();
  return std::ranges::count_if(hashes_,
                               [&](std::int64_t hash) { return hash != 0 && std::ranges::binary_search(there, hash); });
}

std::vector<std::string> row_advice(const RowsOfPart& train, const RowsOfPart& validation) {
  std::vector<std::string> advice;
  const Index constant = train.rows.constant() + validation.rows.constant();
  const Index zeros = train.rows.zeros() + validation.rows.zeros();
  if (constant > 0) {
    const RowsOfPart& part = train.rows.constant() > 0 ? train : validation;
    advice.push_back(fmt::format(
        "{} of '{}' hold one number throughout{}, such as {}: were they allocated and never filled? leave them out",
        parts_text(train.rows.constant(), validation.rows.constant(), train, validation), train.spec.samples,
        zeros == 0 ? "" : fmt::format(", which is 0 in {} of them", zeros),
        row_text(part, part.rows.first_constant())));
  }
  const Index missing = train.rows.missing() + validation.rows.missing();
  if (missing > 0) {
    const RowsOfPart& part = train.rows.missing() > 0 ? train : validation;
    advice.push_back(fmt::format(
        "{} of {} rows ({} training, {} validation) of '{}' hold no number, such as {}: all are missing, and "
        "data.not_finite = \"fill\" makes them all the same; leave them out",
        missing, train.rows.samples() + validation.rows.samples(), train.rows.missing(), validation.rows.missing(),
        train.spec.samples, row_text(part, part.rows.first_missing())));
  }
  const Index twice = train.rows.repeated(), again = validation.rows.repeated();
  if (twice + again > 0)
    advice.push_back(
        fmt::format("{} of '{}' occur before in the same part: they count twice or more; leave them out "
                    "if they are not meant to",
                    parts_text(twice, again, train, validation), train.spec.samples));
  const Index both = validation.rows.also_in(train.rows);
  if (both > 0)
    advice.push_back(
        fmt::format("{} of {} validation rows of '{}' are training rows, too, so validation does not say "
                    "how new samples are learned; leave them out of one part",
                    both, validation.rows.looked(), validation.spec.samples));
  return advice;
}

}  // namespace mrmf
