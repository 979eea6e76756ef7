// What the names of a data set stand for in its files, read as rows.
#include <doctest/doctest.h>

#include <chrono>
#include <future>

#include "io/hdf5/library_and_types.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "tests/support/linked_files.hpp"

using namespace mrmf;
using test::message;
using test::OpenFile;
using test::TemporaryFolder;

namespace {

constexpr float kPi = 3.25F;

void add_attribute(const std::string& path, const std::string& object, const std::string& name,
                   const std::vector<float>& values, bool single = false) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
              owner = H5Oopen(file, object.c_str(), H5P_DEFAULT);
  const hsize_t count = values.size();
  const hid_t space = single ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr);
  const hid_t made = H5Acreate2(owner, name.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(made, H5T_NATIVE_FLOAT, values.data());
  H5Aclose(made);
  H5Sclose(space);
  H5Oclose(owner);
  H5Fclose(file);
}

void add_words(const std::string& path, const std::string& name, const std::vector<const char*>& words) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const hsize_t count = words.size();
  const hid_t space = H5Screate_simple(1, &count, nullptr);
  const hid_t made = H5Dcreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(made, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, words.data());
  H5Dclose(made);
  H5Sclose(space);
  H5Tclose(type);
  H5Fclose(file);
}

void make_group(const std::string& path, const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Gclose(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Fclose(file);
}

/// a.h5 with rows, labels, words and attributes.
struct Rows {
  TemporaryFolder folder;
  std::string path = folder.file("a.h5");
  DatasetSpec spec{{path}, "x", "y"};

  Rows() {
    test::write_floats(path, "x", {6, 2, 2}, test::ramp(24));
    test::write_floats(path, "y", {6}, test::ramp(6, 100));
    add_words(path, "kind", {"spiral", "disc"});
    add_attribute(path, "/", "omega_m", {kPi}, true);
    add_attribute(path, "x", "box", {1, 2, 4});
  }
  std::unique_ptr<RowSources> sources(const std::vector<std::string>& names, RowsBy form = RowsBy::axis,
                                      bool words = false) {
    spec.rows = form;
    return std::make_unique<RowSources>(spec, nullptr, names, RowSources::Limits{.words = words});
  }
  /// What opening `name` is refused with.
  std::string refusal(const std::string& name, RowsBy form = RowsBy::axis) {
    return message<DataError>([&] { sources({name}, form)->open(0); });
  }
};

std::vector<float> rows_read(const RowSource& rows, Index first, Index count) {
  std::vector<float> values(static_cast<std::size_t>(count * rows.row_elements()));
  rows.read(first, count, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

}  // namespace

TEST_CASE("row source: names of arrays and of attributes") {
  const auto is = [](const std::string& name, const std::string& object, const std::string& attribute) {
    const RowName found = RowName::parse(name);
    return found.object == object && found.attribute == attribute;
  };
  CHECK(is("density", "density", ""));
  CHECK(is("fields/density", "fields/density", ""));
  CHECK(is("@omega_m", "", "omega_m"));
  CHECK(is("density@omega_m", "density", "omega_m"));
}

TEST_CASE("row source: rows along the first axis, and all of a file as one row") {
  Rows files;
  const auto axis = files.sources({"x", "y"})->open(0);
  REQUIRE(axis->size() == 2);
  const RowSource &x = *(*axis)[0], &y = *(*axis)[1];
  CHECK(x.shape() == std::vector<Index>{6, 2, 2});
  CHECK(x.row_bytes() == 16);
  CHECK(x.row_elements() == 4);
  CHECK(x.type() == ElementType::float32);
  CHECK(x.way().direct);
  CHECK(!x.elsewhere());
  CHECK(x.where() == files.path + ": data set 'x'");
  CHECK(x.row_text(3) == files.path + ": data set 'x', row 3");
  CHECK(rows_read(x, 2, 3) == test::ramp(12, 8));
  std::vector<float> part(2);
  x.read(4, 1, RowBox{{1, 0}, {1, 2}}, reinterpret_cast<std::byte*>(part.data()));
  CHECK(part == test::ramp(2, 18));
  CHECK(rows_read(y, 5, 1) == std::vector<float>{105});

  const auto whole = files.sources({"x", "y"}, RowsBy::files)->open(0);
  CHECK((*whole)[0]->shape() == std::vector<Index>{1, 6, 2, 2});
  CHECK((*whole)[0]->row_text(0) == files.path + ": data set 'x'");
  CHECK(rows_read(*(*whole)[0], 0, 1) == test::ramp(24));
  CHECK((*whole)[1]->shape() == std::vector<Index>{1, 6});
}

TEST_CASE("row source: attributes, of the file and of an array") {
  Rows files;
  const auto open = files.sources({"x@box", "@omega_m"}, RowsBy::files)->open(0);
  CHECK((*open)[0]->shape() == std::vector<Index>{1, 3});
  CHECK((*open)[0]->where() == files.path + ": attribute 'box' of 'x'");
  CHECK(rows_read(*(*open)[0], 0, 1) == std::vector<float>{1, 2, 4});
  CHECK((*open)[1]->shape() == std::vector<Index>{1});
  CHECK(rows_read(*(*open)[1], 0, 1) == std::vector<float>{kPi});
  CHECK((*open)[1]->origins().empty());
  const auto again = files.sources({"x@box"}, RowsBy::files);
  for (int time = 0; time < 2; ++time) {  // the second time, what is remembered is used
    const auto box = again->open(0);
    CHECK(box->front()->where() == files.path + ": attribute 'box' of 'x'");
    CHECK(box->front()->shape() == std::vector<Index>{1, 3});
    CHECK(rows_read(*box->front(), 0, 1) == std::vector<float>{1, 2, 4});
  }

  const auto rows = files.sources({"x@box"})->open(0);
  CHECK(rows->front()->shape() == std::vector<Index>{3});
  CHECK(rows->front()->row_text(1) == files.path + ": attribute 'box' of 'x', row 1");
  CHECK(rows_read(*rows->front(), 1, 2) == std::vector<float>{2, 4});
  CHECK(files.refusal("@omega_m").find("is a single value; rows are wanted") != std::string::npos);
  CHECK(files.refusal("@omega_n", RowsBy::files) ==
        files.path + ": no attribute 'omega_n' of the file; there are omega_m; do you mean 'omega_m'?");
  CHECK(files.refusal("z@box", RowsBy::files).find("no 'z' that could have an attribute 'box'") != std::string::npos);

  test::write_floats(files.path, "odd@name", {6}, test::ramp(6));  // an array of such a name is the array
  CHECK(files.sources({"odd@name"})->open(0)->front()->shape() == std::vector<Index>{6});
}

TEST_CASE("row source: words only where they may be") {
  Rows files;
  const auto open = files.sources({"kind"}, RowsBy::axis, true)->open(0);
  const RowSource& kind = *open->front();
  CHECK(kind.holds_words());
  CHECK(kind.words(0, 2) == std::vector<std::string>{"spiral", "disc"});
  CHECK(kind.words(1, 1) == std::vector<std::string>{"disc"});
  CHECK(message<DataError>([&] { rows_read(kind, 0, 1); }).find("holds words") != std::string::npos);
  CHECK(files.refusal("kind").find("data set 'kind' holds ") != std::string::npos);
}

TEST_CASE("row source: a row for each group, which are alike") {
  Rows files;
  for (int i = 0; i < 3; ++i) {
    const std::string group = "sim_" + std::to_string(i);
    make_group(files.path, group);
    test::write_floats(files.path, group + "/d", {2, 3}, test::ramp(6, 10.0F * static_cast<float>(i)));
    add_attribute(files.path, group, "sigma", {static_cast<float>(i)}, true);
  }
  files.spec.groups = "sim_*";
  GroupsAsRows groups;
  const auto sources = files.sources({"d", "@sigma", "/@omega_m"}, RowsBy::groups);
  auto open = sources->open(0, groups);
  CHECK(*groups.names == std::vector<std::string>{"sim_0", "sim_1", "sim_2"});
  const RowSource& d = *(*open)[0];
  CHECK(d.shape() == std::vector<Index>{3, 2, 3});
  CHECK(d.row_text(2) == files.path + ": data set 'sim_2/d'");
  CHECK(rows_read(d, 1, 2)[0] == 10);
  CHECK(rows_read(d, 1, 2)[6] == 20);
  CHECK(d.origins().size() == 3);
  CHECK(rows_read(*(*open)[1], 0, 3) == std::vector<float>{0, 1, 2});
  CHECK(rows_read(*(*open)[2], 0, 3) == std::vector<float>{kPi, kPi, kPi});
  d.require_alike(true);
  open.reset();  // closes the file

  make_group(files.path, "sim_3");
  test::write_floats(files.path, "sim_3/d", {2, 4}, test::ramp(8));
  const auto four = files.sources({"d"}, RowsBy::groups)->open(0);
  CHECK(message<DataError>([&] { four->front()->require_alike(false); }) ==
        files.path +
            ": data set 'sim_3/d' has shape (2, 4), and that of 'sim_0' (2, 3); all samples are alike: correct the "
            "group, or leave it out by data.groups");
}

TEST_CASE("row source: the same array has one origin under all of its names, remembered or not") {
  Rows files;
  const std::string other = files.folder.file("b.h5");
  test::write_floats(other, "x", {6, 2, 2}, test::ramp(24));
  {
    const OpenFile file(files.path);
    file.hard("second", "/x");
    file.soft("third", "/x");
    file.external("linked", "b.h5", "/x");
    file.virtual_of("virtual", {6, 2, 2}, "b.h5", "x");
  }
  for (const RowsBy form : {RowsBy::axis, RowsBy::files}) {
    const auto sources = files.sources({"x", "second", "third", "linked", "virtual"}, form);
    for (int time = 0; time < 2; ++time) {  // the second time, what is remembered is used
      const auto open = sources->open(0);
      const auto x = (*open)[0]->origins();
      CHECK(x.size() == 1);
      CHECK((*open)[1]->origins() == x);
      CHECK((*open)[2]->origins() == x);
      CHECK((*open)[3]->origins() != x);
      CHECK((*open)[3]->origins().front().array == (*open)[4]->origins().front().array);
      CHECK((*open)[3]->elsewhere());
      CHECK((*open)[4]->elsewhere());
    }
    const auto alone = files.sources({"x"}, form);
    const auto found = alone->open(0)->front()->origins();
    CHECK(alone->open(0)->front()->origins() == found);
    CHECK(files.sources({"second"}, form)->open(0)->front()->origins() == found);
  }
}

// Whoever needs the library waits for its lock, which this test holds meanwhile.
TEST_CASE("row source: a file that was open before is opened again without HDF5") {
  Rows files;
  const auto sources = files.sources({"x", "y", "x@box"});
  const auto first = sources->open(0);
  for (const auto& rows : *first) CHECK(rows->plain());
  std::shared_ptr<const OpenRows> again;
  {
    const h5::Lock lock;
    auto opening = std::async(std::launch::async, [&] { again = sources->open(0); });
    CHECK(opening.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    if (again == nullptr) return;
    CHECK(rows_read(*again->front(), 0, 6) == test::ramp(24));
    CHECK((*again)[1]->row_text(2) == files.path + ": data set 'y', row 2");
    CHECK((*again)[1]->way().text == "contiguous");
    CHECK(rows_read(*(*again)[2], 1, 1) == std::vector<float>{2});
  }
  DatasetShape shape;  // others of the same shape know it, too
  shape.remembered = sources->remembered();
  const RowSources labels(files.spec, shape, {"y"});
  again.reset();
  const h5::Lock lock;
  auto opening = std::async(std::launch::async, [&] { again = labels.open(0); });
  CHECK(opening.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  CHECK(rows_read(*again->front(), 0, 6) == test::ramp(6, 100));
}

TEST_CASE("row source: a file that was changed or replaced since is looked at anew") {
  Rows files;
  const auto sources = files.sources({"x"});
  CHECK(rows_read(*sources->open(0)->front(), 0, 1)[0] == 0);
  const std::string other = files.folder.file("b.h5");
  test::write_floats(other, "first", {40}, test::ramp(40));  // so that x lies elsewhere in the file
  test::write_floats(other, "x", {5, 2, 2}, test::ramp(20, 50));
  std::filesystem::rename(other, files.path);
  const auto replaced = sources->open(0);
  CHECK(replaced->front()->shape().front() == 5);
  CHECK(rows_read(*replaced->front(), 0, 1)[0] == 50);
  std::filesystem::remove(files.path);
  CHECK(message<DataError>([&] { sources->open(0); }).find("a.h5: no such file") != std::string::npos);
}

TEST_CASE("row source: no more files than may be open at once, and no fewer than are needed") {
  Rows files;
  files.spec.files.clear();
  for (int i = 0; i < 20; ++i) {
    files.spec.files.push_back(files.folder.file("f" + std::to_string(i) + ".h5"));
    test::write_floats(files.spec.files.back(), "x", {1, 2}, {static_cast<float>(i), 0});
  }
  const RowSources sources(files.spec, nullptr, {"x"}, {.files = 3});
  const auto open_now = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_now();
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < 20; ++i) CHECK(rows_read(*sources.at(i)->front(), 0, 1)[0] == static_cast<float>(i));
  CHECK(open_now() <= before + 3);
  CHECK(sources.at(19) == sources.at(19));  // still open
}
