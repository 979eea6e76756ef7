// Facts of whole samples: rows of one number throughout, as files have that were allocated ahead, rows without any
// number, and rows that occur more than once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/tensor.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

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

}  // namespace mrmf
