// Sums whose values travel as codes, by messages (CodedMessages of reduce_scatter.hpp) and without.
#include "mpi/coded_and_fixed_point_sums.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/errors.hpp"
#include "mpi/reduce_scatter.hpp"

namespace mrmf {
namespace {

// In front of each code: its bytes. Codes begin at multiples of eight bytes.
constexpr std::size_t kLength = sizeof(std::uint64_t);

constexpr std::size_t padded(std::size_t bytes) { return (bytes + kLength - 1) / kLength * kLength; }
std::size_t message_bytes(std::size_t code, int workers) {
  return static_cast<std::size_t>(workers) * (kLength + padded(code));
}

// Lets `write` put a code behind its length; returns the bytes of both.
template <class Write>
std::size_t write_code(std::span<std::byte> to, const Write& write) {
  const std::uint64_t length = write(to.subspan(kLength));
  MRMF_CHECK(length + kLength <= to.size(), "a code is longer than it may be");
  std::memcpy(to.data(), &length, kLength);
  return kLength + padded(length);
}

std::span<const std::byte> read_code(std::span<const std::byte>& from) {
  std::uint64_t length = 0;
  MRMF_CHECK(from.size() >= kLength, "a message ends within a code");
  std::memcpy(&length, from.data(), kLength);
  MRMF_CHECK(length <= from.size() - kLength, "a message ends within a code");
  const std::span<const std::byte> code = from.subspan(kLength, length);
  from = from.subspan(std::min(from.size(), kLength + padded(length)));
  return code;
}

}  // namespace

SumPiece sum_piece(std::size_t count, int part, int parts) {
  const std::size_t blocks = (count + SumCoding::kBlock - 1) / SumCoding::kBlock;
  const auto start_of = [&](int r) {
    return std::min(count,
                    SumCoding::kBlock * (blocks * static_cast<std::size_t>(r) / static_cast<std::size_t>(parts)));
  };
  return {start_of(part), start_of(part + 1) - start_of(part)};
}

void sum_here(const std::vector<SumCoding*>& ranks, std::size_t count, int workers_per_rank) {
  const int size = static_cast<int>(ranks.size());
  for (int r = 0; r < size; ++r) {
    SumCoding& owner = *ranks[static_cast<std::size_t>(r)];
    const SumPiece piece = sum_piece(count, r, size);
    std::vector<std::vector<std::byte>> codes;
    std::vector<std::span<const std::byte>> views;
    for (SumCoding* const from : ranks)
      for (int worker = 0; worker < workers_per_rank; ++worker) {
        codes.emplace_back(from->code_bytes(piece.count));
        codes.back().resize(from->encode(worker, piece, codes.back()));
      }
    views.assign(codes.begin(), codes.end());
    std::vector<std::byte> result(owner.result_bytes(piece.count));
    result.resize(owner.add(piece, views, result));
    for (SumCoding* const to : ranks) to->decode(piece, result);
  }
}

std::vector<std::byte> CodeMemory::take(std::size_t bytes) {
  const auto fits =
      std::ranges::find_if(free_, [&](const std::vector<std::byte>& memory) { return memory.size() >= bytes; });
  if (fits == free_.end()) return std::vector<std::byte>(bytes);
  std::vector<std::byte> taken = std::move(*fits);
  free_.erase(fits);
  return taken;
}

std::uint64_t CodeMemory::take_sent() { return std::exchange(sent_, 0); }

namespace mpi {

CodedMessages::CodedMessages(const Ranks& ranks, int tag, CodedSum sum)
    : ReduceScatterSum(ranks, tag, {}, {}),
      sum_(std::move(sum)),
      size_(ranks.size),
      sent_(static_cast<std::size_t>(ranks.size)),
      received_(static_cast<std::size_t>(ranks.size)) {
  const SumPiece own = piece_of(rank());
  const std::size_t most = message_bytes(sum_.coding->code_bytes(own.count), sum_.workers);
  MRMF_CHECK(ranks.size == 1 || most <= ranks.most * sizeof(float), "a coded sum goes in one message");
  if (own.count > 0)
    for_each_other([&](int r) { receive(r, tag, std::span(message(received_, r, most)).first(most)); });
  for_each_other([&](int r) {
    const SumPiece theirs = piece_of(r);
    if (theirs.count == 0) return;
    const std::size_t bytes =
        encode(theirs, message(sent_, r, message_bytes(sum_.coding->code_bytes(theirs.count), sum_.workers)));
    send(r, tag, std::span(sent_[static_cast<std::size_t>(r)]).first(bytes));
    sum_.memory->count_sent(bytes);
  });
  if (own.count > 0) encode(own, message(received_, rank(), most));
  if (ranks.size == 1) advance(), advance();  // nothing is to be waited for
}

CodedMessages::~CodedMessages() {
  if (abandoned_calls()) {  // MPI may still write there, so the memory stays until the process ends
    (void)new std::vector<Bytes>(std::move(sent_));
    (void)new std::vector<Bytes>(std::move(received_));
    return;
  }
  for (std::vector<Bytes>* const messages : {&sent_, &received_})
    for (Bytes& bytes : *messages)
      if (!bytes.empty()) sum_.memory->give_back(std::move(bytes));
}

CodedMessages::Bytes& CodedMessages::message(std::vector<Bytes>& of, int rank, std::size_t bytes) {
  Bytes& buffer = of[static_cast<std::size_t>(rank)];
  if (buffer.size() >= bytes && !buffer.empty()) return buffer;
  if (!buffer.empty()) sum_.memory->give_back(std::move(buffer));
  return buffer = sum_.memory->take(std::max<std::size_t>(bytes, 1));
}

std::size_t CodedMessages::encode(const SumPiece& piece, Bytes& message) {
  std::size_t used = 0;
  for (int worker = 0; worker < sum_.workers; ++worker)
    used += write_code(std::span(message).subspan(used),
                       [&](std::span<std::byte> codes) { return sum_.coding->encode(worker, piece, codes); });
  return used;
}

// First all workers' codes of this rank's piece have arrived, then the results of all pieces. Where there are fewer
// blocks than ranks, some ranks have no piece, and nothing is sent for it.
void CodedMessages::advance() {
  if (added_) {
    for (int r = 0; r < size_; ++r) {
      if (piece_of(r).count == 0) continue;
      std::span<const std::byte> from = (r == rank() ? sent_ : received_)[static_cast<std::size_t>(r)];
      sum_.coding->decode(piece_of(r), read_code(from));
    }
    return;
  }
  added_ = true;
  const SumPiece own = piece_of(rank());
  const std::size_t bytes = own.count > 0 ? add(own) : 0;
  for_each_other([&](int r) {
    const SumPiece theirs = piece_of(r);
    if (theirs.count == 0) return;
    const std::size_t most = message_bytes(sum_.coding->result_bytes(theirs.count), 1);
    receive(r, tag() + 1, std::span(message(received_, r, most)).first(most));
  });
  if (own.count == 0) return;
  for_each_other([&](int r) {
    send(r, tag() + 1, std::span(sent_[static_cast<std::size_t>(rank())]).first(bytes));
    sum_.memory->count_sent(bytes);
  });
}

// Puts the result where it is sent from; returns its message's bytes.
std::size_t CodedMessages::add(const SumPiece& own) {
  std::vector<std::span<const std::byte>> workers;
  for (const Bytes& bytes : received_) {
    std::span<const std::byte> from = bytes;
    for (int worker = 0; worker < sum_.workers; ++worker) workers.push_back(read_code(from));
  }
  Bytes& result = message(sent_, rank(), message_bytes(sum_.coding->result_bytes(own.count), 1));
  return write_code(result, [&](std::span<std::byte> codes) { return sum_.coding->add(own, workers, codes); });
}

}  // namespace mpi

}  // namespace mrmf
