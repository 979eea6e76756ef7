// Codes of sums over ranks in device memory. A thread treats a group of values that lie next to each other: 32, whose
// bits are a word, or those of one scale.
#include "kernels/cuda/sum_codes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "kernels/random.hpp"

namespace mrmf::cuda {

// The codes of a group of neighbouring values: as numbers of fewer bits, as levels, and as signs.

MRMF_HD inline bool is_finite(float x) { return x - x == 0; }
MRMF_HD inline float nan_value() { return std::bit_cast<float>(0x7FC00000U); }
MRMF_HD inline float size_of(float x) { return x < 0 ? -x : x; }
MRMF_HD inline int rounded(float x, float most) {
  const float whole = ::rintf(x);
  return static_cast<int>(whole > most ? most : whole < -most ? -most : whole);
}

// Each code writes the values value(0), value(1), ... of a group, the g-th of a piece of n values, and reads one.

struct Bf16Code {
  static constexpr std::uint32_t group = 32;

  template <class Value>
  MRMF_HD static void write(const Value& value, std::byte* piece, std::size_t, std::size_t g) {
    auto* const to = reinterpret_cast<std::uint32_t*>(piece) + g * group / 2;
    for (std::uint32_t i = 0; i < group; i += 2) to[i / 2] = pack_bf16(value(i), value(i + 1));
  }
  MRMF_HD static float read(const std::byte* piece, std::size_t, std::size_t g, std::uint32_t i) {
    return to_float(reinterpret_cast<const Bf16*>(piece)[g * group + i]);
  }
};

/// Integers between -127 and 127, in front of which are the scales of all groups; NaN where a value is not finite.
struct ScaledCode {
  static constexpr std::uint32_t group = CodeLayout::kUnit;

  template <class Value>
  MRMF_HD static void write(const Value& value, std::byte* piece, std::size_t n, std::size_t g) {
    float largest = 0, odd = 0;
    for (std::uint32_t i = 0; i < group; ++i) {
      const float x = value(i);
      largest = size_of(x) > largest ? size_of(x) : largest;
      odd += x * 0;
    }
    float scale = largest / 127 + odd;
    if (scale < std::numeric_limits<float>::min()) scale = 0;  // so small that its inverse is infinite
    reinterpret_cast<float*>(piece)[g] = scale;
    const float factor = scale > 0 ? 1 / scale : 0;
    auto* const to = reinterpret_cast<std::int8_t*>(piece + n / group * sizeof(float)) + g * group;
    for (std::uint32_t i = 0; i < group; ++i)
      to[i] = is_finite(scale) ? static_cast<std::int8_t>(rounded(factor * value(i), 127)) : std::int8_t{0};
  }
  MRMF_HD static float read(const std::byte* piece, std::size_t n, std::size_t g, std::uint32_t i) {
    const auto* const from = reinterpret_cast<const std::int8_t*>(piece + n / group * sizeof(float));
    return static_cast<float>(from[g * group + i]) * reinterpret_cast<const float*>(piece)[g];
  }
};

/// One bit says whether a value is above zero and one whether it is none; above zero and none: it is not finite.
struct Signs {
  std::uint32_t positive = 0, nonzero = 0;

  MRMF_HD void set(std::uint32_t i, float x) {
    const std::uint32_t bit = std::uint32_t{1} << i;
    if (x > 0 || !is_finite(x)) positive |= bit;
    if (x != 0 && is_finite(x)) nonzero |= bit;
  }
  MRMF_HD float of(std::uint32_t i) const {
    const bool plus = (positive >> i & 1) != 0;
    if ((nonzero >> i & 1) == 0) return plus ? nan_value() : 0.0F;
    return plus ? 1.0F : -1.0F;
  }
  MRMF_HD void write(std::byte* planes, std::size_t n, std::size_t g) const {
    auto* const words = reinterpret_cast<std::uint32_t*>(planes);
    words[g] = positive, words[n / 32 + g] = nonzero;
  }
  MRMF_HD static Signs read(const std::byte* planes, std::size_t n, std::size_t g) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(planes);
    return {words[g], words[n / 32 + g]};
  }
};

/// Levels of a byte, or two a byte, in words of four or eight.
template <int bits>
struct LevelCode {
  static constexpr std::uint32_t group = 32, each = 32 / bits, mask = (1U << bits) - 1;
  static constexpr int not_finite = -(1 << (bits - 1));

  MRMF_HD static int read(const std::byte* piece, std::size_t g, std::uint32_t i) {
    const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(piece)[(g * group + i) / each];
    const std::uint32_t field = word >> (bits * (i % each)) & mask;
    return static_cast<int>(field ^ (1U << (bits - 1))) - (1 << (bits - 1));
  }
};

// A thread treats a group of values that lie next to each other: 32, whose bits are a word, or those of one scale.

namespace {

constexpr std::size_t kHeader = 16;  // in front of votes: their weight

/// What the values of a piece become.
struct Pieces {
  CodeLayout layout;
  std::size_t code_bytes, result_bytes, groups;  // groups of a piece
  CodeBuffers buffers;

  Pieces(const CodeLayout& of, std::uint32_t group, const CodeBuffers& memory)
      : layout(of),
        code_bytes(of.code_bytes()),
        result_bytes(of.result_bytes()),
        groups(of.piece / group),
        buffers(memory) {}

  MRMF_HD std::byte* codes(std::size_t piece) const {
    const auto own = static_cast<std::size_t>(layout.rank);
    return (piece == own ? buffers.gathered : buffers.sent) + piece * code_bytes;
  }
  MRMF_HD const std::byte* gathered(int worker) const {
    return buffers.gathered + static_cast<std::size_t>(worker) * code_bytes;
  }
  MRMF_HD std::byte* result(std::size_t piece) const { return buffers.results + piece * result_bytes; }
  MRMF_HD std::size_t own_first() const { return static_cast<std::size_t>(layout.rank) * layout.piece; }
  MRMF_HD std::uint32_t valid(std::size_t first, std::uint32_t group) const {
    if (first >= layout.count) return 0;
    return layout.count - first < group ? static_cast<std::uint32_t>(layout.count - first) : group;
  }
};

/// Values times the weight, and what earlier codes have left out.
template <class Code>
struct MakeRounded {
  Pieces pieces;
  const float* values;
  float* residual;  // null: not kept
  float weight;

  MRMF_HD void operator()(std::uint32_t index) const {
    const std::size_t piece = index / pieces.groups, g = index % pieces.groups;
    const std::size_t first = std::size_t{index} * Code::group;
    const std::uint32_t valid = pieces.valid(first, Code::group);
    const auto value = [&](std::uint32_t i) {
      if (i >= valid) return 0.0F;
      const float x = weight == 0 ? 0.0F : weight * values[first + i];
      return residual == nullptr ? x : x + residual[first + i];
    };
    std::byte* const to = pieces.codes(piece);
    Code::write(value, to, pieces.layout.piece, g);
    for (std::uint32_t i = 0; residual != nullptr && i < valid; ++i)
      residual[first + i] = value(i) - Code::read(to, pieces.layout.piece, g, i);
  }
};

/// Adds in the ranks' order, rounds once more, and keeps what that leaves out.
template <class Code>
struct AddRounded {
  Pieces pieces;
  float* residual;

  MRMF_HD void operator()(std::uint32_t index) const {
    const std::size_t g = index, n = pieces.layout.piece;
    const std::size_t first = pieces.own_first() + g * Code::group;
    const std::uint32_t valid = pieces.valid(first, Code::group);
    const auto value = [&](std::uint32_t i) {
      float sum = Code::read(pieces.gathered(0), n, g, i);
      for (int worker = 1; worker < pieces.layout.ranks; ++worker) sum += Code::read(pieces.gathered(worker), n, g, i);
      return residual == nullptr || i >= valid ? sum : sum + residual[first + i];
    };
    std::byte* const to = pieces.result(static_cast<std::size_t>(pieces.layout.rank));
    Code::write(value, to, n, g);
    for (std::uint32_t i = 0; residual != nullptr && i < valid; ++i)
      residual[first + i] = value(i) - Code::read(to, n, g, i);
  }
};

template <class Code>
struct ReadRounded {
  Pieces pieces;
  float* values;

  MRMF_HD void operator()(std::uint32_t index) const {
    const std::size_t piece = index / pieces.groups, g = index % pieces.groups;
    const std::size_t first = std::size_t{index} * Code::group;
    const std::uint32_t valid = pieces.valid(first, Code::group);
    for (std::uint32_t i = 0; i < valid; ++i)
      values[first + i] = Code::read(pieces.result(piece), pieces.layout.piece, g, i);
  }
};

/// A tensor's factor: what a value is multiplied by to become a level. Of the sizes, or of their logarithms.
struct FindFactor {
  static constexpr int unroll = 4;
  using Partial = double;
  const float* values;
  std::size_t count;
  bool geometric;
  float mean_level;
  float* factor;

  MRMF_HD auto at(std::uint32_t) const {
    return [f = *this](std::uint32_t row, double(&sums)[2][1]) {
      for (std::size_t i = std::size_t{4} * row; i < std::size_t{4} * row + 4 && i < f.count; ++i) {
        const double size = size_of(f.values[i]);
        if (!f.geometric)
          sums[0][0] += size, sums[1][0] += 1;
        else if (size != 0)
          sums[0][0] += ::log2(size), sums[1][0] += 1;
      }
    };
  }
  MRMF_HD void finish(Index, const double (&totals)[2]) const {
    const double mean = totals[1] == 0 ? 0 : totals[0] / totals[1];
    const double scale = totals[1] == 0 ? 0 : geometric ? ::exp2(mean) : mean;
    const double wanted = scale == 0 ? 0 : mean_level / scale;
    const double most = std::numeric_limits<float>::max();
    *factor = static_cast<float>(wanted > most ? most : wanted);
  }
};

template <int bits>
struct MakeLevels {
  using Code = LevelCode<bits>;
  Pieces pieces;
  const float* values;
  std::uint32_t tensors;
  float most;

  MRMF_HD std::uint32_t tensor_of(std::size_t index) const {
    std::uint32_t first = 0, end = tensors;
    while (end - first > 1) {
      const std::uint32_t middle = (first + end) / 2;
      (pieces.buffers.tensors[middle].first <= index ? first : end) = middle;
    }
    return first;
  }
  MRMF_HD void operator()(std::uint32_t index) const {
    const std::size_t piece = index / pieces.groups, g = index % pieces.groups;
    const std::size_t first = std::size_t{index} * Code::group;
    const std::uint32_t valid = pieces.valid(first, Code::group);
    auto* const to = reinterpret_cast<std::uint32_t*>(pieces.codes(piece)) + g * (Code::group / Code::each);
    std::uint32_t tensor = tensor_of(first);
    for (std::uint32_t word = 0; word < Code::group / Code::each; ++word) {
      std::uint32_t fields = 0;
      for (std::uint32_t k = 0; k < Code::each; ++k) {
        const std::uint32_t i = word * Code::each + k;
        if (i >= valid) break;
        while (tensor + 1 < tensors && pieces.buffers.tensors[tensor + 1].first <= first + i) ++tensor;
        const float x = values[first + i], scaled = pieces.buffers.factors[tensor] * x;
        const int level = is_finite(x) && scaled == scaled ? rounded(scaled, most) : Code::not_finite;
        fields |= (static_cast<std::uint32_t>(level) & Code::mask) << (bits * k);
      }
      to[word] = fields;
    }
  }
};

template <int bits>
struct AddLevels {
  using Code = LevelCode<bits>;
  Pieces pieces;

  MRMF_HD void operator()(std::uint32_t g) const {
    Signs signs;
    for (std::uint32_t i = 0; i < Code::group; ++i) {
      int sum = 0;
      bool finite = true;
      for (int worker = 0; worker < pieces.layout.ranks; ++worker) {
        const int level = Code::read(pieces.gathered(worker), g, i);
        finite = finite && level != Code::not_finite;
        sum += level;
      }
      signs.set(i, finite ? static_cast<float>(sum) : nan_value());
    }
    signs.write(pieces.result(static_cast<std::size_t>(pieces.layout.rank)), pieces.layout.piece, g);
  }
};

struct MakeVotes {
  Pieces pieces;
  const float* values;
  std::uint32_t rows;

  MRMF_HD void operator()(std::uint32_t index) const {
    const std::size_t piece = index / pieces.groups, g = index % pieces.groups;
    const std::size_t first = std::size_t{index} * 32;
    const std::uint32_t valid = pieces.valid(first, 32);
    Signs signs;
    for (std::uint32_t i = 0; rows != 0 && i < valid; ++i) signs.set(i, values[first + i]);
    std::byte* const to = pieces.codes(piece);
    signs.write(to + kHeader, pieces.layout.piece, g);
    if (g == 0) *reinterpret_cast<std::uint32_t*>(to) = rows;
  }
};

/// The majority of rows wins; a tie is broken by a bit that is a function of the step and the value's offset, and stays
/// zero where nobody votes.
struct AddVotes {
  Pieces pieces;
  const StepBlock* step;
  std::uint64_t offset;

  MRMF_HD void operator()(std::uint32_t g) const {
    const std::size_t n = pieces.layout.piece;
    Signs signs;
    const std::uint64_t ties = mix(mix(step->seed, step->number), offset + pieces.own_first() + std::size_t{g} * 32);
    for (std::uint32_t i = 0; i < 32; ++i) {
      std::int64_t sum = 0;
      bool voted = false, finite = true;
      for (int worker = 0; worker < pieces.layout.ranks; ++worker) {
        const std::byte* const from = pieces.gathered(worker);
        const float sign = Signs::read(from + kHeader, n, g).of(i);
        finite = finite && sign == sign;
        voted = voted || sign != 0;
        const std::int64_t rows = *reinterpret_cast<const std::uint32_t*>(from);
        sum += sign > 0 ? rows : sign < 0 ? -rows : 0;
      }
      const bool plus = sum > 0 || (sum == 0 && (ties >> i & 1) != 0);
      signs.set(i, !finite ? nan_value() : !voted ? 0.0F : plus ? 1.0F : -1.0F);
    }
    signs.write(pieces.result(static_cast<std::size_t>(pieces.layout.rank)), n, g);
  }
};

struct ReadSigns {
  Pieces pieces;
  float* values;

  MRMF_HD void operator()(std::uint32_t index) const {
    const std::size_t piece = index / pieces.groups, g = index % pieces.groups;
    const std::size_t first = std::size_t{index} * 32;
    const std::uint32_t valid = pieces.valid(first, 32);
    const Signs signs = Signs::read(pieces.result(piece), pieces.layout.piece, g);
    for (std::uint32_t i = 0; i < valid; ++i) values[first + i] = signs.of(i);
  }
};

// Groups that values fill, of all pieces or of the own one. The groups of pieces that are not full hold zeros, so that
// all bytes that are sent have been written.
Index groups_of(const CodeLayout& layout, std::uint32_t group) {
  const std::size_t pieces = (layout.count + layout.piece - 1) / layout.piece;
  return static_cast<Index>(pieces * (layout.piece / group));
}
Index groups_of_one(const CodeLayout& layout, std::uint32_t group) { return static_cast<Index>(layout.piece / group); }

template <class Code>
void make_rounded(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers) {
  for_each(stream, groups_of(layout, Code::group),
           MakeRounded<Code>{{layout, Code::group, buffers},
                             part.values.data(),
                             part.residual.empty() ? nullptr : part.residual.data(),
                             part.weight});
}

template <class Code>
void add_rounded(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers) {
  for_each(
      stream, groups_of_one(layout, Code::group),
      AddRounded<Code>{{layout, Code::group, buffers}, part.sum_residual.empty() ? nullptr : part.sum_residual.data()});
}

template <class Code>
void read_rounded(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers) {
  for_each(stream, groups_of(layout, Code::group),
           ReadRounded<Code>{{layout, Code::group, buffers}, part.values.data()});
}

Reduction sizes(std::size_t count, double* partials) { return {static_cast<Index>((count + 3) / 4), 1, 1, partials}; }

template <int bits>
void make_levels(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers) {
  for (std::size_t t = 0; t < part.tensors.size(); ++t) {
    const CodedTensor& tensor = part.tensors[t];
    reduce<2, 1>(stream, sizes(tensor.count, buffers.partials),
                 FindFactor{part.values.data() + tensor.first, tensor.count, part.geometric, part.mean_level,
                            buffers.factors + t});
  }
  for_each(stream, groups_of(layout, 32),
           MakeLevels<bits>{{layout, 32, buffers},
                            part.values.data(),
                            static_cast<std::uint32_t>(part.tensors.size()),
                            static_cast<float>(part.most_level)});
}

std::size_t padded(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

CodeLayout CodeLayout::of(const CodedPart& part, int ranks, int rank) {
  const std::size_t count = part.values.size(),
                    each = (count + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
  return {part.code, count, std::max<std::size_t>((each + kUnit - 1) / kUnit, 1) * kUnit, ranks, rank};
}

std::size_t CodeLayout::code_bytes() const {
  switch (code) {
    case CodeFormat::bf16: return 2 * piece;
    case CodeFormat::scaled: return padded(piece + piece / kUnit * sizeof(float));
    case CodeFormat::levels8: return piece;
    case CodeFormat::levels4: return piece / 2;
    case CodeFormat::votes: break;
  }
  return kHeader + piece / 4;
}

std::size_t CodeLayout::result_bytes() const {
  return code == CodeFormat::bf16 || code == CodeFormat::scaled ? code_bytes() : piece / 4;
}

std::size_t factor_partials(const CodedPart& part) {
  Index most = 0;
  for (const CodedTensor& tensor : part.tensors) most = std::max(most, sizes(tensor.count, nullptr).partial_doubles(2));
  return static_cast<std::size_t>(most);
}

void make_codes(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers) {
  switch (part.code) {
    case CodeFormat::bf16: return make_rounded<Bf16Code>(stream, layout, part, buffers);
    case CodeFormat::scaled: return make_rounded<ScaledCode>(stream, layout, part, buffers);
    case CodeFormat::levels8: return make_levels<8>(stream, layout, part, buffers);
    case CodeFormat::levels4: return make_levels<4>(stream, layout, part, buffers);
    case CodeFormat::votes: break;
  }
  for_each(stream, groups_of(layout, 32), MakeVotes{{layout, 32, buffers}, part.values.data(), part.rows});
}

void add_codes(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers,
               const StepBlock* step) {
  if (layout.empty(layout.rank)) return;
  const Index words = groups_of_one(layout, 32);
  switch (part.code) {
    case CodeFormat::bf16: return add_rounded<Bf16Code>(stream, layout, part, buffers);
    case CodeFormat::scaled: return add_rounded<ScaledCode>(stream, layout, part, buffers);
    case CodeFormat::levels8: return for_each(stream, words, AddLevels<8>{{layout, 32, buffers}});
    case CodeFormat::levels4: return for_each(stream, words, AddLevels<4>{{layout, 32, buffers}});
    case CodeFormat::votes: break;
  }
  for_each(stream, words, AddVotes{{layout, 32, buffers}, step, part.offset});
}

void read_sums(cudaStream_t stream, const CodeLayout& layout, const CodedPart& part, const CodeBuffers& buffers) {
  switch (part.code) {
    case CodeFormat::bf16: return read_rounded<Bf16Code>(stream, layout, part, buffers);
    case CodeFormat::scaled: return read_rounded<ScaledCode>(stream, layout, part, buffers);
    case CodeFormat::levels8:
    case CodeFormat::levels4:
    case CodeFormat::votes: break;
  }
  for_each(stream, groups_of(layout, 32), ReadSigns{{layout, 32, buffers}, part.values.data()});
}

}  // namespace mrmf::cuda
