// Numbers that ranks draw, each once, as they are ready for more work.
#pragma once

#include <cstdint>
#include <memory>

#include "mpi/comm.hpp"

namespace mrmf {

/// A counter that all ranks share. No rank waits for another, but to make it and to give it up.
class SharedCounter {
 public:
  /// Collective. The counter begins at 0.
  explicit SharedCounter(Comm& comm);
  /// Collective.
  ~SharedCounter();
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;

  /// A number that no other call got. On the thread that made it. FaultError with MPI's text.
  std::int64_t next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mrmf
