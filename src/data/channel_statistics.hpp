// Facts of samples or labels, channel by channel: ranges, means and deviations over a data set.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/not_finite.hpp"
#include "io/rows/sample_order.hpp"
#include "src/data/row_facts.hpp"

namespace mrmf {

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
