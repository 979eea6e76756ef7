// Codings in numbers of fewer bits: bfloat16, and integers with a scale.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/sum_codes.hpp"
#include "src/training/coding_parts.hpp"

namespace mrmf::coding {
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

}  // namespace mrmf::coding
