// Packed numbers against the rules, one by one; and every way of reading them.
#include "io/values/packing_units.hpp"

#include <doctest/doctest.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/coarsen/coarsen.hpp"
#include "io/rows/not_finite.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/random.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::NewDataset;
using test::TemporaryFolder;

namespace {

template <typename Element>
std::vector<Element> some_numbers(Index count, Rng& random) {
  std::vector<Element> numbers(static_cast<std::size_t>(count));
  for (Element& number : numbers) {
    const auto drawn = static_cast<int>(random.below(100)) - 50;
    number = static_cast<Element>(std::is_signed_v<Element> ? drawn : drawn + 50);
  }
  return numbers;
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Every number by the rules, in double, as `Number`.
template <typename Number, typename Element>
void check_as(const Packing& packing, const std::vector<Element>& stored) {
  const auto count = static_cast<Index>(stored.size());
  std::vector<Number> unpacked(stored.size());
  packing.unpack(stored.data(), count, unpacked.data());
  Index wrong = 0;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto x = static_cast<long double>(stored[i]);
    bool gone = std::ranges::find(packing.missing, x) != packing.missing.end();
    gone = gone || (packing.least && x < *packing.least) || (packing.most && x > *packing.most);
    const double real = static_cast<double>(stored[i]) * packing.scale + packing.offset;
    if (!same_number(unpacked[i], gone ? std::nan("") : static_cast<Number>(real))) ++wrong;
  }
  CHECK(wrong == 0);
  if constexpr (sizeof(Element) == sizeof(Number)) {
    if (!packing.in_place()) return;
    std::vector<Element> here = stored;
    packing.unpack(here.data(), count, here.data());
    CHECK(std::memcmp(here.data(), unpacked.data(), here.size() * sizeof(Element)) == 0);
  }
}

template <typename Element>
void check_unpacked(const Packing& packing, const std::vector<Element>& stored) {
  if (packing.type() == ElementType::float64)
    check_as<double>(packing, stored);
  else
    check_as<float>(packing, stored);
}

template <typename Element>
void check_kinds(ElementType type, Rng& random) {
  CAPTURE(to_string(type));
  const std::vector<Element> stored = some_numbers<Element>(10007, random);
  for (int kind = 1; kind < 32; ++kind) {
    CAPTURE(kind);
    Packing packing{.stored = type};
    if ((kind & 1) != 0) packing.scale = 0.01;
    if ((kind & 2) != 0) packing.offset = 273.15;
    if ((kind & 4) != 0) packing.missing = {7};
    if ((kind & 8) != 0) packing.missing.insert(packing.missing.end(), {9, 11});
    if ((kind & 16) != 0) packing.least = 3, packing.most = 40;
    check_unpacked(packing, stored);
  }
}

}  // namespace

TEST_CASE("packing: scales, offsets, missing numbers and ranges of every type") {
  Rng random(7);
  check_kinds<std::int8_t>(ElementType::int8, random);
  check_kinds<std::uint8_t>(ElementType::uint8, random);
  check_kinds<std::int16_t>(ElementType::int16, random);
  check_kinds<std::uint16_t>(ElementType::uint16, random);
  check_kinds<std::int32_t>(ElementType::int32, random);
  check_kinds<std::uint32_t>(ElementType::uint32, random);
  check_kinds<std::int64_t>(ElementType::int64, random);
  check_kinds<std::uint64_t>(ElementType::uint64, random);
  check_kinds<float>(ElementType::float32, random);
  check_kinds<double>(ElementType::float64, random);
}

TEST_CASE("packing: a limit at the end of a type excludes nothing") {
  std::vector<std::int8_t> all;
  for (int i = -128; i < 128; ++i) all.push_back(static_cast<std::int8_t>(i));
  check_unpacked({.stored = ElementType::int8, .least = -128}, all);
  check_unpacked({.stored = ElementType::int8, .most = 127}, all);
  check_unpacked({.stored = ElementType::int8, .missing = {-128}, .least = -128}, all);
}

TEST_CASE("packing: numbers of attributes in the array's own type") {
  using Limits = std::numeric_limits<std::int64_t>;
  CHECK(as_stored(1e20L, ElementType::float32) == static_cast<long double>(1e20F));
  CHECK(!as_stored(1e300L, ElementType::float32));
  CHECK(!as_stored(1e20L, ElementType::int16));
  CHECK(!as_stored(0.5L, ElementType::int16));
  CHECK(as_stored(-1, ElementType::uint8, true) == 255);
  CHECK(as_stored(255, ElementType::uint8, true) == 255);
  CHECK(!as_stored(-1, ElementType::uint8));
  CHECK(as_stored(static_cast<long double>(Limits::min() + 2), ElementType::int64) ==
        static_cast<long double>(Limits::min() + 2));
  CHECK(as_stored(18446744073709551614.0L, ElementType::uint64) == 18446744073709551614.0L);
}

TEST_CASE("packing: numbers of attributes as binary16 rounds them") {
  CHECK(as_stored(-9999, ElementType::float16) == -10000);
  CHECK(as_stored(0.1L, ElementType::float16) == static_cast<long double>(half_to_float(0x2e66)));
  CHECK(as_stored(65519, ElementType::float16) == 65504);
  CHECK(!as_stored(65520, ElementType::float16));
  CHECK(as_stored(2049, ElementType::float16) == 2048);  // of two, the even one
  CHECK(as_stored(2051, ElementType::float16) == 2052);
  CHECK(as_stored(6.1e-8L, ElementType::float16) == static_cast<long double>(half_to_float(1)));  // subnormal
  CHECK(as_stored(0, ElementType::float16) == 0);
  for (std::uint32_t bits = 0; bits < 0x7c00; bits += 7) {
    const auto number = static_cast<long double>(half_to_float(static_cast<std::uint16_t>(bits)));
    CHECK(as_stored(number, ElementType::float16) == number);
  }
}

TEST_CASE("packing: limits in the array's own type") {
  const auto limit = [](long double number, LimitSide side, ElementType type) {
    const StoredLimit found = stored_limit(number, side, type);
    CHECK(!found.none_within);
    return found.number;
  };
  CHECK(limit(9.5L, LimitSide::least, ElementType::int16) == 10);
  CHECK(limit(9.5L, LimitSide::most, ElementType::int16) == 9);
  CHECK(limit(-9.5L, LimitSide::least, ElementType::int16) == -9);
  CHECK(limit(-9.5L, LimitSide::most, ElementType::int16) == -10);
  CHECK(!limit(-300, LimitSide::least, ElementType::uint8));
  CHECK(!limit(-32768, LimitSide::least, ElementType::int16));
  CHECK(!limit(1e300L, LimitSide::most, ElementType::float32));
  CHECK(limit(0.1L, LimitSide::most, ElementType::float32) == static_cast<long double>(0.1F));
  CHECK(limit(-9999, LimitSide::least, ElementType::float16) == -10000);
  CHECK(stored_limit(300, LimitSide::least, ElementType::uint8).none_within);
  CHECK(stored_limit(-1, LimitSide::most, ElementType::uint8).none_within);
  CHECK(stored_limit(255.5L, LimitSide::least, ElementType::uint8).none_within);
  CHECK(!stored_limit(255, LimitSide::least, ElementType::uint8).none_within);
}

TEST_CASE("packing: whole numbers of which some are missing stay apart") {
  const Packing packing{.stored = ElementType::int32, .missing = {-1}};
  CHECK(packing.type() == ElementType::float64);
  const std::vector<std::int32_t> stored{20230103, 20230104, -1};
  std::vector<double> numbers(3);
  packing.unpack(stored.data(), 3, numbers.data());
  CHECK(numbers[0] == 20230103);
  CHECK(numbers[1] == 20230104);
  CHECK(std::isnan(numbers[2]));
  CHECK(Packing{.stored = ElementType::int16, .missing = {-1}}.type() == ElementType::float32);
  CHECK(Packing{.stored = ElementType::int32, .scale = 2}.type() == ElementType::float32);
}

TEST_CASE("packing: in words") {
  CHECK(Packing{}.text().empty());
  CHECK(Packing{.stored = ElementType::int16, .scale = 0.01, .offset = 273.15, .missing = {-32767}}.text() ==
        "packed int16: value * 0.01 + 273.15; -32767 is missing");
  CHECK(Packing{.stored = ElementType::float32, .missing = {1e20F}, .least = 0}.text() ==
        "float32: 1e+20, what is below 0 is missing");
  CHECK(Packing{.stored = ElementType::float32, .declared = true}.text() == "float32: NaN is missing");
}

TEST_CASE("packing: whole rows and parts of rows are the same numbers, read directly, by the library and compressed") {
  const TemporaryFolder folder;
  const std::string path = folder.file("packed.h5");
  Rng random(3);
  const std::vector<std::int16_t> stored = some_numbers<std::int16_t>(7 * 12 * 10 * 2, random);
  NewDataset{path, "direct", {7, 12, 10, 2}, H5T_STD_I16LE, H5T_NATIVE_INT16}.write(stored.data());
  NewDataset{path, "turned", {7, 12, 10, 2}, H5T_STD_I16BE, H5T_NATIVE_INT16}.write(stored.data());
  NewDataset{path, "chunks", {7, 12, 10, 2}, H5T_STD_I16LE, H5T_NATIVE_INT16, true}.write(stored.data());
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate(H5S_SCALAR);
  for (const char* name : {"direct", "turned", "chunks"}) {
    const hid_t data = H5Dopen2(file, name, H5P_DEFAULT);
    for (const auto& [key, value] :
         {std::pair("scale_factor", 0.5), std::pair("add_offset", -3.0), std::pair("missing_value", 7.0)}) {
      const hid_t attribute = H5Acreate2(data, key, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(attribute, H5T_NATIVE_DOUBLE, &value);
      H5Aclose(attribute);
    }
    H5Dclose(data);
  }
  H5Sclose(space);
  H5Fclose(file);
  const Packing packing{.stored = ElementType::int16, .scale = 0.5, .offset = -3, .missing = {7}};
  std::vector<float> expected(stored.size());
  packing.unpack(stored.data(), static_cast<Index>(stored.size()), expected.data());
  for (const char* name : {"direct", "turned", "chunks"}) {
    CAPTURE(name);
    const RowReader reader(path, name);
    CHECK(reader.way().direct == (name == std::string("direct")));
    REQUIRE(reader.type() == ElementType::float32);
    CHECK(reader.row_bytes() == 12 * 10 * 2 * 4);
    std::vector<float> all(stored.size());
    reader.read(0, 7, reinterpret_cast<std::byte*>(all.data()));
    CHECK(std::memcmp(all.data(), expected.data(), all.size() * sizeof(float)) == 0);
    const RowBox box{{3, 2, 0}, {5, 4, 2}};
    std::vector<float> part(2 * 5 * 4 * 2);
    reader.read(4, 2, box, reinterpret_cast<std::byte*>(part.data()));
    std::size_t at = 0;
    for (std::size_t row = 4; row < 6; ++row)
      for (std::size_t y = 3; y < 8; ++y)
        for (std::size_t x = 2; x < 6; ++x)
          for (std::size_t c = 0; c < 2; ++c, ++at)
            REQUIRE(same_number(part[at], expected[((row * 12 + y) * 10 + x) * 2 + c]));
    const RowReader ignoring(path, name, {.packing = PackingRule::ignore});
    CHECK(ignoring.type() == ElementType::int16);
  }
}

TEST_CASE("missing numbers: averages count what is there; nothing is NaN") {
  const float gone = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> fine{1, 10, gone, 20, gone, 30, gone, gone};  // four positions of two channels
  const Shape sample{.spatial = {1, 1, 4}, .channels = 2, .axes = 1};
  std::vector<float> coarse(4);
  coarsen_lines({ElementType::float32, sample, fine.data()}, {1, 1, 2}, {0, 1}, coarse.data());
  CHECK(coarse[0] == 1);
  CHECK(coarse[1] == 15);
  CHECK(std::isnan(coarse[2]));
  CHECK(coarse[3] == 30);
}

TEST_CASE("missing numbers: filled behind the units; a mask stays, and a number without logarithm is not missing") {
  const float gone = std::numeric_limits<float>::quiet_NaN();
  const ChannelMap map{.log1p = false, .scale = {2, 1}, .shift = {1, 0}, .fill = {5, 6}, .mask = true};
  std::vector<float> x{3, 4, 1, gone, 7, 0, 1, gone, 0.5F};
  apply(map, 0, x);
  CHECK(x == std::vector<float>{7, 4, 1, 5, 7, 0, 3, 6, 0.5F});
  std::vector<float> rest{gone, 1, 3};
  apply(map, 1, rest);  // from the second channel on
  CHECK(rest == std::vector<float>{6, 1, 7});
  const ChannelMap logarithm{.log1p = true, .scale = {}, .shift = {}, .fill = {9}};
  std::vector<float> y{0, gone, -2};
  apply(logarithm, 0, y);
  CHECK(y[0] == 0);
  CHECK(y[1] == 9);
  CHECK(std::isnan(y[2]));
}

TEST_CASE("mask: 1 where all channels are there, in every type that samples have in memory") {
  const float gone = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> real{gone, 1, 5, 2, 3, 5, 4, gone, 5};
  write_mask(ElementType::float32, reinterpret_cast<std::byte*>(real.data()), 3, 3);
  CHECK(real[2] == 0);
  CHECK(real[5] == 1);
  CHECK(real[8] == 0);
  CHECK(real[4] == 3);
  std::vector<std::uint16_t> half{0x7e00, 9, 0x3c00, 9};  // NaN and 1, each before its mask
  write_mask(ElementType::float16, reinterpret_cast<std::byte*>(half.data()), 2, 2);
  CHECK(half == std::vector<std::uint16_t>{0x7e00, 0, 0x3c00, 0x3c00});
  std::vector<std::int16_t> whole{7, 0, -3, 0};
  write_mask(ElementType::int16, reinterpret_cast<std::byte*>(whole.data()), 2, 2);
  CHECK(whole == std::vector<std::int16_t>{7, 1, -3, 1});
}
