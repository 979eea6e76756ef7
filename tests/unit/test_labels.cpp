// Labels: what of a file counts as one, at the original and at lower resolutions.
#include <doctest/doctest.h>

#include <cstdint>

#include "io/rows/labels.hpp"
#include "io/rows/sample_store.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::message;
using test::NewDataset;
using test::ramp;
using test::TemporaryFolder;

namespace {

/// A file with `samples` samples of 4x6 positions and one channel, and a data set "y".
struct Field {
  TemporaryFolder folder;
  Comm comm = Comm::self();
  DatasetSpec spec{{folder.file("a.h5")}, "x", "y"};

  explicit Field(LabelForm form, Index samples = 2) {
    spec.form = form;
    test::write_floats(spec.files[0], "x", {samples, 4, 6, 1}, ramp(24 * samples));
  }
  void write(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& values, hid_t type) {
    NewDataset{spec.files[0], "y", shape, type, H5T_NATIVE_INT64}.write(values.data());
  }
  DatasetShape shape() { return inspect_dataset(spec, comm); }
  std::string refusal() {
    return message<DataError>([&] { mrmf::Labels(spec, shape(), {0, 2}); });
  }
  std::vector<float> targets(const Extent& resolution, Index row) {
    const mrmf::Labels labels(spec, shape(), {0, 2});
    std::vector<float> values(static_cast<std::size_t>(labels.shape(resolution).per_sample()), 77);
    labels.write(resolution, row, values);
    return values;
  }
};

LabelForm classes(Index count, std::optional<Index> ignore = {}, CoarseLabels coarse = CoarseLabels::shares) {
  return {LabelKind::classes, count, ignore, coarse};
}

// Row 1 has 0 to 5 along its first two lines, class 2 in the others, but for one place.
std::vector<std::int64_t> two_fields(std::int64_t odd) {
  std::vector<std::int64_t> values(24, 1);
  for (int line = 0; line < 2; ++line)
    for (int i = 0; i < 6; ++i) values.push_back(i / 2);
  values.insert(values.end(), 12, 2);
  values[47] = odd;
  return values;
}

}  // namespace

TEST_CASE("labels: classes may have an axis of one, or none") {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{2, 4, 6}, {2, 4, 6, 1}}) {
    Field field(classes(3));
    field.write(shape, two_fields(2), H5T_STD_U8LE);
    CHECK(field.shape().label == Shape{0, {1, 4, 6}, 1, 2});
    CHECK(field.shape().label_type == ElementType::uint8);
  }
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{2}, {2, 1}}) {
    Field field(classes(3));
    field.write(shape, {0, 2}, H5T_STD_I64BE);
    CHECK(field.shape().label == Shape{.channels = 1});
    CHECK(field.targets({1, 1, 1}, 1) == std::vector<float>{2});
    CHECK(field.targets({1, 2, 2}, 1) == std::vector<float>{2});  // no positions: the same at every resolution
  }
}

TEST_CASE("labels: classes are counted, and what is none is refused with its row") {
  Field field(classes(3, 255));
  field.write({2, 4, 6}, two_fields(255), H5T_STD_U8LE);
  const mrmf::Labels labels(field.spec, field.shape(), {0, 2});
  CHECK(labels.counts() == std::vector<Index>{4, 28, 15});
  CHECK(field.targets({1, 1, 1}, 1).back() == -1);
  field.spec.form.ignore.reset();
  const std::string where = field.spec.files[0] + ": data set 'y', row 1 holds ";
  CHECK(field.refusal().starts_with(where + "255, and the classes are 0 to 2; "));
  Field half(classes(2));
  test::write_floats(half.spec.files[0], "y", {2}, {1, 0.5F});
  CHECK(half.refusal().find("row 1 holds 0.5, and the classes are 0 to 1; ") != std::string::npos);
  Field negative(classes(2));
  negative.write({2}, {0, -1}, H5T_STD_I8LE);
  CHECK(negative.refusal().find("row 1 holds -1, ") != std::string::npos);
  negative.spec.form.ignore = -1;
  CHECK(negative.targets({1, 1, 1}, 1) == std::vector<float>{-1});
}

TEST_CASE("labels: more classes than a byte holds") {
  Field field(classes(60000));
  field.write({2}, {0, 59999}, H5T_STD_I32LE);
  CHECK(field.shape().label_type == ElementType::uint16);
  CHECK(field.targets({1, 1, 1}, 1) == std::vector<float>{59999});
}

TEST_CASE("labels: classes of neighbours become shares, or the most frequent") {
  Field field(classes(3, 255));
  field.write({2, 4, 6}, two_fields(255), H5T_STD_U8LE);
  // Blocks of 2x3: 0 0 1, 1 2 2 in both lines; then class 2 alone, and one place that is ignored.
  const float third = 1.0F / 3, sixth = 1.0F / 6;
  const std::vector<float> shares = field.targets({1, 2, 3}, 1);
  const std::vector<float> expected{2 * third, third, 0, 0, third, 2 * third, 0, 0, 1, 0, 0, 5 * sixth};
  REQUIRE(shares.size() == expected.size());
  for (std::size_t i = 0; i < shares.size(); ++i) CHECK(shares[i] == doctest::Approx(expected[i]));
  field.spec.form.coarse = CoarseLabels::majority;
  CHECK(field.targets({1, 2, 3}, 1) == std::vector<float>{0, 2, 2, 2});
  CHECK(field.targets({1, 1, 6}, 1) == std::vector<float>{0, 0, 2, 2});  // the lowest of equals
}

TEST_CASE("labels: a block that is ignored as a whole has no class") {
  Field field(classes(2, 9));
  field.write({2, 4, 6}, std::vector<std::int64_t>(48, 9), H5T_STD_U16LE);
  CHECK(field.targets({1, 4, 6}, 0) == std::vector<float>{0, 0});
  field.spec.form.coarse = CoarseLabels::majority;
  CHECK(field.targets({1, 4, 6}, 0) == std::vector<float>{-1});
}

TEST_CASE("labels: numbers with positions are averaged, labels of yes or no but for the ignored") {
  Field field({});
  test::write_floats(field.spec.files[0], "y", {2, 4, 6, 2}, ramp(96));
  CHECK(field.shape().label == Shape{0, {1, 4, 6}, 2, 2});
  // Means of 2x3 blocks: the first has positions 0 1 2, 6 7 8, each with two channels.
  const std::vector<float> means = field.targets({1, 2, 3}, 0);
  CHECK(std::vector<float>(means.begin(), means.begin() + 4) == std::vector<float>{8, 9, 14, 15});
  Field masks({LabelKind::probabilities, 0, 9});
  masks.write(
      {2, 4, 6},
      [] {
        std::vector<std::int64_t> values(48, 0);
        values[0] = 9, values[1] = 1, values[6] = 1;
        std::fill(values.begin() + 12, values.begin() + 24, 9);
        return values;
      }(),
      H5T_STD_U8LE);
  CHECK(masks.targets({1, 2, 2}, 0) == std::vector<float>{2.0F / 3, 0, 0, -1, -1, -1});
  masks.spec.form.ignore.reset();
  CHECK(masks.refusal().find("row 0 holds 9, and labels of yes or no are from 0 to 1; ") != std::string::npos);
}

TEST_CASE("labels: shapes that are none") {
  Field field(classes(3));
  field.write({2, 3}, std::vector<std::int64_t>(6, 0), H5T_STD_U8LE);
  CHECK(field.refusal().ends_with(
      "has shape (2, 3); a sample has one class: labels are (n), or one-hot rows of a single 1 "
      "and zeros, or have positions as the samples do"));
  Field wide(classes(3));
  wide.write({2, 4, 6, 2}, std::vector<std::int64_t>(96, 0), H5T_STD_U8LE);
  CHECK(wide.refusal().ends_with(
      "a position has one class: store its number, with a last axis of 1 or none, or one-hot"));
  Field odd(classes(3));
  odd.write({2, 4, 6}, two_fields(2), H5T_STD_U8LE);
  CHECK(message<ConfigError>([&] {
          odd.targets({1, 4, 4}, 0);
        }) == "resolution 4 does not divide an axis of 6 (labels are 4x6x1); use a divisor of 6");
}

TEST_CASE("labels: a store gathers them at the resolution of its targets") {
  Field field(classes(3));
  field.write({2, 4, 6}, two_fields(2), H5T_STD_U8LE);
  SampleStore store(field.spec, field.shape(), {0, 2}, field.comm);
  store.make_ready({1, 2, 3});
  CHECK(store.target({1, 2, 3}) == Shape{0, {1, 2, 2}, 3, 2});
  const std::vector<std::int64_t> ids{1, 0};
  std::vector<float> targets(24, 77);
  store.gather_labels({1, 2, 3}, ids, targets);
  CHECK(std::vector<float>(targets.begin(), targets.begin() + 12) == field.targets({1, 2, 3}, 1));
  CHECK(std::vector<float>(targets.begin() + 12, targets.end()) == field.targets({1, 2, 3}, 0));
  CHECK(store.class_counts() == std::vector<Index>{4, 28, 16});
}
