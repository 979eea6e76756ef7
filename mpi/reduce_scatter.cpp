#include "mpi/reduce_scatter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
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

namespace mrmf::mpi {

ReduceScatterSum::ReduceScatterSum(const Ranks& ranks, int tag, std::span<float> values, ReduceScatterUpdate update)
    : ranks_(ranks), tag_(tag), values_(values), update_(std::move(update)) {}

std::span<float> ReduceScatterSum::piece(std::span<float> values, int rank) const {
  const auto start_of = [&](int r) {
    return values.size() * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks_.size);
  };
  return values.subspan(start_of(rank), start_of(rank + 1) - start_of(rank));
}

void ReduceScatterSum::for_each_other(const std::function<void(int rank)>& action) const {
  for (int r = 0; r < ranks_.size; ++r)
    if (r != ranks_.rank) action(r);
}

void ReduceScatterSum::add(std::span<const float> piece) const {
  const std::span<float> own = own_piece();
  std::ranges::transform(own, piece, own.begin(), [](float a, float b) { return a + b; });
}

void ReduceScatterSum::update() const {
  const std::span<float> own = own_piece();
  if (update_.update) update_.update(static_cast<std::size_t>(own.data() - values_.data()), own.size());
}

// Messages with the same tag arrive in the order in which they were sent.
void ReduceScatterSum::receive_bytes(int from, int tag, std::span<std::byte> bytes) {
  for_each_chunk(bytes, ranks_.most * sizeof(float), [&](std::span<std::byte> part) {
    check(MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, from, tag, ranks_.comm,
                    under_way_.emplace_back("MPI_Irecv").begun()),
          "MPI_Irecv");
  });
}

void ReduceScatterSum::send_bytes(int to, int tag, std::span<const std::byte> bytes) {
  for_each_chunk(bytes, ranks_.most * sizeof(float), [&](std::span<const std::byte> part) {
    check(MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, to, tag, ranks_.comm,
                    under_way_.emplace_back("MPI_Isend").begun()),
          "MPI_Isend");
  });
}

bool ReduceScatterSum::test() {
  while (!under_way_.empty()) {
    if (!std::ranges::all_of(under_way_, [](Request& request) { return request.test(); })) return false;
    under_way_.clear();
    advance();
  }
  return true;
}

void ReduceScatterSum::finish(const WaitLimit& limit) {
  while (!under_way_.empty()) {
    for (Request& request : under_way_) request.finish(limit);
    under_way_.clear();
    advance();
  }
}

std::vector<float> SumMemory::take(std::size_t count) {
  const auto fits =
      std::ranges::find_if(free_, [&](const std::vector<float>& memory) { return memory.size() >= count; });
  if (fits == free_.end()) return std::vector<float>(count);
  std::vector<float> taken = std::move(*fits);
  free_.erase(fits);
  return taken;
}

MessageSum::MessageSum(const Ranks& ranks, int tag, std::span<float> values, std::shared_ptr<SumMemory> memory,
                       ReduceScatterUpdate update)
    : ReduceScatterSum(ranks, tag, values, std::move(update)), memory_(std::move(memory)) {
  arrived_ = memory_->take(own_piece().size() * static_cast<std::size_t>(ranks.size - 1));
  for_each_other([&](int r) { receive(r, tag, arrived(r)); });
  for_each_other([&](int r) { send(r, tag, piece(values, r)); });
}

std::span<float> MessageSum::arrived(int rank) {
  const std::size_t count = own_piece().size();
  return std::span(arrived_).subspan(count * static_cast<std::size_t>(rank - (rank > this->rank() ? 1 : 0)), count);
}

// First the others' values have arrived, then their results.
void MessageSum::advance() {
  if (added_) return;
  added_ = true;
  for_each_other([&](int r) { add(arrived(r)); });
  memory_->give_back(std::move(arrived_));
  update();
  for_each_other([&](int r) { receive(r, tag() + 1, piece(results(), r)); });
  for_each_other([&](int r) { send(r, tag() + 1, piece(results(), rank())); });
}

namespace {

// Ranks read each other's memory when a message has come. What was written or read before a message must be so for who
// gets it, on processors as well that reorder more than x86 does.
void order_around_message() { std::atomic_thread_fence(std::memory_order_seq_cst); }

}  // namespace

SharedSum::SharedSum(const Ranks& ranks, int tag, std::span<float> values, const PeerMemory& peers,
                     ReduceScatterUpdate update)
    : ReduceScatterSum(ranks, tag, values, std::move(update)),
      peers_(peers),
      addresses_(static_cast<std::size_t>(ranks.size)),
      done_(static_cast<std::size_t>(ranks.size), 1) {
  const auto of_values = peers.address_of(values), of_results = peers.address_of(results());
  MRMF_CHECK(of_values && of_results, "a sum in shared memory is of what is shared");
  const auto addresses = [&](int r) { return std::span(addresses_).subspan(static_cast<std::size_t>(r), 1); };
  addresses(rank()).front() = {*of_values, *of_results};
  order_around_message();
  for_each_other([&](int r) { receive(r, tag, addresses(r)); });
  for_each_other([&](int r) { send(r, tag, addresses(rank())); });
}

std::span<const float> SharedSum::values_of(int rank, std::span<const float> piece) const {
  PeerMemory::Address address = addresses_.at(static_cast<std::size_t>(rank)).values;
  address.first += static_cast<std::uint64_t>(piece.data() - values().data());
  return peers_.of(rank, address, piece.size());
}

std::span<const float> SharedSum::results_of(int rank, std::span<const float> piece) const {
  PeerMemory::Address address = addresses_.at(static_cast<std::size_t>(rank)).results;
  address.first += static_cast<std::uint64_t>(piece.data() - results().data());
  return peers_.of(rank, address, piece.size());
}

// First all ranks' values are complete, then their results.
void SharedSum::advance() {
  order_around_message();
  if (round_ == Round::results) {
    for_each_other([&](int r) {
      const std::span<float> theirs = piece(results(), r);
      std::ranges::copy(results_of(r, theirs), theirs.begin());
    });
    return;
  }
  round_ = Round::results;
  for_each_other([&](int r) { add(values_of(r, own_piece())); });
  update();
  order_around_message();
  const auto done = [&](int r) { return std::span(done_).subspan(static_cast<std::size_t>(r), 1); };
  for_each_other([&](int r) { receive(r, tag() + 1, done(r)); });
  for_each_other([&](int r) { send(r, tag() + 1, done(rank())); });
}

}  // namespace mrmf::mpi
