#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "io/coarsen/coarsen.hpp"
#include "io/hdf5/file.hpp"
#include "io/rows/sample_store.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::message;
using test::NewDataset;
using test::ramp;
using test::TemporaryFolder;

namespace {

/// Two files "a.h5" (3 samples) and "b.h5" (4): x of (8, 2), y of 2; values count on over both files.
struct TwoFiles {
  TemporaryFolder folder;
  Comm comm = Comm::self();
  DatasetSpec spec{{folder.file("a.h5"), folder.file("b.h5")}, "x", "y", SampleLayout::as_stored};

  void write_samples() const {
    test::write_floats(spec.files[0], "x", {3, 8, 2}, ramp(48));
    test::write_floats(spec.files[1], "x", {4, 8, 2}, ramp(64, 48));
  }
  void write_labels() const {
    test::write_floats(spec.files[0], "y", {3, 2}, ramp(6, 1000));
    test::write_floats(spec.files[1], "y", {4, 2}, ramp(8, 1006));
  }
  std::string refusal() {
    return message<DataError>([&] { inspect_dataset(spec, comm); });
  }
  SampleStore store(Range owned) { return SampleStore(spec, inspect_dataset(spec, comm), owned, comm); }
};

struct Gathered {
  std::vector<float> x, targets;
};

Gathered gather(SampleStore& store, const Extent& resolution, const std::vector<std::int64_t>& ids) {
  const auto rows = static_cast<Index>(ids.size());
  const Shape shape = store.sample(resolution).with_rows(rows);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Gathered batch{std::vector<float>(static_cast<std::size_t>(shape.count()), nan),
                 std::vector<float>(static_cast<std::size_t>(rows * store.target(resolution).per_sample()), nan)};
  store.gather(resolution, ids, {shape, batch.x},
               {Shape{rows, {1, 1, 1}, store.target(resolution).per_sample(), 0}, batch.targets});
  return batch;
}

/// The definition of averaging, element by element.
std::vector<float> naive_coarsen(const std::vector<float>& fine, const Shape& s, const Extent& f) {
  std::vector<float> coarse;
  for (Index n = 0; n < s.n; ++n)
    for (Index d = 0; d < s.spatial[0]; d += f[0])
      for (Index h = 0; h < s.spatial[1]; h += f[1])
        for (Index w = 0; w < s.spatial[2]; w += f[2])
          for (Index c = 0; c < s.channels; ++c) {
            long double sum = 0;
            for (Index i = 0; i < f[0]; ++i)
              for (Index j = 0; j < f[1]; ++j)
                for (Index k = 0; k < f[2]; ++k)
                  sum += fine[static_cast<std::size_t>(
                      (((n * s.spatial[0] + d + i) * s.spatial[1] + h + j) * s.spatial[2] + w + k) * s.channels + c)];
            coarse.push_back(static_cast<float>(sum / product(f)));
          }
  return coarse;
}

/// A file with two samples of 3 channels at 4 x 24 positions, as data sets "first" (2, 3, 4, 24) and "last", channels
/// first and last, and "alone" (2, 4, 24), one channel. `copy` averages positions by 2 and 3.
struct NamedAxes {
  TemporaryFolder folder;
  Comm comm = Comm::self();
  CoarseCopy copy;

  NamedAxes() {
    copy.source = folder.file("fine.h5");
    copy.target = folder.file("coarse.h5");
    copy.factor = {1, 2, 3};
    copy.axes = 2;
    std::vector<float> first(576), last(576);
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = std::sin(static_cast<float>(i * i % 977));
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t at = 0; at < 96; ++at) last[(n * 96 + at) * 3 + c] = first[(n * 3 + c) * 96 + at];
    test::write_floats(copy.source, "first", {2, 3, 4, 24}, first);
    test::write_floats(copy.source, "last", {2, 4, 24, 3}, last);
    test::write_floats(copy.source, "alone", {2, 4, 24}, {first.begin(), first.begin() + 192});
    test::write_floats(copy.source, "y", {2, 1}, ramp(2));
  }
  /// Averages this data set alone; its shape in the copy.
  std::vector<Index> averaged(const std::string& samples, const std::string& axes) {
    copy.samples = {samples};
    copy.axis_names = axes;
    copy.replace = Replace::file;
    coarse_copy(copy, comm).file->put_in_place();
    return Hdf5File::open(copy.target, comm).info(samples).shape;
  }
  std::string refusal(const std::string& samples, const std::string& axes) {
    return message<ConfigError>([&] { averaged(samples, axes); });
  }
  /// What a network sees of a file at a resolution.
  std::vector<float> seen(const std::string& file, const std::string& samples, const std::string& axes,
                          const Extent& resolution) {
    DatasetSpec spec{{file}, samples, "y", SampleLayout::as_stored};
    spec.axes = axes;
    SampleStore store(spec, inspect_dataset(spec, comm), {0, 2}, comm);
    store.make_ready(resolution);
    return gather(store, resolution, {0, 1}).x;
  }
};

}  // namespace

TEST_CASE("coarsen: agrees with the definition for every axis and factor") {
  const Shape sample{3, {4, 6, 10}, 3, 3};
  std::vector<float> fine(static_cast<std::size_t>(sample.count()));
  for (std::size_t i = 0; i < fine.size(); ++i) fine[i] = std::sin(static_cast<float>(i * i % 977));
  for (const Extent& factor : std::vector<Extent>{{1, 1, 1}, {2, 2, 2}, {4, 6, 10}, {1, 1, 5}, {1, 3, 1}, {4, 1, 2}}) {
    const std::vector<float> expected = naive_coarsen(fine, sample, factor);
    std::vector<float> coarse(expected.size(), std::numeric_limits<float>::quiet_NaN());
    const Shape small = coarse_shape(sample, factor);
    const Index lines = sample.n * small.spatial[0] * small.spatial[1], line = small.spatial[2] * small.channels;
    for (const Range& part : {Range{0, lines / 2}, Range{lines / 2, lines - lines / 2}})
      coarsen_lines({ElementType::float32, sample, fine.data()}, factor, part, coarse.data() + part.first * line);
    // Sums in double, of at most 240 values below 1, divided and rounded once: half a unit in the last place of 1,
    // plus a double rounding that can flip it.
    for (std::size_t i = 0; i < coarse.size(); ++i) CHECK(std::abs(coarse[i] - expected[i]) <= 6.0e-8);
  }
}

TEST_CASE("coarsen: impossible factors are refused with the axis") {
  const Shape sample{0, {1, 1, 1600}, 3, 1};
  const auto refusal = [&](const Extent& factor) {
    return message<ConfigError>([&] { coarse_shape(sample, factor); });
  };
  CHECK(refusal({1, 1, 3}) ==
        "resolution 3 does not divide an axis of 1600 (samples are 1600x3); use a divisor of 1600");
  CHECK_FALSE(refusal({1, 2, 1}).empty());
  CHECK_FALSE(refusal({1, 1, 0}).empty());
  CHECK(coarse_shape(sample, {1, 1, 4}) == Shape{0, {1, 1, 400}, 3, 1});
}

TEST_CASE("coarsen: a copy of data with named axes is the data at the factor, to the bit") {
  NamedAxes data;
  const Extent original{1, 1, 1};
  CHECK(data.averaged("last", "") == std::vector<Index>{2, 2, 8, 3});
  const std::vector<float> expected = data.seen(data.copy.target, "last", "", original);
  CHECK(data.seen(data.copy.target, "first", "n c y x", data.copy.factor) == expected);  // copied as it was
  CHECK(data.averaged("last", "n y x c") == std::vector<Index>{2, 2, 8, 3});
  CHECK(data.seen(data.copy.target, "last", "", original) == expected);
  CHECK(data.averaged("first", "n c y x") == std::vector<Index>{2, 3, 2, 8});
  CHECK(data.seen(data.copy.target, "first", "n c y x", original) == expected);
  CHECK(data.averaged("alone", "n y x") == std::vector<Index>{2, 2, 8});
  CHECK(data.seen(data.copy.target, "alone", "n y x", original) ==
        data.seen(data.copy.source, "alone", "n y x", data.copy.factor));
  data.copy.factor = {1, 3, 2};
  CHECK(data.averaged("first", "n y x c") == std::vector<Index>{2, 1, 2, 24});  // if that is what the axes are
}

TEST_CASE("coarsen: axes that do not fit, and channels that seem to come first, are refused") {
  NamedAxes data;
  const std::string& fine = data.copy.source;
  CHECK(data.refusal("first", "") ==
        fine + ": data set 'first' of shape (2, 3, 4, 24) looks channels first, and its last axis would be taken for " +
            "channels; give --axes \"n c y x\", or --axes \"n y x c\" if the last axis is of channels");
  CHECK(data.refusal("first", "n y c x") ==
        "--axes \"n y c x\": channels lie between positions; store the data set with them first or last, such as "
        "numpy.moveaxis(x, 2, -1)");
  CHECK(data.refusal("first", "n c x") ==
        "--axes \"n c x\" names 1 position, and --factor has 2 numbers; give --factor a number per position");
  CHECK(data.refusal("first", "c n y x").starts_with("--axes is \"c n y x\": the first axis counts the samples"));
  CHECK(data.refusal("first", "n y x") ==
        fine + ": data set 'first' has 4 axes, and --axes \"n y x\" names 3; name every axis of the data set");
  CHECK(data.refusal("alone", "")
            .starts_with(fine + ": the samples of 'alone' have 1 axis of positions, the last axis being channels"));
  data.copy.axes = 1;
  CHECK(data.refusal("alone", "").find("give --axes \"n c x\", or --axes \"n x c\"") != std::string::npos);
  data.copy.samples.clear();
  data.copy.axis_names = "n x";
  CHECK(message<ConfigError>([&] { coarse_copy(data.copy, data.comm); }) ==
        "--axes \"n x\" fits labels of shape (n, outputs), too; name the data sets to average with --samples");
  CHECK_FALSE(std::filesystem::exists(data.copy.target));
}

TEST_CASE("the seconds of averaging are counted where samples are averaged, and nowhere else") {
  TwoFiles files;
  files.write_samples();
  files.write_labels();
  const Extent half{1, 1, 2}, original{1, 1, 1};
  SampleStore once = files.store({0, 7});
  once.make_ready(original);
  gather(once, original, {0, 3, 6});
  CHECK(once.take_averaging_seconds() == 0);  // reading them and making batches
  once.make_ready(half);
  CHECK(once.take_averaging_seconds() > 0);
  gather(once, half, {0, 3, 6});
  CHECK(once.take_averaging_seconds() == 0);

  for (const bool stream : {false, true}) {
    SampleStore every(files.spec, inspect_dataset(files.spec, files.comm), {0, 7}, files.comm,
                      {stream, Averaging::epoch, 1 << 20});
    every.make_ready(half, 3);
    CHECK(every.take_averaging_seconds() == 0);
    EpochOrder order;
    order.ids = {0, 3, 6};
    order.steps = {{0, 3}};
    every.expect(half, order);
    gather(every, half, {0, 3, 6});
    CHECK(every.take_averaging_seconds() > 0);
  }
}

TEST_CASE("inspect: shapes from flat to three axes, files added up") {
  TwoFiles files;
  files.write_samples();
  files.write_labels();
  CHECK(inspect_dataset(files.spec, files.comm) == DatasetShape{7, {0, {1, 1, 8}, 2, 1}, {.channels = 2}, {3, 4}});

  const TemporaryFolder folder;
  const std::string path = folder.file("shapes.h5");
  test::write_floats(path, "flat", {2, 6}, ramp(12));
  test::write_floats(path, "image", {2, 3, 4, 5}, ramp(120));
  test::write_floats(path, "volume", {2, 3, 4, 5, 2}, ramp(240));
  test::write_floats(path, "one", {2}, ramp(2));
  const auto shape = [&](const std::string& samples) {
    return inspect_dataset({{path}, samples, "one", SampleLayout::as_stored}, files.comm);
  };
  CHECK(shape("flat") == DatasetShape{2, {0, {1, 1, 1}, 6, 0}, {.channels = 1}, {2}});
  CHECK(shape("image").sample == Shape{0, {1, 3, 4}, 5, 2});
  CHECK(shape("volume").sample == Shape{0, {3, 4, 5}, 2, 3});
  const DatasetSpec unlabelled{{path}, "flat", "", SampleLayout::as_stored};
  CHECK(inspect_dataset(unlabelled, files.comm).label.channels == 0);
  CHECK(message<DataError>([&] { shape("one"); }) ==
        path +
            ": data set 'one' has shape (2); samples are (n, features) or (n, 1 to 3 spatial axes, channels); "
            "data.axes names other axes");
}

TEST_CASE("inspect: every file is checked, and the message names file and data set") {
  TwoFiles files;
  files.write_samples();
  const std::string& a = files.spec.files[0];
  const std::string& b = files.spec.files[1];
  CHECK(files.refusal() == a + ": no data set 'y'; there are x");
  test::write_floats(a, "y", {3, 2}, ramp(6));

  SUBCASE("labels and samples of different length") {
    test::write_floats(b, "y", {5, 2}, ramp(10));
    CHECK(files.refusal() == b + ": data set 'y' has 5 rows for 4 samples; each sample needs its row of labels");
  }
  SUBCASE("another number of labels") {
    test::write_floats(b, "y", {4, 3}, ramp(12));
    CHECK(files.refusal() == b + ": data set 'y' has 3 labels per sample, but " + a + " has 2; leave one of them out");
  }
  SUBCASE("labels with too many axes") {
    test::write_floats(b, "y", {4, 2, 1, 1}, ramp(8));
    CHECK(files.refusal() == b + ": data set 'y' has shape (4, 2, 1, 1); labels are (n) or (n, outputs), or have "
                                 "positions as the samples (8x2) do");
  }
  SUBCASE("labels with positions beside others without") {
    test::write_floats(b, "y", {4, 8, 2}, ramp(64));
    CHECK(files.refusal() ==
          b + ": data set 'y' has 8x2 labels per sample, but " + a + " has 2; leave one of them out");
  }
  SUBCASE("labels of a type that cannot be read") {
    const std::vector<int> labels(8, 1);
    const hid_t opaque = H5Tcreate(H5T_OPAQUE, sizeof(int));
    NewDataset{b, "y", {4, 2}, opaque, opaque}.write(labels.data());
    CHECK(files.refusal() == b + ": data set 'y' holds opaque elements; numbers and complex numbers of any size "
                                 "can be read");
  }
  SUBCASE("another sample shape") {
    files.spec.files[1] = files.folder.file("c.h5");
    test::write_floats(files.spec.files[1], "x", {4, 16, 1}, ramp(64));
    test::write_floats(files.spec.files[1], "y", {4, 2}, ramp(8));
    CHECK(files.refusal() ==
          files.spec.files[1] + ": data set 'x' has samples of 16x1, but " + a + " has 8x2; leave one of them out");
  }
  SUBCASE("an empty split") {
    files.spec.files[1] = files.folder.file("d.h5");
    test::write_floats(files.spec.files[1], "x", {0, 8, 2}, {});
    test::write_floats(files.spec.files[1], "y", {0, 2}, {});
    CHECK(files.refusal() == files.spec.files[1] + ": data set 'x' is empty (0 samples); leave that file out");
  }
  SUBCASE("no files") {
    files.spec.files.clear();
    CHECK(message<ConfigError>([&] { inspect_dataset(files.spec, files.comm); }) ==
          "data.files is empty; name at least one HDF5 file");
  }
}

TEST_CASE("store: NaN and infinity are found with file, data set and the row in that file") {
  TwoFiles files;
  const std::string& b = files.spec.files[1];
  test::write_floats(files.spec.files[0], "x", {3, 8, 2}, ramp(48));
  std::vector<float> x = ramp(64), y = ramp(8);
  std::string expected;
  Range owned{0, 7};
  const std::string fills = "; where NaN is a missing number of samples, \"fill\" keeps the row";
  SUBCASE("NaN in samples") {
    x[2 * 16 + 15] = std::numeric_limits<float>::quiet_NaN();
    expected = b +
               ": data set 'x', row 2 holds NaN; remove or repair that sample, or leave all such out with "
               "data.not_finite = \"skip\" (evaluate and predict: --not-finite skip)" +
               fills;
  }
  SUBCASE("the first bad row is named, also by a rank that starts in the middle of the file") {
    x[2 * 16] = x[3 * 16] = std::numeric_limits<float>::quiet_NaN();
    owned = {4, 3};
    expected = b +
               ": data set 'x', row 2 holds NaN; remove or repair that sample, or leave all such out with "
               "data.not_finite = \"skip\" (evaluate and predict: --not-finite skip)" +
               fills;
  }
  SUBCASE("infinity in labels") {
    y[7] = -std::numeric_limits<float>::infinity();
    expected = b +
               ": data set 'y', row 3 holds an infinity; remove or repair that sample, or leave all such out with "
               "data.not_finite = \"skip\" (evaluate and predict: --not-finite skip)";
  }
  SUBCASE("rows that are not ours do not matter") {
    x[3 * 16] = std::numeric_limits<float>::quiet_NaN();
    owned = {0, 6};
  }
  test::write_floats(b, "x", {4, 8, 2}, x);
  test::write_floats(files.spec.files[0], "y", {3, 2}, ramp(6));
  test::write_floats(b, "y", {4, 2}, y);
  CHECK(message<DataError>([&] { files.store(owned); }) == expected);
}

TEST_CASE("store: gathers the right rows across files, in the order of the ids") {
  TwoFiles files;
  files.write_samples();
  files.write_labels();
  SampleStore store = files.store({2, 4});
  const Gathered batch = gather(store, {1, 1, 1}, {5, 2, 3, 2});
  for (std::size_t row = 0; row < 4; ++row) {
    const float id = std::vector<float>{5, 2, 3, 2}[row];
    for (std::size_t i = 0; i < 16; ++i) CHECK(batch.x[row * 16 + i] == id * 16 + static_cast<float>(i));
    CHECK(batch.targets[row * 2] == 1000 + 2 * id);
    CHECK(batch.targets[row * 2 + 1] == 1001 + 2 * id);
  }
  CHECK_THROWS_AS(gather(store, {1, 1, 1}, {1}), FaultError);
  CHECK_THROWS_AS(gather(store, {1, 1, 1}, {6}), FaultError);
}

TEST_CASE("store: averaging in time, then either layout, against indices written by hand") {
  TwoFiles files;
  files.write_samples();
  files.write_labels();
  SUBCASE("as stored") {
    SampleStore store = files.store({0, 7});
    store.make_ready({1, 1, 4});
    CHECK(store.sample({1, 1, 4}) == Shape{0, {1, 1, 2}, 2, 1});
    // Sample 0 is [[0,1],[2,3],...,[14,15]]: channel 0 averages 0,2,4,6 to 3 and 8,...,14 to 11.
    CHECK(gather(store, {1, 1, 4}, {0}).x == std::vector<float>{3, 4, 11, 12});
    CHECK(gather(store, {1, 1, 4}, {6}).x == std::vector<float>{99, 100, 107, 108});
  }
  SUBCASE("reinterpret") {
    files.spec.layout = SampleLayout::reinterpret;
    SampleStore store = files.store({0, 7});
    store.make_ready({1, 1, 1});
    // The flat sample 0..15 read as two channels of 8 positions: position t has t and 8 + t.
    CHECK(gather(store, {1, 1, 1}, {0}).x == std::vector<float>{0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15});
    store.make_ready({1, 1, 2});  // made from the original, wherever it went meanwhile
    // Averaged first: [[1,2],[5,6],[9,10],[13,14]]; then channel 0 is 1,2,5,6 and channel 1 is 9,10,13,14.
    CHECK(gather(store, {1, 1, 2}, {0}).x == std::vector<float>{1, 9, 2, 10, 5, 13, 6, 14});
    store.make_ready({1, 1, 1});
    CHECK(gather(store, {1, 1, 1}, {0}).x[1] == 8);
  }
}

TEST_CASE("store: resolutions come when required and go when released") {
  TwoFiles files;
  files.write_samples();
  files.write_labels();
  SampleStore store = files.store({0, 7});
  CHECK_THROWS_AS(gather(store, {1, 1, 2}, {0}), FaultError);
  CHECK_THROWS_AS(store.make_ready({1, 1, 3}), ConfigError);
  CHECK_THROWS_AS(store.make_ready({1, 2, 1}), ConfigError);
  store.make_ready({1, 1, 2});
  store.make_ready({1, 1, 4});
  store.release({1, 1, 1});
  CHECK(gather(store, {1, 1, 2}, {0}).x.size() == 8);
  CHECK_THROWS_AS(gather(store, {1, 1, 1}, {0}), FaultError);
  CHECK_THROWS_AS(store.make_ready({1, 1, 8}), FaultError);
  store.release({1, 1, 2});
  CHECK_THROWS_AS(gather(store, {1, 1, 2}, {0}), FaultError);
  CHECK(gather(store, {1, 1, 4}, {0}).x == std::vector<float>{3, 4, 11, 12});
}

TEST_CASE("store: float16 samples and uint16 labels arrive as floats") {
  const TemporaryFolder folder;
  const std::string path = folder.file("half.h5");
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x3800, 0x0001};  // 1, -2, 0.5, 2^-24
  const std::vector<std::uint16_t> labels = {7, 65535};
  const hid_t half = test::half_type(H5T_ORDER_LE);
  NewDataset{path, "x", {2, 2}, half, half}.write(halves.data());
  NewDataset{path, "y", {2}, H5T_STD_U16LE, H5T_NATIVE_UINT16}.write(labels.data());
  Comm comm = Comm::self();
  const DatasetSpec spec{{path}, "x", "y", SampleLayout::as_stored};
  SampleStore store(spec, inspect_dataset(spec, comm), {0, 2}, comm);
  const Gathered batch = gather(store, {1, 1, 1}, {0, 1});
  CHECK(batch.x == std::vector<float>{1, -2, 0.5F, 0x1p-24F});
  CHECK(batch.targets == std::vector<float>{7, 65535});
}
