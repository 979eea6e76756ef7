#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "io/hdf5/file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/output.hpp"
#include "io/hdf5/rows.hpp"
#include "io/rows/sample_reader.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::contains;
using test::message;
using test::NewDataset;
using test::ramp;
using test::TemporaryFolder;

namespace {

Hdf5File open(const std::string& path) { return Hdf5File::open(path, Comm::self()); }

std::string open_refusal(const std::string& path) {
  return message<DataError>([&] { open(path); });
}

std::vector<float> read_rows(const std::string& path, const std::string& name, Index first, Index count, Index width) {
  std::vector<float> values(static_cast<std::size_t>(count * width), std::numeric_limits<float>::quiet_NaN());
  open(path).read_rows(name, first, count, values);
  return values;
}

}  // namespace

TEST_CASE("hdf5: float32, float64, int16, uint16 in either byte order and compressed become the same floats") {
  const TemporaryFolder folder;
  const std::string path = folder.file("types.h5");
  struct Case {
    std::string name;
    hid_t type;
    ElementType expected;
  };
  const std::vector<Case> cases = {
      {"f4", H5T_IEEE_F32LE, ElementType::float32}, {"f4b", H5T_IEEE_F32BE, ElementType::float32},
      {"f8", H5T_IEEE_F64LE, ElementType::float64}, {"f8b", H5T_IEEE_F64BE, ElementType::float64},
      {"i2", H5T_STD_I16LE, ElementType::int16},    {"i2b", H5T_STD_I16BE, ElementType::int16}};
  const std::vector<double> values = {0, 1, -2, 300, -32768, 32767, 7, 8, 9, 10, 11, 12, 13, 14};
  const std::vector<float> expected(values.begin() + 2, values.end());
  for (const Case& c : cases)
    for (const bool compressed : {false, true}) {
      const std::string name = c.name + (compressed ? "z" : "");
      NewDataset{path, name, {7, 2}, c.type, H5T_NATIVE_DOUBLE, compressed}.write(values.data());
      CAPTURE(name);
      const DatasetInfo info = open(path).info(name);
      CHECK(info.type == c.expected);
      CHECK(info.shape == std::vector<Index>{7, 2});
      CHECK(info.rows() == 7);
      CHECK(read_rows(path, name, 1, 6, 2) == expected);
    }
  const std::vector<std::uint16_t> words = {0, 1, 32768, 65535};
  for (const hid_t type : {H5T_STD_U16LE, H5T_STD_U16BE}) {
    const std::string name = type == H5T_STD_U16LE ? "u2" : "u2b";
    NewDataset{path, name, {4}, type, H5T_NATIVE_UINT16}.write(words.data());
    CHECK(open(path).info(name).type == ElementType::uint16);
    CHECK(read_rows(path, name, 0, 4, 1) == std::vector<float>{0, 1, 32768, 65535});
  }
}

TEST_CASE("hdf5: numbers of odd sizes are read as the library converts them, into the smallest type that holds them") {
  const TemporaryFolder folder;
  const std::string path = folder.file("odd.h5");
  const auto whole = [](hid_t like, std::size_t bytes, std::size_t bits, std::size_t at) {
    const hid_t type = H5Tcopy(like);
    H5Tset_size(type, bytes);
    H5Tset_precision(type, bits);
    H5Tset_offset(type, at);
    return type;
  };
  const auto real = [](std::size_t bytes, std::size_t exponent, std::size_t mantissa, std::size_t bias) {
    const hid_t type = H5Tcopy(bytes > 4 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE);
    H5Tset_fields(type, exponent + mantissa, mantissa, exponent, 0, mantissa);
    H5Tset_precision(type, exponent + mantissa + 1);
    H5Tset_size(type, bytes);
    H5Tset_ebias(type, bias);
    return type;
  };
  struct Case {
    std::string name, words;
    hid_t type;
    ElementType expected;
  };
  const std::vector<Case> cases = {
      {"u12", "12-bit unsigned integer", whole(H5T_STD_U16LE, 2, 12, 0), ElementType::uint16},
      {"u12high", "12-bit unsigned integer", whole(H5T_STD_U16BE, 2, 12, 4), ElementType::uint16},
      {"i24", "24-bit integer", whole(H5T_STD_I32LE, 3, 24, 0), ElementType::int32},
      {"i40", "40-bit integer", whole(H5T_STD_I64BE, 8, 40, 8), ElementType::int64},
      {"i128", "128-bit integer", whole(H5T_STD_I64LE, 16, 128, 0), ElementType::float64},
      {"bfloat16", "16-bit float", real(2, 8, 7, 127), ElementType::float32},
      {"viirs", "14-bit float", real(2, 5, 8, 15), ElementType::float32},
      {"small", "24-bit float", real(3, 7, 16, 63), ElementType::float32},
      {"wide", "32-bit float", real(4, 11, 20, 1023), ElementType::float64},
      {"long", "80-bit float", H5Tcopy(H5T_NATIVE_LDOUBLE), ElementType::float64}};
  const std::vector<double> values = {0, 1, 2, 3, 100, 127};
  for (const Case& c : cases)
    for (const bool compressed : {false, true}) {
      const std::string name = c.name + (compressed ? "z" : "");
      CAPTURE(name);
      NewDataset{path, name, {6}, c.type, H5T_NATIVE_DOUBLE, compressed}.write(values.data());
      const DatasetInfo info = open(path).info(name);
      CHECK(info.type == c.expected);
      CHECK(info.type_name == c.words);
      CHECK(read_rows(path, name, 0, 6, 1) == std::vector<float>(values.begin(), values.end()));
      CHECK_FALSE(RowReader(path, name).way().direct);
    }
}

TEST_CASE("hdf5: complex numbers and arrays are further axes, whole or in part") {
  const TemporaryFolder folder;
  const std::string path = folder.file("complex.h5");
  const auto pair = [](const char* real, const char* imaginary, hid_t part, bool swapped) {
    const std::size_t bytes = H5Tget_size(part);
    const hid_t type = H5Tcreate(H5T_COMPOUND, 2 * bytes);
    H5Tinsert(type, real, swapped ? bytes : 0, part);
    H5Tinsert(type, imaginary, swapped ? 0 : bytes, part);
    return type;
  };
  const std::vector<float> values = ramp(24);  // (3, 4) of two
  const hid_t memory = pair("r", "i", H5T_NATIVE_FLOAT, false);
  NewDataset{path, "plain", {3, 4}, memory, memory}.write(values.data());
  NewDataset{path, "packed", {3, 4}, memory, memory, true}.write(values.data());
  const hid_t named = pair("Real", "Imag", H5T_NATIVE_FLOAT, false);
  NewDataset{path, "named", {3, 4}, pair("Real", "Imag", H5T_STD_I16BE, true), named}.write(values.data());
  NewDataset{path, "im", {3, 4}, pair("re", "im", H5T_IEEE_F64LE, false), pair("re", "im", H5T_NATIVE_FLOAT, false)}
      .write(values.data());
  const hsize_t two[] = {2};
  const hid_t array = H5Tarray_create2(H5T_IEEE_F32LE, 1, two);
  NewDataset{path, "array", {3, 4}, array, array}.write(values.data());
  const hid_t table = pair("x", "y", H5T_NATIVE_FLOAT, false);
  NewDataset{path, "table", {3, 4}, table, table}.write(values.data());
  for (const std::string name : {"plain", "packed", "named", "im", "array"}) {
    CAPTURE(name);
    CHECK(open(path).info(name).shape == std::vector<Index>{3, 4, 2});
    CHECK(read_rows(path, name, 0, 3, 8) == values);
    const RowReader reader(path, name);
    CHECK(reader.way().direct == (name != "packed" && name != "named"));
    std::vector<std::byte> part(static_cast<std::size_t>(2 * 2 * size_of(reader.type())));
    std::vector<float> numbers(4);
    reader.read(1, 2, RowBox{{1, 1}, {2, 1}}, part.data());  // the imaginary parts of two positions of two rows
    to_float32(reader.type(), part.data(), numbers);
    CHECK(numbers == std::vector<float>{11, 13, 19, 21});
  }
  CHECK(open(path).info("plain").type_name == "complex float32");
  CHECK(open(path).info("named").type == ElementType::int16);
  CHECK(open(path).info("table").type == ElementType::other);
}

TEST_CASE("hdf5: every float16 pattern, in either byte order") {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  for (const H5T_order_t order : {H5T_ORDER_LE, H5T_ORDER_BE}) {
    const std::string path = folder.file(order == H5T_ORDER_LE ? "little.h5" : "big.h5");
    NewDataset{path, "half", {65536}, test::half_type(order), test::half_type(H5T_ORDER_LE)}.write(halves.data());
    REQUIRE(open(path).info("half").type == ElementType::float16);
    const std::vector<float> values = read_rows(path, "half", 0, 65536, 1);
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      // The definition of binary16, in double.
      const int exponent = static_cast<int>(i >> 10 & 31), mantissa = static_cast<int>(i & 1023);
      double expected = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      if (exponent == 31) expected = std::numeric_limits<double>::infinity();
      if (exponent == 31 && mantissa != 0) {
        wrong += !std::isnan(values[i]);
        continue;
      }
      if (i >= 32768) expected = -expected;
      wrong += values[i] != static_cast<float>(expected) || std::signbit(values[i]) != (i >= 32768);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("hdf5: blocks cover a range of rows once, in order, within the limit") {
  for (const Index limit : {1, 2, 5, 6, 24, 25, 1000}) {
    const std::vector<Index> shape = {5, 2, 3, 4};
    Index next = 1 * 24;  // rows 1..4, 24 elements each
    for (const h5::ContiguousBox& block : h5::blocks(shape, 1, 4, limit)) {
      const Index at = ((block.first[0] * 2 + block.first[1]) * 3 + block.first[2]) * 4 + block.first[3];
      CHECK(at == next);
      CHECK(block.elements <= limit);
      CHECK(block.elements == block.count[0] * block.count[1] * block.count[2] * block.count[3]);
      next += block.elements;
    }
    CHECK(next == 5 * 24);
  }
  CHECK(h5::blocks({5, 24}, 1, 4, 48).size() == 2);  // no smaller than needed
  CHECK(h5::blocks({5, 0}, 0, 5, 10).empty());
  CHECK(h5::blocks({5, 3}, 2, 0, 10).empty());
}

TEST_CASE("hdf5: files that cannot be read are told apart") {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing.h5");
  CHECK(open_refusal(missing) == missing + ": no such file; check the path");
  CHECK(contains(open_refusal("no-such-folder/a.h5"), "no such file (looked from /"));
  CHECK(contains(open_refusal(folder.path()), folder.path() + ": is a folder, "));

  const std::string empty = folder.file("empty.h5"), garbage = folder.file("garbage.h5");
  test::write_bytes(empty, "");
  CHECK(open_refusal(empty) == empty + ": is empty (0 bytes); copy or make it again");
  test::write_bytes(garbage, std::string(5000, 'x'));
  CHECK(open_refusal(garbage) ==
        garbage + ": not an HDF5 file (the HDF5 signature is missing); convert it, or check the path");

  const std::string whole = folder.file("whole.h5"), cut = folder.file("cut.h5"), broken = folder.file("broken.h5");
  test::write_floats(whole, "data", {100, 10}, ramp(1000));
  const std::string bytes = test::read_bytes(whole);
  test::write_bytes(cut, bytes.substr(0, bytes.size() - 1000));
  CHECK(open_refusal(cut) == cut + ": truncated: " + std::to_string(bytes.size() - 1000) +
                                 " bytes are there, but its header says " + std::to_string(bytes.size()) +
                                 "; copy or make it again");
  std::string scratched = bytes;
  scratched.replace(8, 8, 8, '\xff');  // the superblock after the signature
  test::write_bytes(broken, scratched);
  CHECK(contains(open_refusal(broken), ": cannot be opened; HDF5 says: "));
}

TEST_CASE("hdf5: a file without read permission" * doctest::skip(::geteuid() == 0)) {  // root may read everything
  const TemporaryFolder folder;
  const std::string path = folder.file("secret.h5");
  test::write_floats(path, "data", {1}, {1});
  ::chmod(path.c_str(), 0);
  CHECK(open_refusal(path) == path + ": permission denied; make it readable for this user");
}

TEST_CASE("hdf5: data sets that are not there, or not of a kind that can be read") {
  const TemporaryFolder folder;
  const std::string path = folder.file("data.h5");
  test::write_floats(path, "train_frames", {4, 3}, ramp(12));
  test::write_floats(path, "val_frames", {2, 3}, ramp(6));
  const std::vector<std::int64_t> longs = {1, 2, 3};
  const hid_t opaque = H5Tcreate(H5T_OPAQUE, sizeof(std::int64_t));
  NewDataset{path, "longs", {3}, opaque, opaque}.write(longs.data());
  const Hdf5File file = open(path);
  std::vector<float> out(12);

  CHECK(file.datasets() == std::vector<std::string>{"longs", "train_frames", "val_frames"});
  CHECK(file.has("longs"));
  CHECK_FALSE(file.has("short"));
  CHECK_FALSE(file.has("no/such/group"));
  CHECK(message<DataError>([&] { file.info("train_frame"); }) ==
        path + ": no data set 'train_frame'; there are longs, train_frames, val_frames; do you mean 'train_frames'?");
  CHECK(message<DataError>([&] { file.read_rows("zzz", 0, 1, out); }) ==
        path + ": no data set 'zzz'; there are longs, train_frames, val_frames");
  CHECK(message<DataError>([&] { file.read_rows("longs", 0, 3, Span(out).first(3)); }) ==
        path + ": data set 'longs' holds opaque elements; numbers and complex numbers of any size can be read");
  CHECK(message<DataError>([&] { file.read_rows("train_frames", 2, 3, Span(out).first(9)); }) ==
        path + ": data set 'train_frames' has 4 rows; rows 2 to 4 were asked for");
  CHECK(message<DataError>([&] { file.read_text("longs"); }) == path + ": data set 'longs' is not one string");
  CHECK_THROWS_AS(file.read_rows("train_frames", 0, 3, out), FaultError);  // 9 values into 12 places
  CHECK(file.read_attribute("nothing").empty());
}

TEST_CASE("hdf5: what is written is read again: groups, texts, attributes, rows in any order") {
  const TemporaryFolder folder;
  const std::string path = folder.file("out.h5");
  const std::string text = "{\"cells\": [\"bbp102\", \"\u00b5V\"]}";
  Hdf5Output out(path, Replace::nothing, Comm::self());
  out.create_dataset("frames", {5, 2, 3});
  out.create_dataset("parameters/conv1/weight", {2, 2});
  const std::vector<float> values = ramp(30);
  out.write_rows("frames", 3, ConstSpan(values).subspan(18));
  out.write_rows("frames", 0, ConstSpan(values).first(18));
  out.write_rows("parameters/conv1/weight", 0, ConstSpan(values).subspan(4, 4));
  out.write_text("meta.JSON", text);
  out.write_text("empty", "");
  out.write_attribute("plan", "two fusions");
  out.write_attribute("nothing", "");
  CHECK_THROWS_AS(out.write_rows("frames", 4, ConstSpan(values).first(12)), FaultError);
  CHECK_THROWS_AS(out.write_rows("frames", 0, ConstSpan(values).first(7)), FaultError);
  CHECK(contains(message<DataError>([&] { out.create_dataset("frames", {1}); }),
                 path + ": data set 'frames' cannot be created; HDF5 says: "));
  out.commit();

  const Hdf5File in = open(path);
  CHECK(in.datasets() == std::vector<std::string>{"empty", "frames", "meta.JSON"});
  CHECK(in.info("meta.JSON").shape == std::vector<Index>{1});
  CHECK(in.info("meta.JSON").type_name == "string");
  CHECK(in.info("frames").shape == std::vector<Index>{5, 2, 3});
  CHECK(in.read_text("meta.JSON") == text);
  CHECK(in.read_text("empty").empty());
  CHECK(in.read_attribute("plan") == "two fusions");
  CHECK(in.read_attribute("nothing").empty());
  CHECK(read_rows(path, "frames", 0, 5, 6) == values);
  CHECK(read_rows(path, "frames", 2, 0, 6).empty());
  CHECK(read_rows(path, "parameters/conv1/weight", 0, 2, 2) == std::vector<float>{4, 5, 6, 7});
  CHECK(contains(message<DataError>([&] { in.info("parameters/conv1/bias"); }),
                 "no data set 'parameters/conv1/bias'; there are weight in parameters/conv1"));
  CHECK(message<DataError>([&] { in.info("parameters"); }) == path + ": 'parameters' is a group, not a data set");
}

TEST_CASE("hdf5: rows of every type are written as they are in memory") {
  const TemporaryFolder folder;
  const std::string path = folder.file("out.h5");
  constexpr ElementType types[] = {ElementType::float16, ElementType::float32, ElementType::float64, ElementType::int8,
                                   ElementType::uint8,   ElementType::int16,   ElementType::uint16,  ElementType::int32,
                                   ElementType::uint32,  ElementType::int64,   ElementType::uint64};
  Hdf5Output out(path, Replace::nothing, Comm::self());
  const auto bytes_of = [](ElementType type, int first) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(3 * size_of(type)));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
    return bytes;
  };
  for (const ElementType type : types) {
    out.create_dataset(to_string(type), {2, 3}, type);
    out.write_rows(to_string(type), 1, std::span<const std::byte>(bytes_of(type, 60)));
    out.write_rows(to_string(type), 0, std::span<const std::byte>(bytes_of(type, 2)));
    const std::byte half_a_row[1]{};
    CHECK_THROWS_AS(out.write_rows(to_string(type), 0, std::span<const std::byte>(half_a_row)), FaultError);
  }
  CHECK_THROWS_AS(out.write_rows("float64", 0, ConstSpan(ramp(6))), FaultError);  // of another type
  out.commit();
  for (const ElementType type : types) {
    const RowReader reader(path, to_string(type));
    CHECK(reader.type() == type);
    std::vector<std::byte> row(static_cast<std::size_t>(reader.row_bytes()));
    for (const int number : {0, 1}) {
      reader.read(number, 1, row.data());
      CHECK(row == bytes_of(type, number == 0 ? 2 : 60));
    }
  }
}

TEST_CASE("hdf5: rows that nobody wrote, or somebody twice, are an error and no file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("out.h5");
  for (const Index rows : {0, 1, 3}) {
    Hdf5Output out(path, Replace::nothing, Comm::self());
    out.create_dataset("x", {2, 2});
    for (Index row = 0; row < rows; ++row) out.write_rows("x", row % 2, ramp(2));
    CHECK_THROWS_AS(out.commit(), FaultError);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("hdf5: a file has the same bytes whenever it is written") {
  const TemporaryFolder folder;
  const std::string path = folder.file("out.h5");
  const auto written = [&] {
    Hdf5Output out(path, Replace::file, Comm::self());
    out.create_dataset("group/x", {2});
    out.write_rows("group/x", 0, ramp(2));
    out.write_text("text", "t");
    out.write_attribute("attribute", "a");
    out.commit();
    return test::read_bytes(path);
  };
  const std::string early = written();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5's times are in seconds
  CHECK((written() == early));
}

TEST_CASE("hdf5: a file that cannot be created says why") {
  const TemporaryFolder folder;
  const std::string path = folder.file("no/such/folder/out.h5");
  CHECK(message<DataError>([&] { Hdf5Output(path, Replace::nothing, Comm::self()); }) ==
        path +
            ": cannot be created: No such file or directory; check its folder, and the rights, space and quota there");
}
