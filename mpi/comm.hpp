// Message passing: RAII over MPI, with spans and never a length at a call site. mpi.h stays behind comm.cpp and io/.
#pragma once

#include <cstdint>
#include <functional>
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
  static int rank();   ///< in the world
  static int ranks();  ///< of the world
  /// Ends every rank of the world at once, without unwinding; for main's last resort only.
  [[noreturn]] static void abort(int exit_code);
  /// "Open MPI v4.1.4, ..." for logs and results.
  static std::string version();
};

/// A sum under way. Move-only; its span must live until it is done. Destroying one that is not done waits for nothing:
/// only an error's way out may do that.
class PendingSum {
 public:
  PendingSum(PendingSum&&) noexcept;
  PendingSum& operator=(PendingSum&&) noexcept;
  ~PendingSum();
  bool test();    ///< is it done? Asking also moves it on: MPI works inside its own calls
  void finish();  ///< returns when it is

 private:
  friend class Comm;
  struct State;
  explicit PendingSum(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A communicator. Move-only; frees what it split or duplicated. Every verb is collective over its ranks and throws
/// FaultError: with MPI's own text, or when the other ranks keep it waiting for longer than limit(). (While
/// communicators are made, nothing can leave MPI's call: see mpi/wait.hpp.) In-place; every rank ends with
/// the same bits where the result is shared.
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

  /// Seconds after which a verb gives up on ranks that do not take part; 0: never (the default). It goes on to what is
  /// split off or duplicated later. A rank that hangs or has died would keep the others waiting for ever.
  void limit(double seconds);
  double limit() const;

  /// Sums of floats and doubles get the same bits in whatever order the ranks and MPI's algorithm add them: in fixed
  /// point (mpi/fixed_point.hpp), for three times the bytes. Off by default; all ranks set the same. It goes on to what
  /// is split off or duplicated later.
  void sum_in_any_order(bool on);

  void sum(std::span<float> values);
  void sum(std::span<double> values);
  void sum(std::span<std::int64_t> values);
  double sum(double value);
  /// total = the sum of all ranks' summands, of which there are `all` together and on each rank at least one, all as
  /// long as `total`: the same bits whichever rank has which of them, in fixed point. `total` may be one of them.
  void sum_summands(const std::vector<std::span<const float>>& summands, int all, std::span<float> total);
  void sum_summands(const std::vector<std::span<const double>>& summands, int all, std::span<double> total);
  /// Begins a sum that goes on beside what the caller does next. Every rank begins them in the same order.
  PendingSum start_sum(std::span<float> values);
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

  /// Ranks with the same colour, ordered by the rank here, or by `order`.
  Comm split(int colour) const;
  Comm split(int colour, int order) const;
  /// The same ranks, with messages kept apart from the original's.
  Comm duplicate() const;

  /// The communicator as MPI_Comm for io/ (a pointer to it, so that this header needs no mpi.h).
  const void* handle() const;

 private:
  struct State;
  explicit Comm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Numbers that every rank has for every other, and one answer to each: how many go from where to where. Its calls are
/// collective over the communicator, which outlives it, and throw what the communicator's verbs throw.
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

/// When one rank fails, all of them must know, or the others wait for ever in their next collective call.
/// Collective. Runs `action` on every rank; when it throws on some, every rank throws the error of the lowest of
/// them, of the same class and with the same text (prefixed with "rank r: " unless all ranks failed).
/// `action` must not leave collective calls half done when it throws.
void collective_try(Comm& comm, const std::function<void()>& action);

}  // namespace mrmf
