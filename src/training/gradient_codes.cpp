// The codes of gradients: bfloat16, integers with a scale, levels, votes of signs. Declared in
// gradient_compression.hpp.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/cpu/sum_codes.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "src/training/gradient_compression.hpp"

namespace mrmf::coding {

// Codings in numbers of fewer bits: bfloat16, and integers with a scale.

namespace {

/// Numbers of fewer bits, which are added in float32 in the workers' order; the sum is rounded once more. What that
/// leaves out is brought to the next sum, on whichever rank adds the piece then. Subclasses say how a block is written
/// and read.
class Rounded : public SumCoding {
 public:
  Rounded(Values values)
      : tensors_(std::move(values.tensors)),
        workers_(std::move(values.workers)),
        result_(values.result),
        left_out_(values.sum_residual) {}

  std::size_t code_bytes(std::size_t count) const override {
    return count / kBlock * block_bytes(kBlock) + block_bytes(count % kBlock);
  }
  std::size_t result_bytes(std::size_t count) const override { return code_bytes(count); }

  std::size_t encode(int number, const SumPiece& piece, std::span<std::byte> codes) override {
    const WorkerValues& from = workers_[static_cast<std::size_t>(number)];
    for_blocks(piece, [&](const SumPiece& block, std::size_t i) {
      Floats values, residual, decoded;
      std::byte* const to = codes.data() + i * block_bytes(kBlock);
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
    });
    return code_bytes(piece.count);
  }

  std::size_t add(const SumPiece& piece, const std::vector<std::span<const std::byte>>& workers,
                  std::span<std::byte> result) override {
    added_ = piece;
    for_blocks(piece, [&](const SumPiece& block, std::size_t number) {
      Floats sum, one;
      const std::size_t at = number * block_bytes(kBlock);
      read(workers.front().data() + at, block.count, sum.data());
      for (std::size_t i = 1; i < workers.size(); ++i) {
        read(workers[i].data() + at, block.count, one.data());
        cpu::add(one.data(), block.count, sum.data());
      }
      round(block, sum, result.data() + at);
    });
    return code_bytes(piece.count);
  }

  void decode(const SumPiece& piece, std::span<const std::byte> result) override {
    for_blocks(piece, [&](const SumPiece& block, std::size_t i) {
      Floats values;
      read(result.data() + i * block_bytes(kBlock), block.count, values.data());
      tensors_.write(values.data(), block, result_);
      if (left_out_.empty() || (piece.first == added_.first && added_.count > 0)) return;
      values.fill(0);  // another rank has it
      tensors_.write(values.data(), block, left_out_);
    });
  }

 protected:
  virtual std::size_t block_bytes(std::size_t count) const = 0;
  virtual void write(const float* values, std::size_t count, std::byte* to) const = 0;
  virtual void read(const std::byte* from, std::size_t count, float* values) const = 0;

 private:
  void round(const SumPiece& block, Floats& sum, std::byte* to) const {
    if (left_out_.empty()) return write(sum.data(), block.count, to);
    Floats other;
    tensors_.read(left_out_, block, other.data());
    cpu::add(other.data(), block.count, sum.data());
    write(sum.data(), block.count, to);
    read(to, block.count, other.data());
    cpu::subtract(other.data(), block.count, sum.data());
    tensors_.write(sum.data(), block, left_out_);
  }

  PackedTensors tensors_;
  std::vector<WorkerValues> workers_;
  Span result_, left_out_;
  SumPiece added_;  // on this rank
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

std::unique_ptr<SumCoding> make_bf16(Values values) { return std::make_unique<Bf16>(std::move(values)); }

std::unique_ptr<SumCoding> make_scaled(Values values) { return std::make_unique<Scaled>(std::move(values)); }

// Codings of which only the sign of the sum comes back: levels and votes.

namespace {

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

// Bytes of a plane of bits of a piece: of whole blocks but the last.
std::size_t plane_bytes(std::size_t count) {
  return count / kBlock * cpu::bit_bytes(kBlock) + cpu::bit_bytes(count % kBlock);
}

constexpr std::size_t kPlane = kBlock / 8;  // bytes of a block's plane of bits
using Sums = std::array<std::int32_t, kBlock>;
using Plane = std::array<std::uint8_t, kPlane>;

/// What codings of signs have in common: the result is the sums' signs, one bit each or, with zeros, two.
class SignResult : public SumCoding {
 public:
  SignResult(Values values)
      : tensors_(std::move(values.tensors)), workers_(std::move(values.workers)), result_(values.result) {}

  std::size_t result_bytes(std::size_t count) const override { return sizeof(Header) + 2 * plane_bytes(count); }

  void decode(const SumPiece& piece, std::span<const std::byte> result) override {
    const Header header = header_of(result);
    const std::size_t plane = plane_bytes(piece.count);
    for_blocks(piece, [&](const SumPiece& block, std::size_t i) {
      Floats signs;
      const std::uint8_t* const positive = body_of(result) + i * kPlane;
      cpu::unpack_signs(positive, header.zeros != 0 ? positive + plane : nullptr, block.count, signs.data());
      if (header.finite == 0) signs.fill(std::numeric_limits<float>::quiet_NaN());
      tensors_.write(signs.data(), block, result_);
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

/// Whole numbers between -most and most, which a byte holds, or half of one. They are added in 32 bits.
class Levels final : public SignResult {
 public:
  Levels(bool halves, int most, Values values) : SignResult(std::move(values)), halves_(halves), most_(most) {}

  std::size_t code_bytes(std::size_t count) const override {
    return sizeof(Header) + count / kBlock * bytes(kBlock) + bytes(count % kBlock);
  }

  std::size_t encode(int number, const SumPiece& piece, std::span<std::byte> codes) override {
    const WorkerValues& from = worker(number);
    std::atomic<std::uint8_t> finite = 1;
    for_blocks(piece, [&](const SumPiece& block, std::size_t i) {
      std::array<std::int8_t, kBlock> levels;
      std::uint8_t* const to = body_of(codes) + i * bytes(kBlock);
      std::int8_t* const here = halves_ ? levels.data() : reinterpret_cast<std::int8_t*>(to);
      tensors().for_each(block, [&](std::size_t offset, const PackedTensors::Part& part) {
        const float* const values = from.values.data() + part.at;
        if (!cpu::finite(values, part.count)) finite = 0;
        cpu::to_levels(values, part.count, from.factors[part.tensor], most_, here + offset);
      });
      if (halves_) cpu::pack_halves(here, block.count, to);
    });
    const Header header{from.rows, finite};
    std::memcpy(codes.data(), &header, sizeof header);
    return code_bytes(piece.count);
  }

  std::size_t add(const SumPiece& piece, const std::vector<std::span<const std::byte>>& workers,
                  std::span<std::byte> result) override {
    const Header header{0, all_finite(workers), 1};
    std::memcpy(result.data(), &header, sizeof header);
    const std::size_t plane = plane_bytes(piece.count);
    for_blocks(piece, [&](const SumPiece& block, std::size_t i) {
      Sums sums{};
      const std::size_t at = i * bytes(kBlock);
      for (const std::span<const std::byte> codes : workers) {
        const std::uint8_t* const from = body_of(codes) + at;
        halves_ ? cpu::add_halves(from, block.count, sums.data())
                : cpu::add_levels(reinterpret_cast<const std::int8_t*>(from), block.count, sums.data());
      }
      bool any_zero = false;
      std::uint8_t* const positive = body_of(result) + i * kPlane;
      cpu::pack_signs(sums.data(), block.count, positive, positive + plane, any_zero);
    });
    return result_bytes(piece.count);
  }

 private:
  std::size_t bytes(std::size_t count) const { return halves_ ? cpu::half_bytes(count) : count; }

  bool halves_;
  int most_;
};

/// A bit for each sign, and where a worker has a zero, another that says so. The majority of rows wins; a tie is broken
/// by a bit that is a function of the step and the value's offset, and stays zero where nobody votes.
class Votes final : public SignResult {
 public:
  Votes(std::uint64_t tie_key, Values values) : SignResult(std::move(values)), tie_key_(tie_key) {}

  std::size_t code_bytes(std::size_t count) const override { return result_bytes(count); }

  std::size_t encode(int number, const SumPiece& piece, std::span<std::byte> codes) override {
    const WorkerValues& from = worker(number);
    std::atomic<std::uint8_t> finite = 1, zeros = 0;
    const std::size_t plane = plane_bytes(piece.count);
    for_blocks(piece, [&](const SumPiece& block, std::size_t i) {
      Floats values;
      bool any_zero = false;
      tensors().read(from.values, block, values.data());
      if (!cpu::finite(values.data(), block.count)) finite = 0;
      std::uint8_t* const positive = body_of(codes) + i * kPlane;
      cpu::pack_signs(values.data(), block.count, positive, positive + plane, any_zero);
      if (any_zero) zeros = 1;
    });
    const Header header{from.rows, finite, zeros};
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
    for_blocks(piece, [&](const SumPiece& block, std::size_t i) {
      std::uint8_t* const positive = body_of(result) + i * kPlane;
      count(votes, i * kPlane, block, positive, positive + plane);
    });
    return sizeof header + (zeros ? 2 : 1) * plane;
  }

 private:
  struct Vote {
    std::int32_t rows;
    const std::uint8_t *positive, *nonzero;
  };

  // Counts the votes for a block whose bits begin at a byte of each vote's planes.
  void count(const std::vector<Vote>& votes, std::size_t at, const SumPiece& block, std::uint8_t* positive,
             std::uint8_t* nonzero) const {
    Sums sums{};
    Plane voted{};
    const std::size_t bytes = cpu::bit_bytes(block.count);
    for (const Vote& vote : votes) {
      const std::uint8_t* const some = vote.nonzero != nullptr ? vote.nonzero + at : nullptr;
      cpu::add_signs(vote.positive + at, some, block.count, vote.rows, sums.data());
      for (std::size_t j = 0; j < bytes; ++j)
        voted[j] = static_cast<std::uint8_t>(voted[j] | (some != nullptr ? some[j] : 0xFFU));
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

  // By offsets in the arena, so that they do not depend on how tensors are cut into sums.
  Plane tie_bits(const SumPiece& block) const {
    Plane bits;
    const std::size_t offset = tensors().offset_of(block.first);
    for (std::size_t j = 0; j < bits.size(); j += sizeof(std::uint64_t)) {
      const std::uint64_t word = mix(tie_key_, offset, j);
      std::memcpy(bits.data() + j, &word, sizeof word);
    }
    return bits;
  }

  std::uint64_t tie_key_;
};

}  // namespace

std::unique_ptr<SumCoding> make_levels(bool halves, int most, Values values) {
  return std::make_unique<Levels>(halves, most, std::move(values));
}

std::unique_ptr<SumCoding> make_votes(std::uint64_t tie_key, Values values) {
  return std::make_unique<Votes>(tie_key, std::move(values));
}

}  // namespace mrmf::coding
