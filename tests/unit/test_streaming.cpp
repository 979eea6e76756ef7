// Streamed samples are those in memory, bit for bit, however the file holds them.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include "io/hdf5/file.hpp"
#include "io/hdf5/output.hpp"
#include "io/rows/sample_reader.hpp"
#include "io/rows/sample_store.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/stored_files.hpp"

using namespace mrmf;
using test::message;
using test::TemporaryFolder;

namespace {

constexpr Index kRows = 23;
const std::vector<std::int64_t> kStoredShape{kRows, 4, 6, 8, 2};
constexpr Index kWidth = 4 * 6 * 8 * 2;

/// Values that all types hold exactly: integers up to 2000.
std::vector<float> sample_values() {
  std::vector<float> values(static_cast<std::size_t>(kRows * kWidth));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 2001);
  return values;
}

struct Files {
  TemporaryFolder folder;
  Comm comm = Comm::self();
  DatasetSpec spec{{folder.file("a.h5")}, "x", "y", SampleLayout::as_stored};

  explicit Files(const test::StoredAs& as) {
    test::write_stored(spec.files[0], "x", kStoredShape, as, sample_values());
    test::write_floats(spec.files[0], "y", {kRows, 3}, test::ramp(kRows * 3));
  }
  SampleStore store(const StoreSettings& settings) {
    return SampleStore(spec, inspect_dataset(spec, comm), {2, 20}, comm, settings);
  }
};

/// Two epochs of all batches at a resolution, samples and targets in one sequence.
std::vector<float> epochs(SampleStore& store, const Extent& resolution) {
  std::vector<float> seen;
  store.make_ready(resolution, 6);
  for (const std::uint64_t epoch : {0, 1}) {
    EpochOrder order = in_order(store.owned(), 6);
    std::rotate(order.ids.begin(), order.ids.begin() + 7 + static_cast<std::ptrdiff_t>(epoch), order.ids.end());
    store.expect(resolution, order);
    for (const Range& step : order.steps) {
      const Shape shape = store.sample(resolution).with_rows(step.count);
      std::vector<float> x(static_cast<std::size_t>(shape.count()), std::numeric_limits<float>::quiet_NaN());
      std::vector<float> y(static_cast<std::size_t>(step.count * 3), std::numeric_limits<float>::quiet_NaN());
      const std::span ids(order.ids.data() + step.first, static_cast<std::size_t>(step.count));
      store.gather(resolution, ids, {shape, x}, {Shape{step.count, {1, 1, 1}, 3, 0}, y});
      seen.insert(seen.end(), x.begin(), x.end());
      seen.insert(seen.end(), y.begin(), y.end());
    }
  }
  return seen;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Room for two batches of six and `more` samples.
StoreSettings streamed(Index sample_bytes, Index more, Averaging averaging = Averaging::load) {
  return {true, averaging, (12 + more) * sample_bytes};
}

/// Of this thread on a core: a busy machine does not change it.
double core_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

TEST_CASE("streaming: every element type, byte order and storage gives what the values are") {
  Files plain({});
  SampleStore memory = plain.store({});
  const std::vector<float> expected = epochs(memory, {1, 1, 1});
  const std::vector<float> coarse = epochs(memory, {2, 2, 2});
  // The first sample of the first batch is row 2 + 7.
  CHECK(expected.front() == sample_values()[9 * kWidth]);
  for (const test::StoredAs& as : test::all_storages()) {
    CAPTURE(as.name());
    Files files(as);
    for (const StoreSettings& settings : {StoreSettings{}, streamed(kWidth * 4, 5)}) {
      SampleStore store = files.store(settings);
      CHECK(same_bits(epochs(store, {1, 1, 1}), expected));
      CHECK(same_bits(epochs(store, {2, 2, 2}), coarse));
    }
  }
}

TEST_CASE("streaming: averaging at load and at use are the same bits, in memory and streamed, in either layout") {
  for (const SampleLayout layout : {SampleLayout::as_stored, SampleLayout::reinterpret}) {
    Files files({.type = test::StoredAs::Type::uint16});
    files.spec.layout = layout;
    for (const Extent& resolution : {Extent{1, 1, 1}, Extent{2, 2, 2}, Extent{1, 1, 4}, Extent{4, 3, 1}}) {
      SampleStore memory = files.store({});
      const std::vector<float> expected = epochs(memory, resolution);
      SampleStore at_use = files.store({false, Averaging::epoch, 0});
      CHECK(same_bits(epochs(at_use, resolution), expected));
      for (const Index room : {0, 5, 100}) {
        SampleStore load = files.store(streamed(kWidth * 4, room)),
                    epoch = files.store(streamed(kWidth * 2, room, Averaging::epoch));
        CHECK(same_bits(epochs(load, resolution), expected));
        CHECK(same_bits(epochs(epoch, resolution), expected));
      }
    }
  }
}

TEST_CASE("streaming: resolutions follow one another; what was dropped is read again") {
  Files files({});
  SampleStore memory = files.store({}), store = files.store(streamed(kWidth * 4, 3));
  for (const Extent& resolution : {Extent{2, 2, 2}, Extent{1, 2, 2}, Extent{1, 1, 1}, Extent{2, 2, 2}})
    CHECK(same_bits(epochs(store, resolution), epochs(memory, resolution)));
  store.release({2, 2, 2});
  CHECK_THROWS_AS(epochs(store, {3, 1, 1}), ConfigError);
  CHECK_THROWS_AS(store.expect({2, 2, 2}, in_order({2, 20}, 6)), FaultError);
}

TEST_CASE("streaming: memory in use follows the plan") {
  const DatasetShape shape{1000, {0, {16, 16, 16}, 4, 3}, {.channels = 4}, {1000}, ElementType::uint16};
  const Index fine = 16 * 16 * 16 * 4 * 2, coarse = 8 * 8 * 8 * 4 * 4;
  const StoreSettings settings{true, Averaging::load, 200 * fine};
  const StreamMemory original = SampleStore::plan(shape, {0, 1000}, settings, {1, 1, 1}, 8);
  CHECK(original.batches == 4);
  CHECK(original.cached == 200 - 32);
  const StreamMemory averaged = SampleStore::plan(shape, {0, 1000}, settings, {2, 2, 2}, 8);
  // Four readers with as many fine samples as a batch has, four batches, and averaged samples in the rest.
  CHECK(averaged.cached == (200 * fine - 32 * fine - 32 * coarse) / coarse);
  const StoreSettings at_use{true, Averaging::epoch, 200 * fine};
  CHECK(SampleStore::plan(shape, {0, 1000}, at_use, {2, 2, 2}, 8).cached == original.cached);
}

TEST_CASE("streaming: what unpacking and converting take is known from the files' headers, and counted") {
  using Type = test::StoredAs::Type;
  const auto shape_of = [](const test::StoredAs& as) {
    Files files(as);
    return inspect_dataset(files.spec, files.comm);
  };
  const auto scratch = [](const DatasetShape& shape, Index budget) {
    const StoreSettings settings{true, Averaging::load, budget};
    const StreamMemory plan = SampleStore::plan(shape, {0, kRows}, settings, {1, 1, 1}, 4);
    return plan.least - 8 * kWidth * size_of(shape.type);  // beside two batches
  };
  constexpr Index row = kWidth * 2, much = Index{1} << 40;
  CHECK(scratch(shape_of({.type = Type::uint16}), much) == 0);
  CHECK(scratch(shape_of({.type = Type::uint16, .chunk_rows = 1}), much) == 0);
  CHECK(scratch(shape_of({.type = Type::uint16, .chunk_rows = 1, .deflate = true}), much) == 2 * row);
  const DatasetShape long_chunks = shape_of({.type = Type::uint16, .chunk_rows = 3});
  CHECK(scratch(long_chunks, much) == 3 * row);
  CHECK(scratch(long_chunks, 8 * row) == row);  // no more than an eighth
  const DatasetShape halves = shape_of({.type = Type::uint16, .chunk_rows = 2, .split_rows = true, .deflate = true});
  CHECK(scratch(halves, much) == 2 * row + 2 * row);
  // Four threads, each with as many rows as a batch has.
  CHECK(scratch(shape_of({.type = Type::float64}), much) == 4 * 4 * kWidth * 8);
  // The same for channels that move and for samples of several data sets, each of which keeps chunks, too.
  StoreSettings settings{true, Averaging::load, much};
  const DatasetShape packed = shape_of({.type = Type::uint16, .chunk_rows = 1, .deflate = true});
  const Index plain = SampleStore::plan(packed, {0, kRows}, settings, {1, 1, 1}, 4).least;
  settings.making = {.sources = 1, .moves = true};
  CHECK(SampleStore::plan(packed, {0, kRows}, settings, {1, 1, 1}, 4).least == plain + 4 * 4 * row);
  settings.making = {.sources = 3, .moves = true};
  CHECK(SampleStore::plan(packed, {0, kRows}, settings, {1, 1, 1}, 4).least ==
        plain + 2 * 4 * 4 * row + 2 * packed.chunks.cache);
}

TEST_CASE("streaming: how rows come together is known from the specification") {
  const auto making = [](const std::string& axes, const std::vector<std::string>& more) {
    DatasetSpec spec;
    spec.axes = axes;
    spec.more_samples = more;
    return row_making(spec);
  };
  CHECK(making("", {}).copies() == 0);
  CHECK(making("n y x c", {}).copies() == 0);
  CHECK(making("n c y x", {}).copies() == 1);
  CHECK(making("n y x c", {"b", "c"}).copies() == 1);
  CHECK(making("n c y x", {"b"}).copies() == 2);
  CHECK(making("", {"b", "c"}).sources == 3);
}

TEST_CASE("streaming: what cannot be read is named by file, data set and row, when its batch comes") {
  using Type = test::StoredAs::Type;
  std::string expected;
  const auto failure = [&](Files& files) {
    return message<DataError>([&] {
      SampleStore store = files.store(streamed(kWidth * 4, 5));
      epochs(store, {1, 1, 1});
    });
  };
  SUBCASE("NaN") {
    Files files({});
    test::overwrite_row(files.spec.files[0], "x", 11, std::numeric_limits<float>::quiet_NaN());
    CHECK(failure(files) ==
          files.spec.files[0] +
              ": data set 'x', row 11 holds NaN; remove or repair that sample, or leave all such out "
              "with data.not_finite = \"skip\" (evaluate and predict: --not-finite skip); where NaN is "
              "a missing number of samples, \"fill\" keeps the row");
    CHECK(message<DataError>([&] { files.store({}); }) == failure(files));
  }
  SUBCASE("a chunk that does not fit its checksum") {
    Files files({.type = Type::float32, .chunk_rows = 1, .fletcher32 = true});
    test::damage_chunk(files.spec.files[0], "x", 13);
    const std::string text = failure(files);
    CAPTURE(text);
    CHECK(text.find(files.spec.files[0] + ": data set 'x' cannot be read from row 13; HDF5 says: ") == 0);
    CHECK(message<DataError>([&] { files.store({}); }) == text);
  }
  SUBCASE("a chunk that cannot be unpacked") {
    Files files({.type = Type::uint16, .chunk_rows = 1, .deflate = true});
    test::damage_chunk(files.spec.files[0], "x", 7);
    CHECK(failure(files).find(": data set 'x' cannot be read from row 7; HDF5 says: ") != std::string::npos);
  }
  SUBCASE("a file that is cut while it is read") {
    Files files({});
    SampleStore store = files.store(streamed(kWidth * 4, 0));
    std::filesystem::resize_file(files.spec.files[0], 2048 + 15 * kWidth * 4);
    const std::string text = message<DataError>([&] { epochs(store, {1, 1, 1}); });
    CHECK(text.find("data set 'x' cannot be read from row 1") != std::string::npos);
    CHECK(text.find("the file ends there") != std::string::npos);
  }
}

TEST_CASE("streaming: reading chunks of whole samples takes no longer than copying does, by far") {
  constexpr Index rows = 8, edge = 32, row_bytes = edge * edge * edge * 4 * 2;
  TemporaryFolder folder;
  const std::vector<float> values(rows * row_bytes / 2, 7.0F);
  const auto best_seconds = [&](const test::StoredAs& as) {
    const std::string path = folder.file(as.name());
    test::write_stored(path, "x", {rows, edge, edge, edge, 4}, as, values);
    const RowReader reader(path, "x");
    std::vector<std::byte> to(rows * row_bytes);
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      const double begin = core_seconds();
      for (Index row = 0; row < rows; ++row) reader.read(row, 1, to.data() + row * row_bytes);
      best = std::min(best, core_seconds() - begin);
    }
    return best;
  };
  using Type = test::StoredAs::Type;
  // About 2 times as long as without HDF5; more than 100 times where the library goes element by element.
  CHECK(best_seconds({.type = Type::uint16, .chunk_rows = 1}) < 30 * best_seconds({.type = Type::uint16}));
}

// What is saved between two steps is made while threads read ahead; the library has no lock of its own.
TEST_CASE("streaming: a file is written while compressed rows are read on threads") {
  constexpr Index rows = 64, width = 512;
  const TemporaryFolder folder;
  const std::string path = folder.file("data.h5");
  std::vector<float> values(rows * width);
  std::iota(values.begin(), values.end(), 0.0F);
  test::write_stored(path, "x", {rows, width}, {.chunk_rows = 1, .deflate = true}, values);

  const auto written_file = [&] {
    const std::string written = folder.file("written.h5");
    Hdf5Output file(written, Replace::file, Comm::self(), Hdf5Output::End::checksum);
    file.write_attribute("version", hdf5_version());
    file.create_dataset("group/x", {rows, width});
    file.write_values("group/x", 0, values);
    file.write_text("text", "as long as it takes");
    file.commit();
    return test::read_bytes(written);
  };
  const std::string alone = written_file();

  std::atomic<Index> wrong = 0, reads = 0;
  std::atomic<bool> stop = false;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      const RowReader reader(path, "x");
      std::vector<float> row(width);
      for (Index r = 0; !stop; r = (r + 1) % rows, ++reads) {
        reader.read(r, 1, reinterpret_cast<std::byte*>(row.data()));
        if (!std::equal(row.begin(), row.end(), values.begin() + r * width)) ++wrong;
      }
    });
  while (reads == 0) std::this_thread::yield();
  Index others = 0;
  for (int i = 0; i < 100; ++i) others += written_file() != alone;
  stop = true;
  readers.clear();
  CHECK(others == 0);
  CHECK(wrong == 0);
}
