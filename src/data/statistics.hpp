// Statistics over a data set, of whole samples and of channels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/not_finite.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/tensor.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

// Facts of whole samples: rows of one number throughout, as files have that were allocated ahead, rows without any
// number, and rows that occur more than once.

/// The numbers of a sample as they are stored in the files.
using StoredNumbers = std::function<std::vector<ExactNumber>()>;

/// Facts of a data set's samples, as float32, but where all of a sample is one number so large that others may be the
/// same in float32. Looks at all of them, or, of very many, at one of every few; for missing numbers at all.
class RowFacts {
 public:
  /// For so many samples; those of a single number are always the same throughout, and are not looked at. `mask`: so
  /// many channels, of which the last says where numbers are there; 0: none does.
  RowFacts(Index samples, Index per_sample, Index mask = 0);

  /// A sample that this rank has read; `stored` is asked where float32 does not tell enough.
  void add(Index sample, ConstSpan values, const StoredNumbers& stored);
  /// Brings together what all ranks have seen, each sample on one of them. Collective.
  void share(Comm& comm);

  Index looked() const { return std::ssize(hashes_); }
  Index samples() const { return samples_; }
  Index constant() const { return constant_; }  ///< rows of one number throughout...
  Index zeros() const { return zeros_; }        ///< ...of which it is 0
  Index first_constant() const { return first_constant_; }
  Index missing() const { return missing_; }  ///< rows of which every number is missing
  Index first_missing() const { return first_missing_; }
  Index repeated() const;  ///< rows, not constant, that equal an earlier one
  /// Rows, not constant, that equal one of the other's.
  Index also_in(const RowFacts& other) const;

 private:
  std::vector<std::int64_t> sorted() const;
  void add_constant(Index sample, bool zero);
  bool has_no_number(ConstSpan values) const;

  Index samples_, step_;  // looks at one of so many
  Index mask_;
  std::vector<std::int64_t> hashes_;  // hashes of those looked at; 0: constant, without a number, or not this rank's
  Index constant_ = 0, zeros_ = 0, first_constant_ = -1;
  Index missing_ = 0, first_missing_ = -1;
};

/// What is to be said of the samples of training and validation; a line each.
struct RowsOfPart {
  const DatasetSpec& spec;
  const DatasetShape& shape;
  const RowFacts& rows;
};
std::vector<std::string> row_advice(const RowsOfPart& train, const RowsOfPart& validation);

// Facts of samples or labels, channel by channel: ranges, means and deviations over a data set.

/// The values of a sample, valid until the next call. Samples in their order are read once, several at a time.
using NumberReader = std::function<ConstSpan(Index)>;

/// The numbers of a data set, with channels last; of labels that do not count, NaN. Refers to the specification and
/// shape it was made of.
struct Numbers {
  std::string what;  ///< for messages
  Index samples = 0, channels = 1;
  /// Opens the files that hold these samples; they stay open as long as the reader. On any rank by itself.
  std::function<NumberReader(Range)> open;
  Index positions = 1;  ///< positions of one sample
  /// The numbers of a sample as the files store them, where RowFacts are wanted. On any rank by itself.
  std::function<std::vector<ExactNumber>(Index)> stored{};
};

std::string to_string(NumbersOf of);
Numbers numbers_of(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of);

/// One entry per channel. NaN is missing and counts nowhere; where all numbers are, so are these, and their deviation
/// is 0.
struct ChannelFacts {
  std::vector<double> least, most;  ///< the least and the largest of the numbers as they are
  std::vector<double> mean,
      deviation;  ///< mean and deviation of the numbers, or of log(1 + x); NaN where a number has no logarithm
  std::vector<double> count{};  ///< count of numbers that are there
  double all = 0;               ///< numbers of a channel, with those that are missing
  double missing() const {
    double sum = 0;
    for (const double of_channel : count) sum += all - of_channel;
    return sum;
  }
  double of_all_channels() const { return all * static_cast<double>(count.size()); }
  /// Over all channels; NaN where nothing is there.
  double least_of_all() const;
  double most_of_all() const;
  void drop_last() {
    for (std::vector<double>* of : {&least, &most, &mean, &deviation, &count}) of->pop_back();
  }
};

/// Reads everything once, and tells `rows`, if given, of every sample on the way. The results have the same bits on any
/// number of ranks. Collective.
ChannelFacts channel_facts(const Numbers& numbers, bool log1p, Comm& comm, RowFacts* rows = nullptr);

}  // namespace mrmf
