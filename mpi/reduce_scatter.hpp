// A long sum over few ranks as a reduce-scatter and an all-gather: each rank adds one piece and gives it to the others.
// MPI's own non-blocking sums of so few ranks send everything to one of them and back, and take fresh memory every
// time. Private to mpi/.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "mpi/comm.hpp"
#include "mpi/wait.hpp"

namespace mrmf::mpi {

/// What all kinds of such a sum have in common: pieces, and rounds of messages.
class ReduceScatterSum {
 public:
  struct Ranks {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0, size = 1;
    std::size_t most = std::size_t{1} << 28;  ///< floats in a message: MPI counts in an int, some transports bytes
  };
  ReduceScatterSum(const ReduceScatterSum&) = delete;
  ReduceScatterSum& operator=(const ReduceScatterSum&) = delete;
  virtual ~ReduceScatterSum() = default;

  bool test();  ///< whether it is done; also advances it
  void finish(const WaitLimit& limit);

 protected:
  /// All ranks begin their sums in the same order, with the same tags: `tag` and the next one, which no other message
  /// under way has. Without an update all ranks get the sums, in place of `values`.
  ReduceScatterSum(const Ranks& ranks, int tag, std::span<float> values, SumUpdate update);

  /// When all messages so far have arrived. The sum is done when no new ones are under way then.
  virtual void advance() = 0;

  int rank() const { return ranks_.rank; }
  int tag() const { return tag_; }
  std::span<float> values() const { return values_; }
  std::span<float> results() const { return update_.update ? update_.results : values_; }
  std::span<float> piece(std::span<float> values, int rank) const;
  std::span<float> own_piece() const { return piece(values_, ranks_.rank); }
  void for_each_other(const std::function<void(int rank)>& action) const;
  /// Adds another rank's values to this rank's piece.
  void add(std::span<const float> piece) const;
  void update() const;  ///< once the piece is complete
  template <typename T>
  void receive(int from, int tag, std::span<T> values) {
    receive_bytes(from, tag, std::as_writable_bytes(values));
  }
  template <typename T>
  void send(int to, int tag, std::span<T> values) {
    send_bytes(to, tag, std::as_bytes(values));
  }

 private:
  void receive_bytes(int from, int tag, std::span<std::byte> bytes);
  void send_bytes(int to, int tag, std::span<const std::byte> bytes);

  Ranks ranks_;
  int tag_;
  std::span<float> values_;
  SumUpdate update_;
  std::vector<Request> under_way_;
};

}  // namespace mrmf::mpi
