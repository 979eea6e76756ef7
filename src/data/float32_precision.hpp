// Digits that float32, in which training computes, does not keep of what files hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/data/statistics.hpp"

namespace mrmf {

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
