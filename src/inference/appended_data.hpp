// Data sets of the input files that predictions have beside them (`mrmf predict --append`).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/output.hpp"
#include "io/rows/sample_reader.hpp"
#include "io/rows/split.hpp"
#include "io/values/class_names.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// Data sets with a row per sample, in the samples' files: coordinates, ids, masks, times. Their rows are written in
/// the order of the samples, and only those of samples, under their own names and in their own type, or
/// unpacked, with the attributes that they have in the first file.
class AppendedData {
 public:
  /// Collective. Checks the names before any file is opened (ConfigError: one is given twice, or is among `taken`),
  /// then all files (DataError: no such data set, a type that is none, other than a row per sample, files that do not
  /// agree, also about units and what numbers are called).
  AppendedData(const std::vector<std::string>& names, const std::vector<std::string>& taken, const DatasetSpec& spec,
               const DatasetShape& shape, Comm& world);

  /// Collective.
  void create(Hdf5Output& out) const;
  /// On any rank.
  void write(Hdf5Output& out, Range samples);

  const std::vector<std::string>& names() const { return names_; }

 private:
  /// One of the data sets: what it is in all files.
  struct Column {
    std::vector<Index> shape;  ///< shape of all samples
    ElementType type = ElementType::other;
    PackingRule packing = PackingRule::apply;
    Index text = 0;                         ///< most bytes of a text; 0: these are numbers
    std::map<Index, std::string> values{};  ///< values of the enumeration that is its type in all files, which the root
                                            ///< knows; none: it is another type in some
    std::unique_ptr<RowSources> sources{};
  };
  /// Rows of an output.
  struct Destination {
    Hdf5Output& out;
    const std::string& name;
    Index first = 0;
  };
  void copy(const RowSource& from, Range rows, const Destination& to);
  void copy_words(const RowSource& from, Range rows, const Destination& to, Index bytes);
  void copy_attributes(Hdf5Output& out, const std::string& name, const Column& column) const;
  std::optional<Column> inspect_words(const std::string& name, const DatasetShape& shape) const;
  Column inspect(const std::string& name, const DatasetShape& shape) const;

  std::vector<std::string> names_;
  DatasetSpec spec_;
  StoredRows stored_;
  std::vector<Column> columns_;
  std::vector<std::byte> rows_;
};

}  // namespace mrmf
