// The memory of the other ranks of a node, mapped so that this rank can read it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/collectives.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

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
