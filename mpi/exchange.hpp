// Numbers that every rank has for every other, and one answer to each.
#pragma once

#include <span>
#include <vector>

#include "mpi/comm.hpp"

namespace mrmf {

/// How many numbers go from where to where. Its calls are collective over the communicator, which outlives it, and
/// throw what the communicator's verbs throw.
class Exchange {
 public:
  /// Collective: ranks tell each other their counts. This rank has to[r] numbers for rank r.
  Exchange(Comm& comm, std::vector<int> to);

  std::size_t sent() const { return to_.all; }
  std::size_t received() const { return from_.all; }
  /// `values` (sent() of them): those for rank 0, those for rank 1, ...; `arrived` (received()): those from rank 0, ...
  void send(std::span<const float> values, std::span<float> arrived) const;
  /// The way back: `answers` (received() of them) in the order of what arrived; `arrived` (sent()) in the order of what
  /// was sent.
  void answer(std::span<const float> answers, std::span<float> arrived) const;

 private:
  struct Pieces {
    std::vector<int> counts, first{};  // per rank
    std::size_t all = 0;
  };

  void move(std::span<const float> from, const Pieces& there, std::span<float> to, const Pieces& here) const;

  Comm* comm_;
  Pieces to_, from_;
};

}  // namespace mrmf
