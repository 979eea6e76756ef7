// What the headers of data files tell commands before anything runs, and the schedule of "auto" that follows.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/method/auto_schedule.hpp"

namespace mrmf {

// The shape of a sample for commands that tell what a run would be before anything runs. Private to src/cli.

struct DataSample {
  Shape shape;
  std::string origin;                   ///< where it is from, for people
  std::optional<DatasetShape> train{};  ///< the training data, where it is from them
};

/// `given` ("1600x3") where it is not empty, else the shape of the training data's samples, else the preset's usual
/// one. DataError where none of them is there. Collective.
DataSample data_sample(const Config& config, const std::string& given, Comm& world);

/// The data set as its headers tell: rows are counted that data.not_finite = "skip" leaves out in a run, because to
/// find them would take reading everything. Collective; DataError as inspect_dataset's.
DatasetShape headers_of(DatasetSpec spec, Comm& world);

/// The numbers of samples by the headers, and of ranks: run.ranks, else those of `world`. None where the training data
/// are not there; without validation data an epoch is training alone. Collective; DataError as headers_of()'s.
std::optional<RunSize> run_size(const Config& config, const DataSample& sample, Comm& world);

/// What "auto" comes to: for the training data, or for the shape alone where they are not there or it was given.
/// Collective; errors as choose_schedule()'s.
AutoSchedule schedule_for(const Config& config, const DataSample& sample, const std::optional<RunSize>& size,
                          Comm& world);

/// The configuration, with what "auto" chooses written out. `given`: as in data_sample(). Collective; errors as theirs.
Config with_schedule(const Config& config, const std::string& given, Comm& world);

/// What attributes of netCDF say of the numbers of a data set's samples and labels and is applied to them, a line each:
/// "'t2m' is packed int16: ...", or, where files differ, "'t2m' in 3 of 5 files: packed int16: ...". Opens all files.
/// Collective.
std::vector<std::string> packing_lines(const DatasetSpec& spec, Comm& world);

/// The option that is `given`.
void add_sample(CLI::App& app, std::string& given);

/// The first missing file; empty when all exist.
std::string absent(const std::vector<std::string>& files);

}  // namespace mrmf
