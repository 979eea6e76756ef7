// Data sets behind links are what HDF5 says they are, whatever lies at their place in the file that holds the link.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_store.hpp"
#include "tests/support/linked_files.hpp"

using namespace mrmf;
using test::contains;
using test::message;
using test::OpenFile;
using test::TemporaryFolder;

namespace {

const std::vector<std::int64_t> kLinkedShape{12, 6, 4};
constexpr Index kElements = 12 * 6 * 4;

struct Linked {
  TemporaryFolder folder;
  std::vector<float> values = test::ramp(kElements, 3);
  std::string master = folder.file("master.h5");
  Linked() { test::write_linked(folder, kLinkedShape, values); }
};

std::vector<float> rows(const RowReader& reader, Index first, Index count) {
  std::vector<float> values(static_cast<std::size_t>(count * 24));
  reader.read(first, count, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

std::string reader_refusal(const std::string& path, const std::string& name) {
  return message<DataError>([&] { RowReader(path, name); });
}

}  // namespace

TEST_CASE("links: every kind leads to the rows that lie there, with and without HDF5") {
  const Linked files;
  const Hdf5File file = Hdf5File::open(files.master, Comm::self());
  for (const test::LinkedAs& link : test::linked_names()) {
    CAPTURE(link.name);
    CHECK(file.has(link.name));
    const RowReader reader(files.master, link.name);
    CHECK(reader.way().direct == link.direct);
    reader.require_written();
    CHECK(rows(reader, 0, 12) == files.values);
    CHECK(rows(reader, 7, 1) == std::vector<float>(files.values.begin() + 7 * 24, files.values.begin() + 8 * 24));
    std::vector<float> through(static_cast<std::size_t>(kElements));
    file.read_rows(link.name, 0, 12, through);
    CHECK(through == files.values);
  }
  // What lies in the file itself is still its own.
  CHECK(rows(RowReader(files.master, "x"), 0, 12) != files.values);
}

TEST_CASE("links: samples in memory and streamed, at any resolution") {
  const Linked files;
  Comm comm = Comm::self();
  for (const test::LinkedAs& link : test::linked_names())
    for (const StoreSettings& settings : {StoreSettings{}, StoreSettings{true, Averaging::load, 8 * 24 * 4}}) {
      CAPTURE(link.name);
      const DatasetSpec spec{{files.master}, link.name, "", SampleLayout::as_stored};
      SampleStore store(spec, inspect_dataset(spec, comm), {0, 12}, comm, settings);
      store.make_ready({1, 1, 2}, 2);
      EpochOrder order = in_order({0, 12}, 2);
      store.expect({1, 1, 2}, order);
      std::vector<float> seen;
      for (const Range& step : order.steps) {
        std::vector<float> x(static_cast<std::size_t>(step.count * 12));
        const std::span ids(order.ids.data() + step.first, static_cast<std::size_t>(step.count));
        store.gather_samples({1, 1, 2}, ids, {store.sample({1, 1, 2}).with_rows(step.count), x});
        seen.insert(seen.end(), x.begin(), x.end());
      }
      bool same = seen.size() == static_cast<std::size_t>(kElements / 2);
      for (std::size_t i = 0; same && i < seen.size(); ++i) {  // neighbours along the first axis of 4 channels
        const std::size_t at = i / 4 * 8 + i % 4;
        same = seen[i] == (files.values[at] + files.values[at + 4]) / 2;
      }
      CHECK(same);
    }
}

TEST_CASE("links: a file is read past HDF5 only where HDF5 has it open") {
  const TemporaryFolder folder;
  const std::string outer = folder.file("outer.h5"), inner = folder.file("inner.h5");
  test::write_floats(inner, "x", {2, 3}, test::ramp(6));
  OpenFile(outer).external("x", "inner.h5", "x");
  const RowReader reader(outer, "x");
  // Another file takes the name: what was opened stays what it was.
  std::filesystem::rename(inner, folder.file("old.h5"));
  test::write_floats(inner, "x", {2, 3}, test::ramp(6, 50));
  std::vector<float> values(6);
  reader.read(0, 2, reinterpret_cast<std::byte*>(values.data()));
  CHECK(values == test::ramp(6));
}

TEST_CASE("links: those that lead nowhere, in circles, or to what is no file end with a line") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5"), other = folder.file("b.h5");
  test::write_floats(path, "x", {2, 3}, test::ramp(6));
  test::write_floats(other, "y", {2, 3}, test::ramp(6));
  test::write_bytes(folder.file("text.h5"), "no HDF5");
  ::mkfifo(folder.file("pipe.h5").c_str(), 0600);
  {
    const OpenFile file(path), second(other);
    file.external("gone", "gone.h5", "/x");
    file.external("no_array", "b.h5", "/z/x");
    file.external("text", "text.h5", "/x");
    file.external("pipe", "pipe.h5", "/x");
    file.external("folder", folder.path(), "/x");
    file.external("over_there", "b.h5", "/pipe");
    file.soft("nothing", "/z");
    file.soft("self", "/self");
    file.external("ring", "b.h5", "/ring");
    second.external("ring", "a.h5", "/ring");
    second.external("pipe", "pipe.h5", "/x");
    file.soft("around/deeper", "/around");
  }
  const std::string what = path + ": data set '";
  CHECK(contains(reader_refusal(path, "gone"), what + "gone' leads to '/x' of gone.h5, which is not there; "));
  CHECK(contains(reader_refusal(path, "no_array"), what + "no_array' leads to '/z/x' of b.h5, which is not there; "));
  CHECK(contains(reader_refusal(path, "text"), what + "text' leads to '/x' of text.h5, which is not an HDF5 file; "));
  CHECK(contains(reader_refusal(path, "nothing"), what + "nothing' leads to '/z', which is not there; "));
  CHECK(contains(reader_refusal(path, "self"), what + "self' leads through more than 16 links, perhaps in a circle; "));
  CHECK(contains(reader_refusal(path, "ring"), "leads through more than 16 links"));
  CHECK(contains(reader_refusal(path, "pipe"), path + ": 'pipe' leads to "));
  CHECK(contains(reader_refusal(path, "pipe"), "pipe.h5, which is a FIFO (named pipe), not a file"));
  CHECK(contains(reader_refusal(path, "over_there"), "pipe.h5, which is a FIFO"));
  CHECK(contains(reader_refusal(path, "folder"), ", which is a folder, not a file"));
  CHECK(contains(reader_refusal(path, "around/deeper/x"), "no data set 'around/deeper/x'"));
  const FileNames names = names_of(path);
  CHECK(names.datasets == std::vector<std::string>{"x"});
  CHECK(names.broken.size() == 9);
  CHECK(contains(reader_refusal(path, "nonsense"), "no data set 'nonsense'; there are x"));
}

TEST_CASE("links: a file has one first name for every data set, and further ones") {
  const Linked files;
  const FileNames names = names_of(files.master);
  CHECK(names.broken.empty());
  CHECK(names.datasets == std::vector<std::string>{"absolute", "block", "chain", "group/back", "group/virtual",
                                                   "hard/link", "linked_packed", "packed", "x"});
  const auto first = [&](const std::string& name) { return first_name(names, files.master, name); };
  CHECK(first("link") == "hard/link");
  CHECK(first("soft") == "hard/link");
  CHECK(first("root/x") == "absolute");
  CHECK(first("root/on") == "chain");
  CHECK(first("soft_group/virtual") == "group/virtual");
  CHECK(first("x") == "x");
  CHECK(first("no such") == "no such");
}

TEST_CASE("links: an output takes the place of no file that a link leads to or through") {
  const Linked files;
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"link", {"run.h5"}},
      {"chain", {"far/run.h5", "far/farther/c.h5"}},
      {"group/virtual", {"far/run.h5", "far/source.h5"}}};
  const auto inputs = [&](const std::string& target, const std::string& name) {
    return RowSources({.files = {files.master}, .samples = name, .labels = ""}, nullptr, {name}, {}).all_inputs(target);
  };
  for (const auto& [name, read] : cases)
    for (const std::string& file : read) {
      CAPTURE(file);
      const std::string target = files.folder.file(file);
      CHECK(contains(
          message<ConfigError>([&, &name = name] { require_output(target, Replace::file, inputs(target, name)); }),
          "is read by this very command"));
      CHECK_THROWS_AS(require_output(target, Replace::file, all_inputs(target, {files.master})), ConfigError);
    }
  const std::string beside = files.folder.file("source.h5");  // not read
  require_output(beside, Replace::file, inputs(beside, "group/virtual"));
}
