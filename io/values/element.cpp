#include "io/values/element.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
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

}  // namespace mrmf
