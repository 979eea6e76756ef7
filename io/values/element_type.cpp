#include "io/values/element_type.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <type_traits>

namespace mrmf {
namespace {

/// An element as float32, or in a float64 as it is.
template <typename Number, typename Element>
Number number(Element x) {
  if constexpr (std::is_same_v<Number, double> && std::is_same_v<Element, double>)
    return x;
  else
    return to_float(x);
}

/// NaN and infinities.
struct NotFinite {
  template <typename Number>
  static bool is(Number x) {
    return !(std::abs(x) <= std::numeric_limits<Number>::max());
  }
};
struct Infinite {
  template <typename Number>
  static bool is(Number x) {
    return std::abs(x) > std::numeric_limits<Number>::max();
  }
};

/// Whether any of `count` elements is bad as `Number`. No early exit, so that the loop is vectorised.
template <typename Number, typename Bad, typename Element>
bool any_bad(const Element* from, Index count) {
  int bad = 0;
  for (Index i = 0; i < count; ++i) bad |= static_cast<int>(Bad::is(number<Number>(from[i])));
  return bad != 0;
}

template <typename Number, typename Bad, typename Element>
Index first_bad(const Element* from, Index count) {
  constexpr Index block = 4096;
  for (Index start = 0; start < count; start += block) {
    const Index here = std::min(block, count - start);
    if (!any_bad<Number, Bad>(from + start, here)) continue;
    for (Index i = start; i < start + here; ++i)
      if (Bad::is(number<Number>(from[i]))) return i;
  }
  return count;
}

}  // namespace

std::string to_string(ElementType type) {
  switch (type) {
    case ElementType::float16: return "float16";
    case ElementType::float32: return "float32";
    case ElementType::float64: return "float64";
    case ElementType::int8: return "int8";
    case ElementType::uint8: return "uint8";
    case ElementType::int16: return "int16";
    case ElementType::uint16: return "uint16";
    case ElementType::int32: return "int32";
    case ElementType::uint32: return "uint32";
    case ElementType::int64: return "int64";
    case ElementType::uint64: return "uint64";
    case ElementType::other: break;
  }
  return "other";
}

std::string readable_types() { return "numbers and complex numbers of any size can be read"; }

Index size_of(ElementType type) {
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8: return 1;
    case ElementType::float32:
    case ElementType::int32:
    case ElementType::uint32: return 4;
    case ElementType::float64:
    case ElementType::int64:
    case ElementType::uint64: return 8;
    default: return 2;
  }
}

bool is_float(ElementType type) {
  return type == ElementType::float16 || type == ElementType::float32 || type == ElementType::float64;
}

ElementType kept_as(ElementType type) { return size_of(type) >= 4 ? ElementType::float32 : type; }

void to_float32(ElementType type, const void* raw, Span out) {
  with_elements(type, raw, [&](const auto* from) {
    float* to = out.data();
    const auto count = static_cast<Index>(out.size());
#pragma omp simd
    for (Index i = 0; i < count; ++i) to[i] = to_float(from[i]);
  });
}

Index first_not_finite(ElementType type, const void* raw, Index count) {
  if (!is_float(type)) return count;
  Index first = count;
  with_elements(type, raw, [&](const auto* from) { first = first_bad<double, NotFinite>(from, count); });
  return first;
}

Index first_beyond_float32(ElementType type, const void* raw, Index count) {
  if (type != ElementType::float64) return first_not_finite(type, raw, count);
  return first_bad<float, NotFinite>(static_cast<const double*>(raw), count);
}

Index first_infinite(ElementType type, const void* raw, Index count) {
  if (!is_float(type)) return count;
  Index first = count;
  with_elements(type, raw, [&](const auto* from) { first = first_bad<float, Infinite>(from, count); });
  return first;
}

double number_at(ElementType type, const void* raw, Index index) {
  return static_cast<double>(exact_number_at(type, raw, index));
}

ExactNumber exact_number_at(ElementType type, const void* raw, Index index) {
  ExactNumber found = 0;
  with_elements(type, raw, [&](const auto* from) {
    using Element = std::remove_cvref_t<decltype(*from)>;
    if constexpr (std::is_same_v<Element, Half>)
      found = to_float(from[index]);
    else
      found = static_cast<ExactNumber>(from[index]);
  });
  return found;
}

std::string not_finite_reason(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return "an infinity";
  std::ostringstream text;
  text << value << ", which is beyond float32's 3.4e38";
  return text.str();
}

namespace {

constexpr Index kMostOfRow = Index{1} << 16;  // numbers of a row that are looked at

/// A round number near the mean, from which the deviation is seen. Not beyond a whole one: its type may hold no more.
std::string round_near(ExactNumber mean, double deviation, bool whole) {
  const ExactNumber unit = std::pow(ExactNumber{10}, std::ceil(std::log10(10 * static_cast<ExactNumber>(deviation))));
  const ExactNumber round = (whole ? std::trunc(mean / unit) : std::round(mean / unit)) * unit;
  return unit >= 1 ? fmt::format("{:.0f}", round) : fmt::format("{}", static_cast<double>(round));
}

/// What is to be done. Large whole numbers are rarely measured ones.
std::string advice(const ChannelSums& sums, double deviation) {
  const std::string subtract = "subtract " + round_near(sums.mean(), deviation, sums.whole) + " before storing them";
  if (!sums.whole || !is_like_identifier(static_cast<double>(sums.mean()))) return subtract;
  return "if they are identifiers, there is nothing to learn in them; if they are times, " + subtract;
}

}  // namespace

bool is_wide(ElementType type) { return size_of(type) >= 4 && type != ElementType::float32; }

double step_at(double value) {
  const auto size = static_cast<float>(std::abs(value));
  return double{std::nextafter(size, std::numeric_limits<float>::infinity())} - size;
}

bool is_like_identifier(double value) {
  constexpr double kFar = 9007199254740992;  // 2^53
  return std::abs(value) >= kFar;
}

void ChannelSums::add(ExactNumber value) {
  if (std::isnan(value)) return;  // missing
  if (count == 0) origin = value;
  same = same && value == origin;
  const ExactNumber error = value - static_cast<float>(value);
  const ExactNumber from_origin = value - origin;
  ++count;
  x += from_origin;
  xx += from_origin * from_origin;
  errors += error * error;
}

double ChannelSums::deviation() const {
  return static_cast<double>(std::sqrt(std::max<ExactNumber>(0, xx / count - x / count * (x / count))));
}

double ChannelSums::error() const { return static_cast<double>(std::sqrt(errors / count)); }

bool ChannelSums::loses_digits() const {
  if (count == 0) return false;
  const double rounding = 16 * std::numeric_limits<double>::epsilon() * std::abs(static_cast<double>(mean()));
  return deviation() > (whole ? 0 : rounding) && error() > kMostError * deviation();
}

std::string lost_text(const ChannelSums& sums, double deviation, const std::string& channel, const std::string& use) {
  const auto mean = static_cast<double>(sums.mean());
  constexpr double kLeast = std::numeric_limits<float>::min();  // smaller ones have fewer digits, or are 0
  const std::string held =
      fmt::format("holds numbers around {:g} with a deviation of {:.3g}{}, and float32, in which {}", mean, deviation,
                  channel, use);
  if (std::abs(mean) < kLeast && deviation < kLeast)
    return held + ", has none so small; store them in other units, or their logarithm";
  return fmt::format("{}, knows only every {:.3g} there; {}", held, step_at(mean), advice(sums, deviation));
}

DigitSums::DigitSums(ElementType type, Index per_row, const Shape& sample)
    : type_(type), per_row_(per_row), sample_(sample) {
  constexpr Index kMostChannels = 4096;  // where there are more, all share one sum
  const Index channels = per_row * sample.channels;
  if (is_wide(type)) sums_.resize(static_cast<std::size_t>(channels <= kMostChannels ? channels : 1));
}

void DigitSums::add_row(const std::byte* row, bool whole) {
  if (sums_.empty()) return;
  const Index of_sample = sample_.per_sample();
  const Index all = per_row_ * of_sample;
  Index step = std::max<Index>(1, all / kMostOfRow);
  while (std::gcd(step, sample_.channels) > 1) ++step;  // so that no channel is left out
  for (Index i = 0; i < all; i += step) {
    const Index c = sums_.size() == 1 ? 0 : i / of_sample * sample_.channels + i % sample_.channels;
    ChannelSums& channel = sums_[static_cast<std::size_t>(c)];
    channel.add(exact_number_at(type_, row, i));
    channel.whole = channel.whole && whole;
  }
}

std::string DigitSums::lost_text(const std::string& use) const {
  for (const ChannelSums& channel : sums_)
    if (channel.loses_digits())
      return mrmf::lost_text(channel, channel.deviation(), sums_.size() > 1 ? " in a channel" : "", use);
  return "";
}

}  // namespace mrmf
