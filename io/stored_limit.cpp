#include "io/stored_limit.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "io/packing.hpp"

namespace mrmf {
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

}  // namespace mrmf
