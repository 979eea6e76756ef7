#include "src/data/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>

#include "io/rows/class_values.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/labels.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_reader.hpp"
#include "mpi/comm.hpp"

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

namespace {

constexpr Index kMostSums = Index{1} << 20;  // most sums of all blocks together
constexpr Index kMostBlocks = 1024;
constexpr Index kReadElements = Index{1} << 22;
constexpr Index kLabelElements = Index{1} << 25;  // in memory at once; each time their files are opened

/// Sums per channel over blocks of samples. Each block is summed by one rank, and the blocks are added in their order,
/// so that nothing depends on the number of ranks. Numbers count from the first that are there in the first sample,
/// which keeps the sums exact enough where a mean is large and a deviation small.
class Sums {
 public:
  Sums(const Numbers& numbers, bool log1p)
      : numbers_(numbers),
        log1p_(log1p),
        blocks_(std::clamp<Index>(kMostSums / numbers.channels, 1, std::min(numbers.samples, kMostBlocks))),
        sums_(static_cast<std::size_t>(blocks_ * numbers.channels)),
        origin_(static_cast<std::size_t>(numbers.channels), std::numeric_limits<double>::quiet_NaN()) {
    const NumberReader read = numbers.open({0, 1});
    const ConstSpan first = read(0);
    for (std::size_t c = 0; c < origin_.size(); ++c)
      for (std::size_t i = c; i < first.size() && !std::isfinite(origin_[c]); i += origin_.size())
        origin_[c] = unit(first[i]);
    std::ranges::replace_if(
        origin_, [](double x) { return !std::isfinite(x); }, 0.0);
  }

  /// Adds this rank's blocks. Blocks are many, and opening a file may cost more than reading it: all are read as one.
  void add(const Comm& comm, RowFacts* rows) {
    const Range mine = piece(blocks_, comm.rank(), comm.size());
    if (mine.count == 0) return;
    const Index first = samples_of_block(mine.first).first;
    const Range last = samples_of_block(mine.first + mine.count - 1);
    const NumberReader read = numbers_.open({first, last.first + last.count - first});
    for (Index block = mine.first; block < mine.first + mine.count; ++block) {
      const Range samples = samples_of_block(block);
      for (Index i = 0; i < samples.count; ++i) {
        const ConstSpan values = read(samples.first + i);
        add(values, block);
        if (rows != nullptr) rows->add(samples.first + i, values, [&] { return numbers_.stored(samples.first + i); });
      }
    }
  }

  /// Brings together the blocks of all ranks: each is one rank's, and zero on the others.
  void share(Comm& comm) {
    std::vector<std::int64_t> bits;  // whose sums are exact
    for (const Sum& sum : sums_)
      for (const double number : {sum.count, sum.x, sum.xx, sum.least, sum.most})
        bits.push_back(sum.count > 0 ? std::bit_cast<std::int64_t>(number) : 0);
    comm.sum(bits);
    auto from = bits.begin();
    for (Sum& sum : sums_) {
      for (double* const to : {&sum.count, &sum.x, &sum.xx, &sum.least, &sum.most})
        *to = std::bit_cast<double>(*from++);
      if (sum.count == 0) sum = {};  // nothing but missing numbers: 0 is not the least of them
    }
  }

  ChannelFacts facts() const {
    ChannelFacts facts;
    for (std::size_t c = 0; c < origin_.size(); ++c) {
      Sum all = sums_[c];
      for (Index block = 1; block < blocks_; ++block)
        all.add(sums_[static_cast<std::size_t>(block * numbers_.channels) + c]);
      facts.count.push_back(all.count);
      if (all.count == 0) {
        for (std::vector<double>* of : {&facts.least, &facts.most, &facts.mean})
          of->push_back(std::numeric_limits<double>::quiet_NaN());
        facts.deviation.push_back(0);
        continue;
      }
      const double mean = all.x / all.count;
      facts.least.push_back(all.least);
      facts.most.push_back(all.most);
      facts.mean.push_back(origin_[c] + mean);
      facts.deviation.push_back(all.least == all.most ? 0 : std::sqrt(std::max(0.0, all.xx / all.count - mean * mean)));
    }
    return facts;
  }

 private:
  struct Sum {
    double count = 0, x = 0, xx = 0;
    double least = std::numeric_limits<double>::max(), most = std::numeric_limits<double>::lowest();
    void add(float value, double from_origin) {
      ++count;
      x += from_origin;
      xx += from_origin * from_origin;
      least = std::min<double>(least, value);
      most = std::max<double>(most, value);
    }
    void add(const Sum& other) {
      count += other.count;
      x += other.x;
      xx += other.xx;
      least = std::min(least, other.least);
      most = std::max(most, other.most);
    }
  };
  void add(ConstSpan values, Index block) {
    Sum* const sums = sums_.data() + block * numbers_.channels;
    std::size_t channel = 0;
    for (const float value : values) {
      if (!std::isnan(value)) sums[channel].add(value, unit(value) - origin_[channel]);
      if (++channel == origin_.size()) channel = 0;
    }
  }
  Range samples_of_block(Index block) const { return piece(numbers_.samples, block, blocks_); }
  double unit(float value) const { return log1p_ ? std::log1p(double{value}) : value; }

  const Numbers& numbers_;
  bool log1p_;
  Index blocks_;
  std::vector<Sum> sums_;  // per block and channel
  std::vector<double> origin_;
};

/// The rows of a range in memory at a time: as many as are read at once, from the one asked for on.
class Window {
 public:
  Window(Range owned, Index width, Index elements)
      : owned_(owned), most_(std::min(owned.count, std::max<Index>(1, elements / std::max<Index>(width, 1)))) {}

  Index most() const { return most_; }
  Range rows() const { return rows_; }
  /// Whether it has moved, so that its rows are to be read.
  bool move_to(Index row) {
    if (row >= rows_.first && row < rows_.first + rows_.count) return false;
    rows_ = {row, std::min(most_, owned_.first + owned_.count - row)};
    return true;
  }

 private:
  Range owned_;
  Index most_;
  Range rows_{};
};

class SampleRows {
 public:
  SampleRows(const DatasetSpec& spec, const DatasetShape& shape, Range owned)
      : files_(spec, shape, owned),
        window_(owned, shape.sample.per_sample(), kReadElements),
        stored_(static_cast<std::size_t>(window_.most() * files_.row_bytes())),
        values_(static_cast<std::size_t>(shape.sample.per_sample())) {}

  ConstSpan row(Index row) {
    if (window_.move_to(row)) files_.read(window_.rows(), stored_.data(), scratch_);
    to_float32(files_.type(), stored_.data() + (row - window_.rows().first) * files_.row_bytes(), values_);
    return values_;
  }

 private:
  SampleFiles files_;
  Window window_;
  std::vector<std::byte> stored_;
  std::vector<float> values_;
  Scratch scratch_;
};

class LabelRows {
 public:
  LabelRows(const DatasetSpec& spec, const DatasetShape& shape, Range owned)
      : spec_(spec),
        shape_(shape),
        window_(owned, shape.label.per_sample(), kLabelElements),
        values_(static_cast<std::size_t>(shape.label.per_sample())) {}

  ConstSpan row(Index row) {
    if (window_.move_to(row)) {
      labels_.reset();  // before reading: there may not be room for both
      labels_.emplace(spec_, shape_, window_.rows());
    }
    labels_->write({1, 1, 1}, row - window_.rows().first, values_);
    // The mark of labels that do not count is none of their numbers.
    if (spec_.form.kind != LabelKind::numbers)
      std::ranges::replace(values_, kIgnoredLabel, std::numeric_limits<float>::quiet_NaN());
    return values_;
  }

 private:
  const DatasetSpec& spec_;
  const DatasetShape& shape_;
  Window window_;
  std::optional<Labels> labels_;
  std::vector<float> values_;
};

template <class Rows>
std::function<NumberReader(Range)> opener(const DatasetSpec& spec, const DatasetShape& shape) {
  return [&](Range owned) -> NumberReader {
    return [rows = std::make_shared<Rows>(spec, shape, owned)](Index row) { return rows->row(row); };
  };
}

// A sample of all of its data sets, one after the other.
std::vector<ExactNumber> stored_numbers(const DatasetSpec& spec, const DatasetShape& shape, Index sample) {
  const RowRun at = StoredRows(shape).at(sample);
  const auto open = RowSources(spec, shape, spec.sample_names()).open(at.file);
  std::vector<ExactNumber> numbers;
  std::vector<std::byte> raw;
  for (const auto& rows : *open) {
    raw.resize(static_cast<std::size_t>(rows->row_bytes()));
    rows->read(at.rows.first, 1, raw.data());
    for (Index i = 0; i < rows->row_elements(); ++i) numbers.push_back(exact_number_at(rows->type(), raw.data(), i));
  }
  return numbers;
}

}  // namespace

std::string to_string(NumbersOf of) { return of == NumbersOf::labels ? "labels" : "samples"; }

Numbers numbers_of(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of) {
  if (of == NumbersOf::samples)
    return {"data set '" + spec.samples + "'",
            shape.samples,
            shape.sample.channels,
            opener<SampleRows>(spec, shape),
            product(shape.sample.spatial),
            [&](Index sample) { return stored_numbers(spec, shape, sample); }};
  return {"data set '" + spec.labels_text() + "'", shape.samples, shape.label.channels, opener<LabelRows>(spec, shape),
          product(shape.label.spatial)};
}

double ChannelFacts::least_of_all() const {
  double found = std::numeric_limits<double>::quiet_NaN();
  for (const double of_channel : least) found = std::fmin(found, of_channel);  // fmin() passes over NaN
  return found;
}

double ChannelFacts::most_of_all() const {
  double found = std::numeric_limits<double>::quiet_NaN();
  for (const double of_channel : most) found = std::fmax(found, of_channel);
  return found;
}

ChannelFacts channel_facts(const Numbers& numbers, bool log1p, Comm& comm, RowFacts* rows) {
  std::optional<Sums> sums;
  collective_try(comm, [&] {
    sums.emplace(numbers, log1p);
    sums->add(comm, rows);
  });
  sums->share(comm);
  if (rows != nullptr) rows->share(comm);
  ChannelFacts facts = sums->facts();
  facts.all = static_cast<double>(numbers.samples * numbers.positions);
  return facts;
}

}  // namespace mrmf
