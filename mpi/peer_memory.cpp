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

#include "kernels/check.hpp"

namespace mrmf {
namespace {

// The name of a file without a place is random (kernels/host/shared_arena.hpp). So it also tells whether a process of
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

// Null: it cannot be mapped.
const float* map_file(const std::string& link, const std::string& name, std::size_t floats) {
  if (file_behind(link) != name) return nullptr;
  const int file = ::open(link.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return nullptr;
  struct stat facts {};
  void* memory = MAP_FAILED;
  if (::fstat(file, &facts) == 0 && static_cast<std::size_t>(facts.st_size) >= floats * sizeof(float))
    memory = ::mmap(nullptr, floats * sizeof(float), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<const float*>(memory);
}

}  // namespace

bool PeerMemory::map_rank(const std::string& told) {
  std::istringstream text(told);
  long process = 0;
  int file = 0;
  std::size_t floats = 0;
  for (std::string name; text >> process >> file >> floats && std::getline(text >> std::ws, name);) {
    const float* const data = map_file(link_of(process, file), name, floats);
    if (data == nullptr) return false;
    peers_.back().push_back({data, floats});
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

PeerMemory::~PeerMemory() {
  for (const std::vector<Mapping>& mappings : peers_)
    for (const Mapping& mapping : mappings) ::munmap(const_cast<float*>(mapping.data), mapping.floats * sizeof(float));
}

std::optional<PeerMemory::Place> PeerMemory::place_of(std::span<const float> values) const {
  for (std::size_t block = 0; block < own_.size(); ++block) {
    const Span own = own_[block].values;
    const float *const begin = own.data(), *const end = begin + own.size();
    if (std::greater_equal<>()(values.data(), begin) && std::less_equal<>()(values.data() + values.size(), end))
      return Place{block, static_cast<std::uint64_t>(values.data() - begin)};
  }
  return {};
}

std::span<const float> PeerMemory::of(int rank, const Place& place, std::size_t count) const {
  const Mapping& mapping = peers_.at(static_cast<std::size_t>(rank)).at(place.block);
  MRMF_CHECK(place.first + count <= mapping.floats, "a place in another rank's memory");
  return {mapping.data + place.first, count};
}

}  // namespace mrmf
