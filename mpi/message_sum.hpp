// A sum by reduce-scatter whose ranks send each other the pieces. Private to mpi/.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "mpi/reduce_scatter.hpp"

namespace mrmf::mpi {

/// Memory that sums take and give back. It is kept, because clearing fresh pages takes longer than a sum.
class SumMemory {
 public:
  std::vector<float> take(std::size_t count);  ///< at least so many
  void give_back(std::vector<float>&& memory) { free_.push_back(std::move(memory)); }

 private:
  std::vector<std::vector<float>> free_;
};

class MessageSum final : public ReduceScatterSum {
 public:
  /// Begins.
  MessageSum(const Ranks& ranks, int tag, std::span<float> values, std::shared_ptr<SumMemory> memory,
             SumUpdate update = {});

 private:
  std::span<float> arrived(int rank);
  void advance() override;

  std::shared_ptr<SumMemory> memory_;
  std::vector<float> arrived_;  // this rank's piece of the others' values
  bool added_ = false;
};

}  // namespace mrmf::mpi
