#include "src/data/channel_statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "io/rows/class_values.hpp"
#include "io/rows/labels.hpp"
#include "io/rows/row_source.hpp"
#include "io/rows/sample_files.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
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
