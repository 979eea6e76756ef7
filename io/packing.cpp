#include "io/packing.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

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

/// One loop per question, so that each is vectorised.
template <typename Element, typename Number>
struct Part {
  const Element* from;
  Number* to;
  Index count;

  static constexpr Number none = std::numeric_limits<Number>::quiet_NaN();

  void take(double scale, double offset) const {
#pragma omp simd
    for (Index i = 0; i < count; ++i)
      to[i] = static_cast<Number>(static_cast<double>(compared(from[i])) * scale + offset);
  }
  void mark_equal(Compared<Element> missing) const {
#pragma omp simd
    for (Index i = 0; i < count; ++i) to[i] = compared(from[i]) == missing ? none : to[i];
  }
  void mark_below(Compared<Element> least) const {
#pragma omp simd
    for (Index i = 0; i < count; ++i) to[i] = compared(from[i]) < least ? none : to[i];
  }
  void mark_above(Compared<Element> most) const {
#pragma omp simd
    for (Index i = 0; i < count; ++i) to[i] = compared(from[i]) > most ? none : to[i];
  }
  void mark(const Packing& packing) const {
    using Value = Compared<Element>;
    for (const long double missing : packing.missing) mark_equal(static_cast<Value>(missing));
    if (packing.least) mark_below(static_cast<Value>(*packing.least));
    if (packing.most) mark_above(static_cast<Value>(*packing.most));
  }
};

/// Numbers that stay where they are: marked while they are stored ones, which NaN then survives.
template <typename Number>
void unpack_in_place(const Packing& packing, const Part<Number, Number>& part) {
  if (part.from != part.to) std::copy_n(part.from, part.count, part.to);
  const Part<Number, Number> here{part.to, part.to, part.count};
  here.mark(packing);
  if (packing.scaled()) here.take(packing.scale, packing.offset);
}

template <typename Number>
void unpack_as(const Packing& packing, const void* raw, Index count, Number* to) {
  with_elements(packing.stored, raw, [&](const auto* from) {
    using Element = std::remove_cvref_t<decltype(*from)>;
    for (Index done = 0; done < count; done += kPart) {
      const Part<Element, Number> part{from + done, to + done, std::min(kPart, count - done)};
      if constexpr (std::is_same_v<Element, Number>) {
        unpack_in_place(packing, part);
      } else {
        part.take(packing.scale, packing.offset);
        part.mark(packing);
      }
    }
  });
}

template <typename Number>
std::string shortest(Number number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

/// The shortest text that tells a stored number from its neighbours.
std::string text_of(long double number, ElementType type) {
  if (type == ElementType::uint64) return shortest(static_cast<std::uint64_t>(number));
  if (!is_float(type)) return shortest(static_cast<std::int64_t>(number));
  return type == ElementType::float64 ? shortest(static_cast<double>(number)) : shortest(static_cast<float>(number));
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
    case ElementType::float16:
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
  return plain() || stored == ElementType::float64 ? stored : ElementType::float32;
}

void Packing::unpack(const void* from, Index count, void* to) const {
  MRMF_CHECK(!plain(), "numbers that are not packed");
  if (type() == ElementType::float64)
    unpack_as(*this, from, count, static_cast<double*>(to));
  else
    unpack_as(*this, from, count, static_cast<float*>(to));
}

std::string Packing::text() const {
  if (plain() && !declared) return {};
  std::string text = (scaled() ? "packed " : "") + to_string(stored);
  if (scaled()) {
    text += ": value * " + shortest(scale);
    if (offset != 0) text += (offset < 0 ? " - " : " + ") + shortest(std::abs(offset));
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

}  // namespace mrmf
