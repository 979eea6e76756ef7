// What a run remembers of its data files, and whether those of a later start hold the same numbers.
#pragma once

#include <string>

#include "io/rows/data_record.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Looks at the files of a configuration. Read on the root; the same on every rank. DataError when they cannot be read.
DataRecord record_data(const DataConfig& data, Comm& world);

std::string to_json(const DataRecord& record);
/// DataError, naming `origin`, for another text.
DataRecord data_record_from_json(const std::string& text, const std::string& origin);

/// A record with the files that it is of.
struct RecordedData {
  std::vector<UsedFile> files;
  DataRecord record;
};

/// Whether both are lists of as many files, which can be held against each other one by one.
bool comparable(const RecordedData& was, const RecordedData& is);

/// What differs between the numbers of two comparable ones, for people: "data set 'x' of d.h5 holds other numbers
/// (written 2026-11-26 09:41:26, and 2026-11-25 18:00:02 then)". Empty where what was looked at is the same.
std::string changed_numbers(const RecordedData& was, const RecordedData& is);

/// The same numbers under other names, of other sizes or times, for people; empty where these are the same, too.
std::string touched_files(const RecordedData& was, const RecordedData& is);

}  // namespace mrmf
