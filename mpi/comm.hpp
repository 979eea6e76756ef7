// Message passing: RAII over MPI, with spans and never a length at a call site. mpi.h stays behind comm.cpp and io/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// Initialises MPI for the life of the program and finalises it; one per process, in main, before any Comm or Hdf5File
/// and outliving them. Works without mpirun too (one rank). Sets Open MPI's defaults where the user's environment is
/// silent. Only the thread that made it may use a Comm (MPI_THREAD_FUNNELED).
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  /// "Open MPI v4.1.4, ..." for logs and results.
  static std::string version();
};

/// A communicator. Move-only; frees what it split or duplicated. Every verb is collective over its ranks and throws
/// FaultError with MPI's own text. In-place; every rank ends with the same bits where the result is shared.
/// Spans may have any length (split at 1 GiB, below MPI's int counts) but have equal lengths on all ranks.
class Comm {
 public:
  /// A duplicate of MPI_COMM_WORLD; collective over the world.
  static Comm world();
  /// This rank alone; not collective.
  static Comm self();
  Comm(Comm&&) noexcept;
  Comm& operator=(Comm&&) noexcept;
  ~Comm();

  int rank() const;
  int size() const;
  bool root() const { return rank() == 0; }

  void sum(std::span<float> values);
  void sum(std::span<double> values);
  void sum(std::span<std::int64_t> values);
  double sum(double value);
  double min(double value);
  double max(double value);
  bool any(bool value);  ///< true on every rank when it is true on one

  void broadcast(std::span<float> values, int root);
  void broadcast(std::span<std::int64_t> values, int root);
  void broadcast(std::string& text, int root);
  std::vector<double> gather(double value);  ///< every rank's value, on every rank
  void barrier();

  /// True when all ranks hold the same value; the answer is the same on every rank (rank-consistency hash).
  bool agree(std::uint64_t value);

  /// Ranks with the same colour, ordered by the rank here.
  Comm split(int colour);
  /// The same ranks, with messages kept apart from the original's.
  Comm duplicate() const;

  /// Ends every rank of the world at once, without unwinding; for main's last resort only.
  [[noreturn]] void abort(int exit_code);

  /// The communicator as MPI_Comm for io/ (a pointer to it, so that this header needs no mpi.h).
  const void* handle() const;

 private:
  struct State;
  explicit Comm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mrmf
