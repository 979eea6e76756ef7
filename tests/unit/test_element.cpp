// Elements of files: which of their numbers float32 can hold.
#include "io/values/element_type.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace mrmf;

TEST_CASE("elements: finite in their own type, and in float32") {
  std::vector<double> numbers(9000, 1.5);
  const auto count = static_cast<Index>(numbers.size());
  const auto finite = [&] { return first_not_finite(ElementType::float64, numbers.data(), count); };
  const auto fits = [&] { return first_beyond_float32(ElementType::float64, numbers.data(), count); };
  CHECK(finite() == count);
  CHECK(fits() == count);
  numbers[0] = -static_cast<double>(std::numeric_limits<float>::max());
  CHECK(fits() == count);
  numbers[8000] = -1e39;
  CHECK(finite() == count);
  CHECK(fits() == 8000);
  CHECK(not_finite_reason(number_at(ElementType::float64, numbers.data(), fits())) ==
        "-1e+39, which is beyond float32's 3.4e38");
  numbers[7000] = std::numeric_limits<double>::quiet_NaN();
  CHECK(finite() == 7000);
  CHECK(fits() == 7000);
  CHECK(not_finite_reason(numbers[7000]) == "NaN");
  const std::vector<std::uint16_t> halves{0x3c00, 0x7c00};  // 1 and infinity
  CHECK(first_not_finite(ElementType::float16, halves.data(), 2) == 1);
  CHECK(first_beyond_float32(ElementType::float16, halves.data(), 2) == 1);
  const std::vector<std::int64_t> whole{1, std::int64_t{1} << 40};
  CHECK(first_beyond_float32(ElementType::int64, whole.data(), 2) == 2);
  CHECK(number_at(ElementType::int64, whole.data(), 1) == 1099511627776.0);
}
