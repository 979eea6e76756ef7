// Units of samples and labels, in the files and as a network sees them, and the digits of their numbers that float32,
// in which training computes, does not keep.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/tensor.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/data/statistics.hpp"

namespace mrmf {

// Units of samples and labels, as the attributes of their arrays say: the same in all data that a model sees.

/// Fills in data.units from the training data where nothing is given. ConfigError where another number of
/// units is given than there are arrays; DataError where the data say others.
void resolve_units(DataConfig& data, const DatasetShape& train);

/// DataError where both parts of the data say their units, and they differ. part: "validation" or "test".
void require_same_units(const FoundDataset& train, const FoundDataset& other, const std::string& part);

/// DataError where data are in other units than those that a model was trained on. A run of an earlier version does not
/// know any.
void require_trained_units(const DataConfig& trained, const FoundDataset& data);

// The units in which a network sees samples and labels: measured once over the training samples, kept in the run's
// configuration. And a check of the numbers that do not bear it: those without a logarithm.

/// Measures what data.normalise leaves open, over all training samples at full resolution, and checks what is given.
/// The numbers have the same bits on any number of ranks. Collective: ranks share the reading. DataError: a channel
/// that is the same everywhere, or a number of which there is no logarithm. ConfigError: as many numbers as neither one
/// nor the channels. Where missing numbers are filled and there is no mean_std, whose mean is 0, data.fill is measured:
/// the mean of what is there of each channel, or of its log(1 + x). Missing numbers count nowhere. With nothing open
/// and no log1p nothing is read; log1p takes a reading, for the range of the numbers, even where all else is given.
/// DataError, too, where float32 keeps too few digits of them.
void resolve_normalisation(Config& config, const DatasetShape& train, Comm& comm);

/// What resolved settings come to over so many channels. ConfigError where numbers are still to be measured, or are for
/// another number of channels; `key` ("data.normalise.sample") is for messages.
ChannelMap channel_map(const Normalisation& units, Index channels, const std::string& key);
/// A map of samples also says what is done about missing numbers, and whether the last channel is a mask.
ChannelMap sample_map(const Config& config, const Shape& sample);
ChannelMap label_map(const Config& config, const Shape& label);
/// The same of a network's output, for numbers that lie as the labels do: where the units are of more numbers than the
/// output has channels, labels are a list without positions.
ChannelMap output_map(const Config& config, const Shape& output);

// Numbers that have no logarithm, where data.normalise asks for one: found by file and row.

/// What a message needs to say where a sample or label without logarithm is.
struct LogarithmLocation {
  const DatasetSpec& spec;
  const DatasetShape& shape;
  NumbersOf of = NumbersOf::samples;
  Index sample = 0;  ///< within the whole data set
};

/// DataError: file, data set and row of this sample, and what data.normalise takes of it.
[[noreturn]] void refuse_logarithm(const LogarithmLocation& location);

/// Checks every sample and label, at full resolution, of which data.normalise takes log(1 + x); reads nothing else.
/// DataError, the same on all ranks, for the first number of a rank that is not above -1. Collective.
void require_logarithms(const DataConfig& data, const DatasetSpec& spec, const DatasetShape& shape, Comm& comm);

// Digits that float32, in which training computes, does not keep of what files hold.

/// Says so, with advice, where a channel's numbers lie so far from 0 for their spread that rounding them to float32
/// moves them by more than a hundredth of their deviation. `facts` are of the same numbers, in float32. Reads some rows
/// again, as they are stored, where facts and types make that possible. The same on every rank. Not collective.
std::optional<std::string> lost_digits(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of,
                                       const ChannelFacts& facts);

/// The same of samples and labels of which a run takes no mean and deviation, by some of their rows: a line each, for a
/// run's warnings. Collective.
std::vector<std::string> digit_warnings(const Config& config, const DatasetShape& train, Comm& comm);

/// Which channels hold one number throughout, as the files store it: float32 does not tell large integers apart.
/// `facts` are of the same numbers, in float32. Reads all rows again where they leave that open. Not collective.
std::vector<bool> constant_channels(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of,
                                    const ChannelFacts& facts);

/// Says so of the first data set whose numbers are integers, and so far from 0 that they are rather identifiers than
/// anything counted or measured. `facts` are of these numbers. Not collective.
std::optional<std::string> like_identifiers(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of,
                                            const ChannelFacts& facts);

/// DataError where digits are lost. Collective.
void require_digits(const DatasetSpec& spec, const DatasetShape& shape, NumbersOf of, const ChannelFacts& facts,
                    Comm& comm);

}  // namespace mrmf
