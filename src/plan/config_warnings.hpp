// What a configuration and its data say that is allowed but is rarely meant.
#pragma once

#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// One line each, for what the configuration alone tells: keys that nothing reads, validation data that is the training
/// data.
std::vector<std::string> config_warnings(const Config& config);
/// And for what it means on samples of this shape: axes in an order that looks wrong, sizes that earlier versions read
/// otherwise. `config` is as it was read, its layers not settled.
std::vector<std::string> sample_warnings(const Config& config, const Shape& sample);

/// ConfigError unless the samples have as many channels as data.channels says.
void require_channels(const DataConfig& data, const Shape& sample);

/// "mrmf: warning: ..." on the root's standard error.
void print_warnings(const std::vector<std::string>& lines, const Comm& world);

}  // namespace mrmf
