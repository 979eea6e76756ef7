#include "src/training/sum_coding.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/check.hpp"
#include "kernels/cpu/sum_codes.hpp"
#include "kernels/random.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kBlock = SumCoding::kBlock;
constexpr std::size_t kScaled = 256;  // values with one scale

// In front of all codes.
struct Header {
  std::uint32_t rows = 0;
  std::uint8_t finite = 1, zeros = 0;
  std::uint16_t unused = 0;
};
static_assert(sizeof(Header) == 8);

Header header_of(std::span<const std::byte> codes) {
  Header header;
  MRMF_CHECK(codes.size() >= sizeof header, "a code without its header");
  std::memcpy(&header, codes.data(), sizeof header);
  return header;
}

std::uint8_t* body_of(std::span<std::byte> codes) { return reinterpret_cast<std::uint8_t*>(codes.data()) + 8; }
const std::uint8_t* body_of(std::span<const std::byte> codes) {
  return reinterpret_cast<const std::uint8_t*>(codes.data()) + 8;
}

// Calls body(block of the piece) for all of them; the last may be shorter.
template <class Body>
void for_blocks(const SumPiece& piece, const Body& body) {
  for (std::size_t first = piece.first; first < piece.end(); first += kBlock)
    body(SumPiece{first, std::min(kBlock, piece.end() - first)});
}

// Bytes of a plane of bits of a piece: of whole blocks but the last.
std::size_t plane_bytes(std::size_t count) {
  return count / kBlock * cpu::bit_bytes(kBlock) + cpu::bit_bytes(count % kBlock);
}

using Floats = std::array<float, kBlock>;
using Sums = std::array<std::int32_t, kBlock>;
using Plane = std::array<std::uint8_t, kBlock / 8>;

/// What codings of signs have in common: the result is the sums' signs, one bit each or, with zeros, two.
class SignResult : public SumCoding {
 public:
  SignResult(PackedTensors tensors, std::vector<WorkerValues> workers, Span result)
      : tensors_(std::move(tensors)), workers_(std::move(workers)), result_(result) {}

  std::size_t result_bytes(std::size_t count) const override { return sizeof(Header) + 2 * plane_bytes(count); }

  void decode(const SumPiece& piece, std::span<const std::byte> result) override {
    const Header header = header_of(result);
    const std::uint8_t* positive = body_of(result);
    const std::uint8_t* nonzero = header.zeros != 0 ? positive + plane_bytes(piece.count) : nullptr;
    Floats signs;
    for_blocks(piece, [&](const SumPiece& block) {
      cpu::unpack_signs(positive, nonzero, block.count, signs.data());
      if (header.finite == 0) signs.fill(std::numeric_limits<float>::quiet_NaN());
      tensors_.write(signs.data(), block, result_);
      positive += cpu::bit_bytes(block.count);
      if (nonzero != nullptr) nonzero += cpu::bit_bytes(block.count);
    });
  }

 protected:
  const WorkerValues& worker(int i) const { return workers_[static_cast<std::size_t>(i)]; }
  static std::uint8_t all_finite(const std::vector<std::span<const std::byte>>& workers) {
    return std::ranges::all_of(workers, [](auto codes) { return header_of(codes).finite != 0; }) ? 1 : 0;
  }
  const PackedTensors& tensors() const { return tensors_; }

 private:
  PackedTensors tensors_;
  std::vector<WorkerValues> workers_;
  Span result_;
};

/// Whole numbers between -most and most. Those of all workers add up to no more than a byte holds, or half of one.
class Levels final : public SignResult {
 public:
  Levels(bool halves, int most, PackedTensors tensors, std::vector<WorkerValues> workers, Span result)
      : SignResult(std::move(tensors), std::move(workers), result), halves_(halves), most_(most) {}

  std::size_t code_bytes(std::size_t count) const override {
    return sizeof(Header) + count / kBlock * bytes(kBlock) + bytes(count % kBlock);
  }

  std::size_t encode(int number, const SumPiece& piece, std::span<std::byte> codes) override {
    const WorkerValues& from = worker(number);
    Header header{from.rows};
    std::uint8_t* to = body_of(codes);
    std::array<std::int8_t, kBlock> levels;
    for_blocks(piece, [&](const SumPiece& block) {
      std::int8_t* const here = halves_ ? levels.data() : reinterpret_cast<std::int8_t*>(to);
      tensors().for_each(block, [&](std::size_t offset, const PackedTensors::Part& part) {
        const float* const values = from.values.data() + part.at;
        if (!cpu::finite(values, part.count)) header.finite = 0;
        cpu::to_levels(values, part.count, from.factors[part.tensor], most_, here + offset);
      });
      if (halves_) cpu::pack_halves(here, block.count, to);
      to += bytes(block.count);
    });
    std::memcpy(codes.data(), &header, sizeof header);
    return code_bytes(piece.count);
  }

  std::size_t add(const SumPiece& piece, const std::vector<std::span<const std::byte>>& workers,
                  std::span<std::byte> result) override {
    const Header header{0, all_finite(workers), 1};
    std::memcpy(result.data(), &header, sizeof header);
    std::uint8_t* positive = body_of(result);
    std::uint8_t* nonzero = positive + plane_bytes(piece.count);
    std::size_t at = 0;
    for_blocks(piece, [&](const SumPiece& block) {
      Sums sums{};
      for (const std::span<const std::byte> codes : workers) {
        const std::uint8_t* const from = body_of(codes) + at;
        halves_ ? cpu::add_halves(from, block.count, sums.data())
                : cpu::add_levels(reinterpret_cast<const std::int8_t*>(from), block.count, sums.data());
      }
      bool any_zero = false;
      cpu::pack_signs(sums.data(), block.count, positive, nonzero, any_zero);
      positive += cpu::bit_bytes(block.count), nonzero += cpu::bit_bytes(block.count);
      at += bytes(block.count);
    });
    return result_bytes(piece.count);
  }

 private:
  std::size_t bytes(std::size_t count) const { return halves_ ? cpu::half_bytes(count) : count; }

  bool halves_;
  int most_;
};

/// A bit for each sign, and where a worker has a zero, another that says so. The majority of rows wins; a tie is broken
/// by a bit that is a function of the step and the place, and stays zero where nobody votes.
class Votes final : public SignResult {
 public:
  Votes(std::uint64_t tie_key, PackedTensors tensors, std::vector<WorkerValues> workers, Span result)
      : SignResult(std::move(tensors), std::move(workers), result),
        tie_key_(mix(tie_key, this->tensors().begin_in_arena())) {}

  std::size_t code_bytes(std::size_t count) const override { return result_bytes(count); }

  std::size_t encode(int number, const SumPiece& piece, std::span<std::byte> codes) override {
    const WorkerValues& from = worker(number);
    Header header{from.rows};
    const std::size_t plane = plane_bytes(piece.count);
    std::uint8_t* positive = body_of(codes);
    std::uint8_t* nonzero = positive + plane;
    Floats values;
    for_blocks(piece, [&](const SumPiece& block) {
      bool any_zero = false;
      tensors().read(from.values, block, values.data());
      if (!cpu::finite(values.data(), block.count)) header.finite = 0;
      cpu::pack_signs(values.data(), block.count, positive, nonzero, any_zero);
      if (any_zero) header.zeros = 1;
      positive += cpu::bit_bytes(block.count), nonzero += cpu::bit_bytes(block.count);
    });
    std::memcpy(codes.data(), &header, sizeof header);
    return sizeof header + (header.zeros != 0 ? 2 : 1) * plane;
  }

  std::size_t add(const SumPiece& piece, const std::vector<std::span<const std::byte>>& workers,
                  std::span<std::byte> result) override {
    std::vector<Vote> votes;
    bool zeros = true;  // somebody has some, or nobody votes
    for (const std::span<const std::byte> codes : workers)
      if (const Header one = header_of(codes); one.rows > 0)
        votes.push_back({static_cast<std::int32_t>(one.rows), body_of(codes),
                         one.zeros != 0 ? body_of(codes) + plane_bytes(piece.count) : nullptr});
    if (!votes.empty()) zeros = std::ranges::any_of(votes, [](const Vote& vote) { return vote.nonzero != nullptr; });
    const Header header{0, all_finite(workers), static_cast<std::uint8_t>(zeros ? 1 : 0)};
    std::memcpy(result.data(), &header, sizeof header);
    const std::size_t plane = plane_bytes(piece.count);
    std::uint8_t* positive = body_of(result);
    std::uint8_t* nonzero = positive + plane;
    for_blocks(piece, [&](const SumPiece& block) {
      count(votes, block, positive, nonzero);
      const std::size_t bytes = cpu::bit_bytes(block.count);
      positive += bytes, nonzero += bytes;
      for (Vote& vote : votes) vote.positive += bytes, vote.nonzero += vote.nonzero != nullptr ? bytes : 0;
    });
    return sizeof header + (zeros ? 2 : 1) * plane;
  }

 private:
  struct Vote {
    std::int32_t rows;
    const std::uint8_t *positive, *nonzero;
  };

  void count(const std::vector<Vote>& votes, const SumPiece& block, std::uint8_t* positive,
             std::uint8_t* nonzero) const {
    Sums sums{};
    Plane voted{};
    const std::size_t bytes = cpu::bit_bytes(block.count);
    for (const Vote& vote : votes) {
      cpu::add_signs(vote.positive, vote.nonzero, block.count, vote.rows, sums.data());
      for (std::size_t j = 0; j < bytes; ++j)
        voted[j] = static_cast<std::uint8_t>(voted[j] | (vote.nonzero != nullptr ? vote.nonzero[j] : 0xFFU));
    }
    bool any_zero = false;
    cpu::pack_signs(sums.data(), block.count, positive, nonzero, any_zero);
    if (!any_zero) return;
    const Plane bits = tie_bits(block);
    for (std::size_t j = 0; j < bytes; ++j) {
      const auto tie = static_cast<std::uint8_t>(voted[j] & ~nonzero[j]);
      positive[j] = static_cast<std::uint8_t>(positive[j] | (tie & bits[j]));
      nonzero[j] = static_cast<std::uint8_t>(nonzero[j] | tie);
    }
  }

  Plane tie_bits(const SumPiece& block) const {
    Plane bits;
    for (std::size_t j = 0; j < bits.size(); j += sizeof(std::uint64_t)) {
      const std::uint64_t word = mix(tie_key_, block.first, j);
      std::memcpy(bits.data() + j, &word, sizeof word);
    }
    return bits;
  }

  std::uint64_t tie_key_;
};

/// Numbers of fewer bits, which are added in float32 in the workers' order; the sum is rounded once more. Subclasses
/// say how a block is written and read.
class Rounded : public SumCoding {
 public:
  Rounded(PackedTensors tensors, std::vector<WorkerValues> workers, Span result)
      : tensors_(std::move(tensors)), workers_(std::move(workers)), result_(result) {}

  std::size_t code_bytes(std::size_t count) const override {
    return count / kBlock * block_bytes(kBlock) + block_bytes(count % kBlock);
  }
  std::size_t result_bytes(std::size_t count) const override { return code_bytes(count); }

  std::size_t encode(int number, const SumPiece& piece, std::span<std::byte> codes) override {
    const WorkerValues& from = workers_[static_cast<std::size_t>(number)];
    std::byte* to = codes.data();
    Floats values, residual, decoded;
    for_blocks(piece, [&](const SumPiece& block) {
      tensors_.read(from.values, block, values.data());
      if (!from.residual.empty()) {
        tensors_.read(from.residual, block, residual.data());
        cpu::add(residual.data(), block.count, values.data());
      }
      write(values.data(), block.count, to);
      if (!from.residual.empty()) {
        read(to, block.count, decoded.data());
        cpu::subtract(decoded.data(), block.count, values.data());
        tensors_.write(values.data(), block, from.residual);
      }
      to += block_bytes(block.count);
    });
    return code_bytes(piece.count);
  }

  std::size_t add(const SumPiece& piece, const std::vector<std::span<const std::byte>>& workers,
                  std::span<std::byte> result) override {
    Floats sum, one;
    std::size_t at = 0;
    for_blocks(piece, [&](const SumPiece& block) {
      read(workers.front().data() + at, block.count, sum.data());
      for (std::size_t i = 1; i < workers.size(); ++i) {
        read(workers[i].data() + at, block.count, one.data());
        cpu::add(one.data(), block.count, sum.data());
      }
      write(sum.data(), block.count, result.data() + at);
      keep_rounding(block, sum, result.data() + at);
      at += block_bytes(block.count);
    });
    return code_bytes(piece.count);
  }

  void decode(const SumPiece& piece, std::span<const std::byte> result) override {
    const std::byte* from = result.data();
    Floats values;
    for_blocks(piece, [&](const SumPiece& block) {
      read(from, block.count, values.data());
      tensors_.write(values.data(), block, result_);
      from += block_bytes(block.count);
    });
  }

 protected:
  virtual std::size_t block_bytes(std::size_t count) const = 0;
  virtual void write(const float* values, std::size_t count, std::byte* to) const = 0;
  virtual void read(const std::byte* from, std::size_t count, float* values) const = 0;

 private:
  // What the sum's own rounding leaves out, the first worker here brings to the next sum.
  void keep_rounding(const SumPiece& block, Floats& sum, const std::byte* rounded) const {
    const Span residual = workers_.front().residual;
    if (residual.empty()) return;
    Floats left;
    read(rounded, block.count, left.data());
    cpu::subtract(left.data(), block.count, sum.data());
    tensors_.read(residual, block, left.data());
    cpu::add(sum.data(), block.count, left.data());
    tensors_.write(left.data(), block, residual);
  }

  PackedTensors tensors_;
  std::vector<WorkerValues> workers_;
  Span result_;
};

class Bf16 final : public Rounded {
 public:
  using Rounded::Rounded;

 private:
  std::size_t block_bytes(std::size_t count) const override { return 2 * count; }
  void write(const float* values, std::size_t count, std::byte* to) const override {
    cpu::to_bf16(values, count, reinterpret_cast<std::uint16_t*>(to));
  }
  void read(const std::byte* from, std::size_t count, float* values) const override {
    cpu::from_bf16(reinterpret_cast<const std::uint16_t*>(from), count, values);
  }
};

/// A scale, and its integers, for every kScaled values.
class Scaled final : public Rounded {
 public:
  using Rounded::Rounded;

 private:
  static std::size_t scales(std::size_t count) { return (count + kScaled - 1) / kScaled; }
  std::size_t block_bytes(std::size_t count) const override { return scales(count) * sizeof(float) + count; }
  void write(const float* values, std::size_t count, std::byte* to) const override {
    auto* const codes = reinterpret_cast<std::int8_t*>(to + scales(count) * sizeof(float));
    for (std::size_t i = 0; i < scales(count); ++i) {
      const std::size_t first = i * kScaled;
      const float scale = cpu::to_scaled(values + first, std::min(kScaled, count - first), codes + first);
      std::memcpy(to + i * sizeof scale, &scale, sizeof scale);
    }
  }
  void read(const std::byte* from, std::size_t count, float* values) const override {
    const auto* const codes = reinterpret_cast<const std::int8_t*>(from + scales(count) * sizeof(float));
    for (std::size_t i = 0; i < scales(count); ++i) {
      const std::size_t first = i * kScaled;
      float scale = 0;
      std::memcpy(&scale, from + i * sizeof scale, sizeof scale);
      cpu::from_scaled(codes + first, std::min(kScaled, count - first), scale, values + first);
    }
  }
};

}  // namespace

void PackedTensors::read(ConstSpan arena, const SumPiece& piece, float* to) const {
  for_each(piece,
           [&](std::size_t offset, const Part& part) { std::copy_n(arena.data() + part.at, part.count, to + offset); });
}

void PackedTensors::write(const float* from, const SumPiece& piece, Span arena) const {
  for_each(piece, [&](std::size_t offset, const Part& part) {
    std::copy_n(from + offset, part.count, arena.data() + part.at);
  });
}

std::unique_ptr<SumCoding> make_sum_coding(const CodingSettings& settings, PackedTensors tensors,
                                           std::vector<WorkerValues> workers, Span result) {
  switch (settings.scheme) {
    case Communication::bf16: return std::make_unique<Bf16>(std::move(tensors), std::move(workers), result);
    case Communication::int8: return std::make_unique<Scaled>(std::move(tensors), std::move(workers), result);
    case Communication::vote:
      return std::make_unique<Votes>(settings.tie_key, std::move(tensors), std::move(workers), result);
    case Communication::levels8:
    case Communication::levels8_l0:
    case Communication::levels4:
      return std::make_unique<Levels>(settings.scheme == Communication::levels4, settings.most_level,
                                      std::move(tensors), std::move(workers), result);
    case Communication::fp32:
    case Communication::automatic: break;
  }
  throw FaultError("sums in float32 have no codes");
}

int most_workers(Communication scheme) {
  switch (scheme) {
    case Communication::levels8:
    case Communication::levels8_l0: return 127;
    case Communication::levels4: return 15;
    default: return std::numeric_limits<int>::max();
  }
}

int most_level(Communication scheme, int workers) {
  const int level = most_workers(scheme) / workers;
  return scheme == Communication::levels4 ? std::min(level, 7) : level;
}

CodeBytes code_bytes(Communication scheme, double values) {
  switch (scheme) {
    case Communication::bf16: return {2 * values, 2 * values};
    case Communication::int8: {
      const double bytes = values * (1 + sizeof(float) / double{kScaled});
      return {bytes, bytes};
    }
    case Communication::levels8:
    case Communication::levels8_l0: return {values, values / 4};
    case Communication::levels4: return {values / 2, values / 4};
    case Communication::vote: return {values / 8, values / 8};
    case Communication::fp32:
    case Communication::automatic: break;
  }
  return {4 * values, 4 * values};
}

double sum_bytes(Communication scheme, double values, int ranks, int workers) {
  const CodeBytes bytes = code_bytes(scheme, values);
  return (ranks - 1.0) / ranks *
         (scheme == Communication::fp32 ? bytes.there + bytes.back : workers * bytes.there + bytes.back);
}

}  // namespace mrmf
