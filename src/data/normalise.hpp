// The units in which a network sees samples and labels: measured once over the training samples, kept in the run's
// configuration.
#pragma once

#include <string>

#include "io/channel_map.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Measures what data.normalise leaves open, over all training samples at full resolution, and checks what is given.
/// The numbers have the same bits on any number of ranks. Collective: ranks share the reading. DataError: a channel
/// that is the same everywhere, or a number of which there is no logarithm. ConfigError: as many numbers as neither one
/// nor the channels. Where missing numbers are filled and there is no mean_std, whose mean is 0, data.fill is measured:
/// the mean of what is there of each channel, or of its log(1 + x). Missing numbers count nowhere. With nothing open
/// and no log1p nothing is read; log1p takes a reading, for the range of the numbers, even where all else is given.
/// DataError, too, where float32 keeps too few digits of them (digits.hpp).
void resolve_normalisation(Config& config, const DatasetShape& train, Comm& comm);

/// What resolved settings come to over so many channels. ConfigError where numbers are still to be measured, or are for
/// another number of channels; `key` ("data.normalise.sample") is for messages.
ChannelMap channel_map(const Normalisation& units, Index channels, const std::string& key);
/// A map of samples also says what is done about missing numbers, and whether the last channel is a mask.
ChannelMap sample_map(const Config& config, const Shape& sample);
ChannelMap label_map(const Config& config, const Shape& label);

}  // namespace mrmf
