// Ranks and what they tell each other: communicators, sums, errors of one rank that all throw, a counter that ranks
// draw from, and where teams wait for each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"
#include "kernels/timer.hpp"
#include "mpi/coded_and_fixed_point_sums.hpp"

namespace mrmf {

// Message passing: RAII over MPI, with spans in place of lengths at call sites, and work whose errors all ranks throw.
// mpi.h stays behind mpi/ and io/.

/// A sum under way. Move-only; its span must live until it is done. Destroying an unfinished one does not wait; only
/// the unwinding after an error may do so.
class PendingSum {
 public:
  PendingSum(PendingSum&&) noexcept;
  PendingSum& operator=(PendingSum&&) noexcept;
  ~PendingSum();
  bool test();    ///< whether it is done; also advances it, because MPI works only inside its own calls
  void finish();  ///< returns when it is done

 private:
  friend class Comm;
  struct State;
  explicit PendingSum(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// What the ranks have in place of a sum by reduce-scatter: `results` (as long as what is summed) as the ranks' updates
/// leave them. update(first, count) is called once: of a long sum for this rank's piece, of a short one for all.
struct ReduceScatterUpdate {
  std::span<float> results{};
  std::function<void(std::size_t first, std::size_t count)> update{};
};

class PeerMemory;

/// A communicator. Move-only; frees what it split or duplicated. Every verb is collective over its ranks. It throws
/// FaultError with MPI's own text, or when the other ranks keep it waiting for longer than limit(). (An exception
/// cannot leave MPI's call while a communicator is being made: see mpi/wait.hpp.) Verbs work in place; shared results
/// have the same bits on every rank. Spans may have any length (split at 1 GiB, below MPI's int counts), but the same
/// length on all ranks.
class Comm {
 public:
  /// A duplicate of MPI_COMM_WORLD; collective over the world.
  static Comm world();
  /// This rank alone. Not collective.
  static Comm self();
  Comm(Comm&&) noexcept;
  Comm& operator=(Comm&&) noexcept;
  ~Comm();

  int rank() const;
  int size() const;
  bool root() const { return rank() == 0; }

  /// Seconds after which a verb gives up on ranks that do not take part; 0: never (the default). Communicators split
  /// off or duplicated later inherit it. Without a limit, a rank that hangs or has died keeps the others waiting
  /// forever. Time in which this process was stopped does not count, nor does that in which a rank of the world on the
  /// same node was (kernels/timer.hpp).
  void limit(double seconds);
  double limit() const;
  const WaitLimit& wait_limit() const;  ///< this limit and what excuses others, for waits of other kinds

  /// Makes sums of floats and doubles independent of the order in which the ranks and MPI's algorithm add them: in
  /// fixed point (mpi/coded_and_fixed_point_sums.hpp), for twice the bytes and a second message. Off by default; must
  /// be the same on all ranks. Communicators split off or duplicated later inherit it.
  void sum_reproducibly(bool on);

  void sum(std::span<float> values);
  void sum(std::span<double> values);
  void sum(std::span<std::int64_t> values);
  double sum(double value);
  /// total = the sum of all ranks' summands. There are `all` of them together, at least one on each rank, each as long
  /// as `total`. Summed in fixed point, so the bits do not depend on which rank has which. `total` may be one of them.
  void sum_summands(const std::vector<std::span<const float>>& summands, int all, std::span<float> total);
  void sum_summands(const std::vector<std::span<const double>>& summands, int all, std::span<double> total);
  /// Begins a sum that runs beside the caller's further work. Every rank begins its sums in the same order.
  PendingSum start_sum(std::span<float> values);
  /// Whether long sums are added piece by piece, each piece on one rank: where few ranks add in MPI's order.
  bool sums_by_reduce_scatter() const;
  /// Begins a sum where sums_by_reduce_scatter(). test() or finish() updates, and `values` are undefined in the end.
  /// With `peers`, whose blocks hold values and results, the ranks read pieces of long sums in each other's memory.
  /// AllReduce::share_memory() says who may write there and when.
  PendingSum start_sum(std::span<float> values, const ReduceScatterUpdate& update, const PeerMemory* peers = nullptr);
  /// Begins a sum whose values travel as codes (mpi/coded_and_fixed_point_sums.hpp), whatever the number of ranks.
  PendingSum start_sum(CodedSum sum);
  double min(double value);
  double max(double value);
  bool any(bool value);  ///< true on every rank if true on one

  void broadcast(std::span<float> values, int root);
  void broadcast(std::span<std::int64_t> values, int root);
  void broadcast(std::string& text, int root);
  std::vector<double> all_gather(double value);  ///< every rank's value, on every rank
  void barrier();

  /// Whether all ranks hold the same value; every rank gets the same answer (rank-consistency hash).
  bool all_equal(std::uint64_t value);

  /// The ranks with the same colour, ordered by their rank here, or by `order`.
  Comm split(int colour) const;
  Comm split(int colour, int order) const;
  /// A communicator of these ranks whose messages are kept apart from this one's.
  Comm duplicate() const;

  /// The communicator as MPI_Comm, for io/ (a pointer to it, so that this header needs no mpi.h).
  const void* handle() const;

 private:
  struct State;
  explicit Comm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// MPI's all-to-all: every rank sends numbers to every other, and gets one answer to each number. Its calls are
/// collective over the communicator, which must outlive it, and throw as the communicator's verbs do.
class AllToAll {
 public:
  /// Collective: ranks tell each other their counts. This rank has to[r] numbers for rank r.
  AllToAll(Comm& comm, std::vector<int> to);

  std::size_t sent() const { return to_.all; }
  std::size_t received() const { return from_.all; }
  /// `values` (sent() of them): those for rank 0, for rank 1, ...; `arrived` (received() of them): from rank 0, ...
  void send(std::span<const float> values, std::span<float> arrived) const;
  /// The way back. `answers` (received() of them) have the order in which numbers arrived, `arrived` (sent() of them)
  /// the order in which they were sent.
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

/// Collective. Runs `action` on every rank. When it throws on some, every rank throws the error of the lowest of them:
/// the same class and text (prefixed with "rank r: " unless all ranks failed, or the root did). Without this, others
/// would wait forever in their next collective call. `action` must not leave collective calls half done when it throws.
void collective_try(Comm& comm, const std::function<void()>& action);

/// collective_try() for numbered pieces of work, of which each rank has some: calls action(i) for i from `first` on,
/// `count` times at most. Every rank throws the error of the lowest number, as it is: it is not one rank's matter.
void collective_try_each(Comm& comm, Index first, Index count, const std::function<void(Index)>& action);

/// Calls action(piece) on consecutive pieces of at most `limit` elements, never on an empty one: MPI counts elements in
/// an int, and some transports count bytes in one.
template <typename T, typename Action>
void for_each_chunk(std::span<T> values, std::size_t limit, Action&& action) {
  for (std::size_t first = 0; first < values.size(); first += limit)
    action(values.subspan(first, std::min(limit, values.size() - first)));
}

// What the root does for all ranks and may take long.

/// Collective. Runs `action` on the root alone, for as long as it takes: the other ranks wait for it without a limit.
/// When it throws, every rank throws the same error.
void collective_try_on_root(Comm& comm, const std::function<void()>& action);

// Numbers that ranks draw, each once, as they are ready for more work.

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

// Where teams of one world wait for each other, however long they take.

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
