// The outputs of trained models for every sample, in a file, with data sets of the input files beside them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5_output.hpp"
#include "io/row_choice.hpp"
#include "io/sample_files.hpp"
#include "mpi/comm.hpp"
#include "src/inference/trained.hpp"

namespace mrmf {

// Data sets of the input files that predictions have beside them (`mrmf predict --append`).

/// Data sets with a row per sample, in the samples' files: coordinates, ids, masks, times. Their rows are written in
/// the order of the samples, and only those of samples, under their own names and in their own type, or
/// unpacked.
class AppendedData {
 public:
  /// Collective. Checks the names before any file is opened (ConfigError: one is given twice, or is among `taken`),
  /// then all files (DataError: no such data set, a type that is none, other than a row per sample, files that do not
  /// agree).
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
    Index text = 0;  ///< most bytes of a text; 0: these are numbers
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
  std::optional<Column> inspect_words(const std::string& name, const DatasetShape& shape) const;
  Column inspect(const std::string& name, const DatasetShape& shape) const;

  std::vector<std::string> names_;
  DatasetSpec spec_;
  StoredRows stored_;
  std::vector<Column> columns_;
  std::vector<std::byte> rows_;
};

struct PredictOptions {
  ModelOptions model;  ///< several models of one kind are averaged; `output` is the HDF5 file to write
  Passes passes;
};

/// Writes data sets "prediction", "probability", "class", and "deviation" of several models or passes, in the labels'
/// own units; docs/guide/taking-away.md has their shapes. Reads no labels. Returns what was written, for people: "180
/// rows; prediction and probability 180x3, class". The file appears whole or not at all. Collective. ConfigError for
/// options that do not go together; DataError where model or data cannot be read or do not fit; FaultError for an
/// output that is not finite.
std::string predict(const PredictOptions& options, Comm& world);

}  // namespace mrmf
