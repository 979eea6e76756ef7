#include "mpi/peer_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <sstream>
#include <string>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/file_descriptor.hpp"

namespace mrmf {
namespace {

// The name of a file without a place is random (kernels/cpu/arena.hpp). So it also tells whether a process of
// this number is the one that was meant: another node or container has others.
std::string file_behind(const std::string& link) {
  std::array<char, 256> name{};
  const ssize_t length = ::readlink(link.c_str(), name.data(), name.size());
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : "";
}

std::string link_of(long process, int file) { return fmt::format("/proc/{}/fd/{}", process, file); }

// What the others need to find a rank's blocks, a line each: process, file, floats, name. Empty: they cannot.
std::string text_of(std::span<const SharedBlock> blocks) {
  std::string text;
  for (const SharedBlock& block : blocks) {
    const std::string name = block.file < 0 ? "" : file_behind(link_of(::getpid(), block.file));
    if (name.empty()) return "";
    text += fmt::format("{} {} {} {}\n", ::getpid(), block.file, block.values.size(), name);
  }
  return text;
}

}  // namespace

void PeerMemory::Mapping::Unmap::operator()(const float* data) const {
  ::munmap(const_cast<float*>(data), floats * sizeof(float));
}

std::optional<PeerMemory::Mapping> PeerMemory::map_file(const std::string& link, const std::string& name,
                                                        std::size_t floats) {
  if (file_behind(link) != name) return {};
  const FileDescriptor file(::open(link.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat facts {};
  if (!file || ::fstat(file.number(), &facts) != 0) return {};
  if (static_cast<std::size_t>(facts.st_size) < floats * sizeof(float)) return {};
  void* const memory = ::mmap(nullptr, floats * sizeof(float), PROT_READ, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) return {};
  return Mapping(static_cast<const float*>(memory), floats);
}

bool PeerMemory::map_rank(const std::string& told) {
  std::istringstream text(told);
  long process = 0;
  int file = 0;
  std::size_t floats = 0;
  for (std::string name; text >> process >> file >> floats && std::getline(text >> std::ws, name);) {
    std::optional<Mapping> mapping = map_file(link_of(process, file), name, floats);
    if (!mapping) return false;
    peers_.back().push_back(std::move(*mapping));
  }
  return !peers_.back().empty();
}

std::optional<PeerMemory> PeerMemory::map(Comm& comm, std::span<const SharedBlock> blocks) {
  PeerMemory peers(blocks);
  bool all = true;
  for (int r = 0; r < comm.size(); ++r) {
    std::string text = r == comm.rank() ? text_of(blocks) : "";
    comm.broadcast(text, r);
    peers.peers_.emplace_back();
    if (r == comm.rank()) continue;
    all = peers.map_rank(text) && all;
  }
  if (comm.any(!all)) return {};
  return peers;
}

std::optional<PeerMemory::Address> PeerMemory::address_of(std::span<const float> values) const {
  for (std::size_t block = 0; block < own_.size(); ++block) {
    const Span own = own_[block].values;
    const float *const begin = own.data(), *const end = begin + own.size();
    if (std::greater_equal<>()(values.data(), begin) && std::less_equal<>()(values.data() + values.size(), end))
      return Address{block, static_cast<std::uint64_t>(values.data() - begin)};
  }
  return {};
}

std::span<const float> PeerMemory::of(int rank, const Address& address, std::size_t count) const {
  const std::span<const float> block = peers_.at(static_cast<std::size_t>(rank)).at(address.block).values();
  MRMF_CHECK(address.first + count <= block.size(), "an address in another rank's memory");
  return block.subspan(address.first, count);
}

}  // namespace mrmf
