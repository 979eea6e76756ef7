#include "io/values/packing_units.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

#include "io/files/text.hpp"

namespace mrmf {
namespace {

constexpr Index kPart = 4096;  // numbers that pass through all loops while they are in the nearest cache

/// Elements in which stored numbers are compared.
template <typename Element>
using Compared = std::conditional_t<std::is_same_v<Element, Half>, float, Element>;

template <typename Element>
Compared<Element> compared(Element x) {
  if constexpr (std::is_same_v<Element, Half>)
    return to_float(x);
  else
    return x;
}

/// What a loop does beside scaling.
enum class Marks { none, one, range, both };

/// Packing in the type in which stored numbers are compared.
template <typename Element>
struct Rules {
  using Value = Compared<Element>;
  double scale = 1, offset = 0;
  Value missing{}, least{}, most{};
};

template <typename Number>
using Bits = std::conditional_t<sizeof(Number) == 8, std::uint64_t, std::uint32_t>;

/// Each number is read once and written once, so that both may be the same memory.
template <Marks kMarks, bool kScaled, typename Element, typename Number>
[[gnu::always_inline]] inline void loop(const Element* from, Index count, Number* to, const Rules<Element>& rules) {
  const Rules<Element> r = rules;
#pragma omp simd
  for (Index i = 0; i < count; ++i) {
    const auto x = compared(from[i]);
    const Number y =
        kScaled ? static_cast<Number>(static_cast<double>(x) * r.scale + r.offset) : static_cast<Number>(x);
    // All bits set are a NaN. A choice between numbers would be a branch, which is not vectorised.
    Bits<Number> gone = 0;
    if constexpr (kMarks == Marks::one || kMarks == Marks::both) gone |= static_cast<Bits<Number>>(x == r.missing);
    if constexpr (kMarks == Marks::range || kMarks == Marks::both)
      gone |= static_cast<Bits<Number>>(x < r.least) | static_cast<Bits<Number>>(x > r.most);
    to[i] = std::bit_cast<Number>(std::bit_cast<Bits<Number>>(y) | (Bits<Number>{0} - gone));
  }
}

// The same numbers whichever of them runs: without FMA, a product is rounded before the sum on both.
template <Marks kMarks, bool kScaled, typename Element, typename Number>
void plain_loop(const Element* from, Index count, Number* to, const Rules<Element>& rules) {
  loop<kMarks, kScaled>(from, count, to, rules);
}
#if defined(__x86_64__)
template <Marks kMarks, bool kScaled, typename Element, typename Number>
[[gnu::target("avx2")]] void wide_loop(const Element* from, Index count, Number* to, const Rules<Element>& rules) {
  loop<kMarks, kScaled>(from, count, to, rules);
}
bool has_wide() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#endif

template <Marks kMarks, bool kScaled, typename Element, typename Number>
void run(const Element* from, Index count, Number* to, const Rules<Element>& rules) {
#if defined(__x86_64__)
  if (has_wide()) return wide_loop<kMarks, kScaled>(from, count, to, rules);
#endif
  plain_loop<kMarks, kScaled>(from, count, to, rules);
}

template <Marks kMarks, typename Element, typename Number>
void run(const Element* from, Index count, Number* to, const Rules<Element>& rules) {
  const bool scaled = rules.scale != 1 || rules.offset != 0;
  if (scaled)
    run<kMarks, true>(from, count, to, rules);
  else
    run<kMarks, false>(from, count, to, rules);
}

template <typename Element, typename Number>
void mark(const Element* stored, Index count, Number* to, const Rules<Element>& rules) {
  const auto missing = rules.missing;
#pragma omp simd
  for (Index i = 0; i < count; ++i)
    to[i] = std::bit_cast<Number>(std::bit_cast<Bits<Number>>(to[i]) |
                                  (Bits<Number>{0} - static_cast<Bits<Number>>(compared(stored[i]) == missing)));
}

template <typename Element, typename Number>
void unpack_as(const Packing& packing, const Element* from, Index count, Number* to) {
  using Value = Compared<Element>;
  using Limits = std::numeric_limits<Value>;
  constexpr bool real = Limits::has_infinity;
  Rules<Element> rules{packing.scale,
                       packing.offset,
                       {},
                       real ? -Limits::infinity() : Limits::min(),
                       real ? Limits::infinity() : Limits::max()};
  if (packing.least) rules.least = static_cast<Value>(*packing.least);
  if (packing.most) rules.most = static_cast<Value>(*packing.most);
  const bool range = packing.least || packing.most, one = !packing.missing.empty();
  if (one) rules.missing = static_cast<Value>(packing.missing.front());
  if (range && one)
    run<Marks::both>(from, count, to, rules);
  else if (range)
    run<Marks::range>(from, count, to, rules);
  else if (one)
    run<Marks::one>(from, count, to, rules);
  else
    run<Marks::none>(from, count, to, rules);
}

/// A part at a time, which stays in the nearest cache while further missing numbers are looked for.
template <typename Number>
void unpack_parts(const Packing& packing, const void* raw, Index count, Number* to) {
  with_elements(packing.stored, raw, [&](const auto* from) {
    using Element = std::remove_cvref_t<decltype(*from)>;
    using Value = Compared<Element>;
    std::array<Element, kPart> stored;
    for (Index done = 0; done < count; done += kPart) {
      const Index here = std::min(kPart, count - done);
      if (packing.missing.size() < 2) {
        unpack_as(packing, from + done, here, to + done);
        continue;
      }
      std::copy_n(from + done, here, stored.begin());  // unpacking may be in place
      unpack_as(packing, from + done, here, to + done);
      for (std::size_t m = 1; m < packing.missing.size(); ++m) {
        Rules<Element> rules;
        rules.missing = static_cast<Value>(packing.missing[m]);
        mark<Element, Number>(stored.data(), here, to + done, rules);
      }
    }
  });
}

/// The shortest text that tells a stored number from its neighbours.
std::string text_of(long double number, ElementType type) {
  if (type == ElementType::uint64) return shortest_text(static_cast<std::uint64_t>(number));
  if (!is_float(type)) return shortest_text(static_cast<std::int64_t>(number));
  return type == ElementType::float64 ? shortest_text(static_cast<double>(number))
                                      : shortest_text(static_cast<float>(number));
}

template <typename Integer>
std::optional<long double> as_integer(long double number) {
  using Limits = std::numeric_limits<Integer>;
  const bool holds = number >= Limits::min() && number <= Limits::max() && number == std::floor(number);
  return holds ? std::optional(number) : std::nullopt;
}

template <typename Real>
std::optional<long double> as_real(long double number) {
  const auto rounded = static_cast<Real>(number);
  return std::isinf(rounded) && !std::isinf(number) ? std::nullopt : std::optional<long double>(rounded);
}

/// To the nearest float16, ties to even.
std::optional<long double> as_half(long double number) {
  if (std::isinf(number)) return number;
  constexpr int kSignificandDigits = 11,
                kLeastExponent = -24;  // digits of the significand; exponent of the smallest subnormal
  constexpr long double kLargest = 65504;
  int exponent = 0;
  std::frexp(number, &exponent);
  const int unit = std::max(exponent - kSignificandDigits, kLeastExponent);
  const long double rounded = std::ldexp(std::nearbyint(std::ldexp(number, -unit)), unit);
  return std::abs(rounded) > kLargest ? std::nullopt : std::optional(rounded);
}

int bits_of(ElementType type) { return static_cast<int>(8 * size_of(type)); }

}  // namespace

ElementType unsigned_type(ElementType type) {
  switch (type) {
    case ElementType::int8: return ElementType::uint8;
    case ElementType::int16: return ElementType::uint16;
    case ElementType::int32: return ElementType::uint32;
    case ElementType::int64: return ElementType::uint64;
    default: return type;
  }
}

std::optional<long double> as_stored(long double number, ElementType type, bool wraps) {
  if (std::isnan(number)) return is_float(type) ? std::optional(number) : std::nullopt;
  if (wraps && number < 0 && number >= -std::ldexp(1.0L, bits_of(type) - 1)) number += std::ldexp(1.0L, bits_of(type));
  switch (type) {
    case ElementType::float16: return as_half(number);
    case ElementType::float32: return as_real<float>(number);
    case ElementType::float64: return as_real<double>(number);
    case ElementType::int8: return as_integer<std::int8_t>(number);
    case ElementType::uint8: return as_integer<std::uint8_t>(number);
    case ElementType::int16: return as_integer<std::int16_t>(number);
    case ElementType::uint16: return as_integer<std::uint16_t>(number);
    case ElementType::int32: return as_integer<std::int32_t>(number);
    case ElementType::uint32: return as_integer<std::uint32_t>(number);
    case ElementType::int64: return as_integer<std::int64_t>(number);
    case ElementType::uint64: return as_integer<std::uint64_t>(number);
    case ElementType::other: break;
  }
  return {};
}

ElementType Packing::type() const {
  if (plain() || stored == ElementType::float64) return stored;
  // float32 would not tell large whole numbers apart, which may be classes.
  return whole() && size_of(stored) >= 4 ? ElementType::float64 : ElementType::float32;
}

void Packing::unpack(const void* from, Index count, void* to) const {
  MRMF_CHECK(!plain(), "numbers that are not packed");
  if (type() == ElementType::float64)
    unpack_parts(*this, from, count, static_cast<double*>(to));
  else
    unpack_parts(*this, from, count, static_cast<float*>(to));
}

std::string Packing::text() const {
  if (plain() && !declared) return {};
  std::string text = (scaled() ? "packed " : "") + to_string(stored);
  if (scaled()) {
    text += ": value * " + shortest_text(scale);
    if (offset != 0) text += (offset < 0 ? " - " : " + ") + shortest_text(std::abs(offset));
  }
  std::string gone = declared && !marks() ? "NaN" : "";
  constexpr std::size_t most_listed = 4;
  for (std::size_t i = 0; i < std::min(missing.size(), most_listed); ++i)
    gone += (i == 0 ? "" : ", ") + text_of(missing[i], stored);
  if (missing.size() > most_listed) gone += " and " + std::to_string(missing.size() - most_listed) + " more";
  const auto add = [&](const std::string& word, const std::optional<long double>& limit) {
    if (limit) gone += (gone.empty() ? "" : ", ") + ("what is " + word + " ") + text_of(*limit, stored);
  };
  add("below", least);
  add("above", most);
  return gone.empty() ? text : text + (scaled() ? "; " : ": ") + gone + " is missing";
}

namespace {

template <typename Integer>
std::pair<long double, long double> ends_of() {
  return {std::numeric_limits<Integer>::lowest(), std::numeric_limits<Integer>::max()};
}

/// The least and the largest number of a type.
std::pair<long double, long double> ends(ElementType type) {
  switch (type) {
    case ElementType::float16: return {-65504, 65504};
    case ElementType::float32: return ends_of<float>();
    case ElementType::int8: return ends_of<std::int8_t>();
    case ElementType::uint8: return ends_of<std::uint8_t>();
    case ElementType::int16: return ends_of<std::int16_t>();
    case ElementType::uint16: return ends_of<std::uint16_t>();
    case ElementType::int32: return ends_of<std::int32_t>();
    case ElementType::uint32: return ends_of<std::uint32_t>();
    case ElementType::int64: return ends_of<std::int64_t>();
    case ElementType::uint64: return ends_of<std::uint64_t>();
    default: return ends_of<double>();
  }
}

}  // namespace

StoredLimit stored_limit(long double number, LimitSide side, ElementType type) {
  const auto [lowest, highest] = ends(type);
  const bool least = side == LimitSide::least;
  if (least ? number > highest : number < lowest) return {{}, true};
  if (least ? number <= lowest : number >= highest) return {};
  if (!is_float(type)) return {least ? std::ceil(number) : std::floor(number)};
  return {as_stored(number, type)};
}

namespace {

constexpr std::array<OtherScale, 9> kOtherScales{{
    {"unitSI", "", "", false},                  // openPMD
    {"conversion", "offset", "unit", false},    // NWB, which has it beside a unit
    {"ScaleFactor", "Offset", "", true},        // HDF-EOS5
    {"Scale", "Offset", "Offset", true},        // the size of a pixel is a Scale, too, but has no Offset
    {"Slope", "Offset", "Offset", true},        // products of GCOM-C
    {"Slope", "Intercept", "Intercept", true},  // products of FengYun
    {"slope", "intercept", "intercept", true},  // products of SeaDAS
    {"CalibrationFactor", "", "", true},
    {"SCALE FACTOR", "", "", true},  // products of GCOM-W
}};

/// The words of a text, with one blank between them, as far as their spelling counts.
std::string plain_units(const std::string& text) {
  constexpr std::size_t longest_symbol = 3;
  std::string plain;
  std::istringstream words(readable_text(text));
  for (std::string word; words >> word;) {
    const bool symbol = static_cast<std::size_t>(std::ranges::count_if(
                            word, [](unsigned char c) { return std::isalpha(c) != 0; })) <= longest_symbol;
    for (char& c : word)
      if (!symbol || c != 'M') c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    plain += (plain.empty() ? "" : " ") + word;
  }
  return plain;
}

/// A text of units_text(), taken apart.
struct Parts {
  std::string units, scales;

  explicit Parts(const std::string& text) : units(text) {
    if (!text.ends_with(')')) return;
    for (const OtherScale& one : kOtherScales) {
      const std::size_t begin = text.rfind("(" + std::string(one.scale) + " = ");
      if (begin == std::string::npos || (begin > 0 && text[begin - 1] != ' ')) continue;
      units = text.substr(0, begin == 0 ? 0 : begin - 1);
      scales = text.substr(begin + 1, text.size() - begin - 2);
      return;
    }
  }

  /// The scales but for those of 1 and offsets of 0, which change nothing.
  std::string changing() const {
    std::string all;
    for (std::size_t begin = 0; begin < scales.size();) {
      const std::size_t end = std::min(scales.find(", ", begin), scales.size());
      const std::string one = scales.substr(begin, end - begin);
      if (!changes_nothing(one)) all += (all.empty() ? "" : ", ") + one;
      begin = end + 2;
    }
    return all;
  }

 private:
  static bool changes_nothing(const std::string& scale) {
    const std::string name = scale.substr(0, scale.find(" = "));
    const bool offset = std::ranges::any_of(kOtherScales, [&](const OtherScale& one) { return name == one.offset; });
    return scale == name + (offset ? " = 0" : " = 1");
  }
};

/// Whether two texts have the same units, or one of them says nothing of units.
bool same_units_of(const Parts& one, const Parts& other) {
  return one.units.empty() || other.units.empty() || plain_units(one.units) == plain_units(other.units);
}

}  // namespace

std::span<const OtherScale> other_scales() { return kOtherScales; }

std::string units_text(const std::string& units, const std::string& scales) {
  if (scales.empty()) return units;
  return units + (units.empty() ? "(" : " (") + scales + ")";
}

bool are_times(const std::string& units) {
  static const std::string since = " since ";
  const std::size_t at = units.find(since), date = at + since.size();
  return at != std::string::npos && at > 0 && date < units.size() && units[date] >= '0' && units[date] <= '9';
}

bool same_units(const std::string& one, const std::string& other) {
  if (one == other) return true;
  if (one.empty() || other.empty()) return plain_units(one) == plain_units(other);
  const Parts here(one), there(other);
  return same_units_of(here, there) && here.changing() == there.changing();
}

bool fit_units(const std::string& recorded, const std::string& text) {
  const Parts known(recorded);
  return same_units(recorded, text) || (known.scales.empty() && same_units_of(known, Parts(text)));
}

UnitsDifference units_difference(const std::string& here, const std::string& there) {
  const Parts one(here), other(there);
  if (!same_units_of(one, other)) return {"units of " + one.units, other.units, ""};
  const std::string unapplied = "a scale that is not applied, ", remedy = "store what these numbers mean";
  if (one.scales.empty()) return {"no scale", unapplied + other.scales, remedy};
  return {unapplied + one.scales, other.scales.empty() ? "none" : other.scales, remedy};
}

}  // namespace mrmf
