// Sums over few ranks by reduce-scatter and all-gather: by messages of floats or of codes, or read in the memory of the
// other ranks of a node (PeerMemory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/step_and_collectives.hpp"
#include "mpi/coded_and_fixed_point_sums.hpp"
#include "mpi/comm.hpp"
#include "mpi/wait.hpp"

namespace mrmf {

// The memory of the other ranks of a node, mapped so that this rank can read it.

class PeerMemory {
 public:
  /// Where something lies in a rank's blocks: the block, and the first float in it.
  struct Address {
    std::uint64_t block = 0, first = 0;
  };

  /// Maps the blocks of all ranks. Collective. None on every rank where one cannot: its blocks are in no file
  /// (SharedBlock), or the ranks do not see each other's processes, as on several nodes and in separate containers.
  static std::optional<PeerMemory> map(Comm& comm, std::span<const SharedBlock> blocks);

  /// The address of values in this rank's memory; none if they are not in its blocks.
  std::optional<Address> address_of(std::span<const float> values) const;
  /// `count` floats of another rank, valid as long as this lives.
  std::span<const float> of(int rank, const Address& address, std::size_t count) const;

 private:
  /// A block of another rank. Move-only; unmaps it.
  class Mapping {
   public:
    Mapping(const float* data, std::size_t floats) : data_(data, Unmap{floats}) {}
    std::span<const float> values() const { return {data_.get(), data_.get_deleter().floats}; }

   private:
    struct Unmap {
      std::size_t floats;
      void operator()(const float* data) const;
    };
    std::unique_ptr<const float, Unmap> data_;
  };

  explicit PeerMemory(std::span<const SharedBlock> blocks) : own_(blocks.begin(), blocks.end()) {}
  static std::optional<Mapping> map_file(const std::string& link, const std::string& name, std::size_t floats);
  bool map_rank(const std::string& told);

  std::vector<SharedBlock> own_;
  std::vector<std::vector<Mapping>> peers_;  // by rank; none of this rank's own
};

}  // namespace mrmf

namespace mrmf::mpi {

// A long sum over few ranks as a reduce-scatter and an all-gather: each rank adds one piece and gives it to the others.
// MPI's own non-blocking sums of so few ranks send everything to one of them and back, and take fresh memory every
// time. The pieces go in messages, or are read in each other's memory. Private to mpi/.

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
  ReduceScatterSum(const Ranks& ranks, int tag, std::span<float> values, ReduceScatterUpdate update);

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
  ReduceScatterUpdate update_;
  std::vector<Request> under_way_;
};

// A sum by reduce-scatter whose ranks send each other the pieces.

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
  /// Begins the sum.
  MessageSum(const Ranks& ranks, int tag, std::span<float> values, std::shared_ptr<SumMemory> memory,
             ReduceScatterUpdate update = {});

 private:
  std::span<float> arrived(int rank);
  void advance() override;

  std::shared_ptr<SumMemory> memory_;
  std::vector<float> arrived_;  // this rank's piece of the others' values
  bool added_ = false;
};

// A sum by reduce-scatter, with an update, whose ranks read the pieces in each other's memory. Messages only say where,
// and when.

/// No rank writes to what others may read: to its values before all have sent their second message, which says that
/// they have read them; to its results before their next sum's first message.
class SharedSum final : public ReduceScatterSum {
 public:
  /// Begins. requires: values and results in the blocks that `peers` was made for. Keeps a reference to it.
  SharedSum(const Ranks& ranks, int tag, std::span<float> values, const PeerMemory& peers, ReduceScatterUpdate update);

 private:
  /// Where a rank's values and results lie.
  struct Addresses {
    PeerMemory::Address values, results;
  };

  void advance() override;
  /// What another rank has at the offset of a piece of this rank's values, or of its results.
  std::span<const float> values_of(int rank, std::span<const float> piece) const;
  std::span<const float> results_of(int rank, std::span<const float> piece) const;

  const PeerMemory& peers_;
  std::vector<Addresses> addresses_;  // by rank
  std::vector<char> done_;            // by rank: what their second message says
  enum class Round { values, results } round_ = Round::values;
};

// Which sums over few ranks of a CPU are added so, and the memory that these need.

constexpr int few_ranks = 8;
constexpr std::size_t long_sum = std::size_t{1} << 14;  ///< values from which on few ranks add them by reduce-scatter

/// Whether so many ranks of a CPU add long sums by reduce-scatter, each piece on one rank: where few ranks add in MPI's
/// order.
constexpr bool adds_by_reduce_scatter(int ranks, bool reproducible_sums = false) {
  return ranks > 1 && ranks <= few_ranks && !reproducible_sums;
}

/// Floats that a rank keeps for sums of so many values, if all their parts are under way at once: its piece of the
/// others' values. Ranks that read them in each other's memory keep none. None for other numbers of ranks, where MPI
/// takes and frees what it needs.
constexpr std::size_t floats_of_sums(std::size_t values, int ranks) {
  if (!adds_by_reduce_scatter(ranks) || values < long_sum) return 0;
  const auto all = static_cast<std::size_t>(ranks);
  return (values + all - 1) / all * (all - 1);
}

// A coded sum by messages. Private to mpi/.

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
