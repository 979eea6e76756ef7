#include "src/training/sum_coding.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "kernels/errors.hpp"
#include "src/training/coding_parts.hpp"

namespace mrmf {

void PackedTensors::read(ConstSpan arena, const SumPiece& piece, float* to) const {
  for_each(piece,
           [&](std::size_t offset, const Part& part) { std::copy_n(arena.data() + part.at, part.count, to + offset); });
}

void PackedTensors::write(const float* from, const SumPiece& piece, Span arena) const {
  for_each(piece, [&](std::size_t offset, const Part& part) {
    std::copy_n(from + offset, part.count, arena.data() + part.at);
  });
}

std::size_t PackedTensors::offset_of(std::size_t number) const {
  const auto next = std::ranges::upper_bound(parts_, number, {}, &Part::first);
  MRMF_CHECK(next != parts_.begin() && number < count_, "a value of these tensors");
  return std::prev(next)->at + (number - std::prev(next)->first);
}

std::unique_ptr<SumCoding> make_sum_coding(const CodingSettings& settings, PackedTensors tensors,
                                           std::vector<WorkerValues> workers, Span result, Span sum_residual) {
  coding::Values values{std::move(tensors), std::move(workers), result, sum_residual};
  switch (settings.scheme) {
    case Communication::bf16: return coding::make_bf16(std::move(values));
    case Communication::int8: return coding::make_scaled(std::move(values));
    case Communication::vote: return coding::make_votes(settings.tie_key, std::move(values));
    case Communication::levels8:
    case Communication::levels8_l0:
    case Communication::levels4:
      return coding::make_levels(settings.scheme == Communication::levels4, settings.most_level, std::move(values));
    case Communication::fp32:
    case Communication::automatic: break;
  }
  throw FaultError("sums in float32 have no codes");
}

int most_workers(const SumSettings& sums) {
  if (sums.full_levels) return std::numeric_limits<int>::max();
  switch (sums.communication) {
    case Communication::levels8:
    case Communication::levels8_l0: return 127;
    case Communication::levels4: return 15;
    default: return std::numeric_limits<int>::max();
  }
}

int most_level(const SumSettings& sums, int workers) {
  const int one = sums.communication == Communication::levels4 ? 7 : 127;
  return sums.full_levels ? one : std::min(most_workers(sums) / workers, one);
}

double cut_off(const SumSettings& sums) {
  if (!sums.full_levels) return 2;
  return sums.communication == Communication::levels4 ? 3 : 8;
}

std::size_t fewest_values(Communication scheme, int ranks) {
  constexpr double kMessage = 64 << 10;  // bytes of a piece's codes
  return static_cast<std::size_t>(kMessage / code_bytes(scheme, 1).there) * static_cast<std::size_t>(ranks);
}

CodeBytes code_bytes(Communication scheme, double values) {
  switch (scheme) {
    case Communication::bf16: return {2 * values, 2 * values};
    case Communication::int8: {
      const double bytes = values * (1 + sizeof(float) / double{coding::kScaled});
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
