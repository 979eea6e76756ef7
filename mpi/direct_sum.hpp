// A long sum over few ranks: each adds one piece of all ranks' values and sends it to the others. MPI's own
// non-blocking sums of so few ranks send everything to one of them and back, and take fresh memory every time. Private
// to mpi/.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mpi/wait.hpp"

namespace mrmf::mpi {

/// Memory that sums take and give back. It is kept, because clearing fresh pages takes longer than a sum.
class SumMemory {
 public:
  std::vector<float> take(std::size_t count);  ///< at least so many
  void give_back(std::vector<float>&& memory) { free_.push_back(std::move(memory)); }

 private:
  std::vector<std::vector<float>> free_;
};

class DirectSum {
 public:
  struct Ranks {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0, size = 1;
  };
  /// What the ranks send each other in place of the sums: `values`, which `update` makes of the piece that the rank has
  /// added (its first float, and how many).
  struct Update {
    std::span<float> values;
    std::function<void(std::size_t first, std::size_t count)> update;
  };
  /// Begins. All ranks begin their sums in the same order, with the same tags: `tag` and the next one, which no other
  /// message under way has.
  DirectSum(const Ranks& ranks, int tag, std::span<float> values, std::shared_ptr<SumMemory> memory,
            Update update = {});

  bool test();  ///< whether it is done; also advances it
  void finish(double limit);

 private:
  std::span<float> piece(std::span<float> values, int rank) const;
  std::span<float> piece(int rank) const { return piece(values_, rank); }
  std::span<float> arrived(int rank);
  void receive(int from, int tag, std::span<float> values);
  void send(int to, int tag, std::span<const float> values);
  void advance();

  Ranks ranks_;
  int tag_;
  std::span<float> values_;
  Update update_;
  std::shared_ptr<SumMemory> memory_;
  std::vector<float> arrived_;  // this rank's piece of the others' values
  std::vector<Request> under_way_;
  bool added_ = false;
};

}  // namespace mrmf::mpi
