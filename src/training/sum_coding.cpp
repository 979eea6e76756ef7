#include "src/training/sum_coding.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/check.hpp"
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

std::unique_ptr<SumCoding> make_sum_coding(const CodingSettings& settings, PackedTensors tensors,
                                           std::vector<WorkerValues> workers, Span result) {
  coding::Values values{std::move(tensors), std::move(workers), result};
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
