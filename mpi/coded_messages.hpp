// A coded sum by messages. Private to mpi/.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "mpi/coded_sum.hpp"
#include "mpi/reduce_scatter.hpp"

namespace mrmf::mpi {

class CodedMessages final : public ReduceScatterSum {
 public:
  /// Begins the sum. Keeps a reference to the sum's memory.
  CodedMessages(const Ranks& ranks, int tag, CodedSum sum);
  ~CodedMessages() override;

 private:
  using Bytes = std::vector<std::byte>;
  void advance() override;
  SumPiece piece_of(int rank) const { return sum_piece(sum_.count, rank, size_); }
  std::size_t encode(const SumPiece& piece, Bytes& message);
  std::size_t add(const SumPiece& own);
  Bytes& message(std::vector<Bytes>& of, int rank, std::size_t bytes);

  CodedSum sum_;
  int size_;
  std::vector<Bytes> sent_, received_;  // by rank; of the second round, the result is in sent_[rank()]
  bool added_ = false;
};

}  // namespace mrmf::mpi
