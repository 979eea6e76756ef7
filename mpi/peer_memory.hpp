// The memory of the other ranks of a node, mapped so that this rank can read it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/step.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

class PeerMemory {
 public:
  /// Where something lies in a rank's blocks: the block, and the first float in it.
  struct Place {
    std::uint64_t block = 0, first = 0;
  };

  /// Maps the blocks of all ranks. Collective. None on every rank where one cannot: its blocks are in no file
  /// (SharedBlock), or the ranks do not see each other's processes, as on several nodes and in separate containers.
  static std::optional<PeerMemory> map(Comm& comm, std::span<const SharedBlock> blocks);

  PeerMemory(PeerMemory&&) noexcept = default;
  PeerMemory& operator=(PeerMemory&&) = delete;
  ~PeerMemory();

  /// Of values in this rank's memory; none if they are not in its blocks.
  std::optional<Place> place_of(std::span<const float> values) const;
  /// `count` floats of another rank, valid as long as this lives.
  std::span<const float> of(int rank, const Place& place, std::size_t count) const;

 private:
  /// A block of another rank.
  struct Mapping {
    const float* data = nullptr;
    std::size_t floats = 0;
  };

  explicit PeerMemory(std::span<const SharedBlock> blocks) : own_(blocks.begin(), blocks.end()) {}
  bool map_rank(const std::string& told);

  std::vector<SharedBlock> own_;
  std::vector<std::vector<Mapping>> peers_;  // by rank; none of this rank's own
};

}  // namespace mrmf
