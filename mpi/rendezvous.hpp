// Where teams of one world wait for each other, however long they take.
#pragma once

#include <span>

#include "mpi/comm.hpp"

namespace mrmf {

class Rendezvous {
 public:
  /// Collective over the world.
  explicit Rendezvous(const Comm& world);

  /// Adds up the values of all ranks, on every rank; returns the seconds that this rank waited. A team that is early
  /// waits without a limit: the others may need hours more. It polls gently, because they may share the cores. A rank
  /// that hangs is found by its own team, whose calls have a limit, and that ends the job. Collective over the world.
  double sum_when_all_arrive(std::span<float> values, Comm& team);

 private:
  Comm world_;
};

}  // namespace mrmf
