// Files that appear whole or not at all, and what they may take the place of.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/timer.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/size_limit.hpp"

using namespace mrmf;
using test::contains;
using test::message;
using test::SizeLimit;
using test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

std::string output_refusal(const std::string& target, Replace replace, const std::vector<std::string>& inputs = {}) {
  return message<ConfigError>([&] { require_output(target, replace, inputs); });
}

}  // namespace

TEST_CASE("output file: it appears at commit, and nothing is left without") {
  const TemporaryFolder folder;
  const std::string target = folder.file("out");
  {
    OutputFile unfinished(target, Replace::nothing);
    unfinished.append("half");
    CHECK(names_in(folder.path()).size() == 1);
    CHECK(unfinished.path().starts_with(target + ".partial-"));
  }
  CHECK(fs::is_empty(folder.path()));

  OutputFile file(target, Replace::nothing);
  file.append("one ");
  file.append("two");
  CHECK_FALSE(fs::exists(target));
  file.commit();
  CHECK(test::read_bytes(target) == "one two");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"out"});
}

TEST_CASE("output file: a set takes its places when all of it is whole, or not at all") {
  const TemporaryFolder folder;
  const std::string old = folder.file("old"), fresh = folder.file("fresh");
  test::write_bytes(old, "old");
  const auto make = [&] {
    std::vector<std::unique_ptr<FinishedFile>> set;
    for (const auto& [target, replace] : {std::pair(old, Replace::file), std::pair(fresh, Replace::nothing)}) {
      OutputFile file(target, replace);
      file.append("made");
      set.push_back(file.finish());
    }
    return set;
  };
  {
    const auto set = make();
    CHECK(test::read_bytes(old) == "old");
    CHECK_FALSE(fs::exists(fresh));
    CHECK(names_in(folder.path()).size() == 3);
  }
  CHECK(names_in(folder.path()) == std::vector<std::string>{"old"});
  {
    const auto set = make();
    test::write_bytes(fresh, "of another command");
    CHECK(contains(message<ConfigError>([&] { put_in_place(set); }), "is there already"));
    CHECK(test::read_bytes(old) == "old");
    CHECK(test::read_bytes(fresh) == "of another command");
  }
  CHECK(names_in(folder.path()).size() == 2);
  fs::remove(fresh);
  put_in_place(make());
  CHECK(test::read_bytes(old) == "made");
  CHECK(test::read_bytes(fresh) == "made");
  CHECK(names_in(folder.path()).size() == 2);
}

TEST_CASE("output file: two writers of one target do not meet, and the slower one fails") {
  const TemporaryFolder folder;
  const std::string target = folder.file("out");
  OutputFile slow(target, Replace::nothing), fast(target, Replace::nothing);
  CHECK(slow.path() != fast.path());
  slow.append("slow");
  fast.append("fast");
  fast.commit();
  CHECK(message<ConfigError>([&] { slow.commit(); }) ==
        target + ": is there already; give --overwrite to replace it, or name another output");
  CHECK(test::read_bytes(target) == "fast");
}

TEST_CASE("output file: what an output may take the place of") {
  const TemporaryFolder folder;
  const std::string there = folder.file("there"), link = folder.file("link"), dangling = folder.file("dangling"),
                    pipe = folder.file("pipe"), other_name = folder.file("other-name");
  test::write_bytes(there, "old");
  fs::create_symlink(there, link);
  fs::create_symlink(folder.file("nowhere"), dangling);
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_hard_link(there, other_name);

  CHECK(output_refusal(folder.file("new"), Replace::nothing).empty());
  CHECK(output_refusal(there, Replace::file).empty());
  CHECK(contains(output_refusal(there, Replace::nothing), "is there already; give --overwrite"));
  CHECK(contains(output_refusal(folder.path(), Replace::file), "is a folder"));
  for (const Replace replace : {Replace::nothing, Replace::file}) {
    CHECK(contains(output_refusal(link, replace), "is a link"));
    CHECK(contains(output_refusal(dangling, replace), "is a link"));
    CHECK(contains(output_refusal(pipe, replace), "is no plain file"));
    CHECK(contains(output_refusal(there, replace, {"/etc/hostname", link}),
                   "is read by this very command (as " + link + ")"));
    CHECK(contains(output_refusal(other_name, replace, {there}), "is read by this very command"));
  }
  CHECK(contains(output_refusal("", Replace::nothing), "empty name"));
  CHECK(message<ConfigError>([&] { OutputFile(link, Replace::file); }) == output_refusal(link, Replace::file));
}

TEST_CASE("output file: no name has a control character") {
  const TemporaryFolder folder;
  for (const char* name : {"a\nb", "a\r", "\tx", "a\x7f"}) {
    CHECK(
        contains(message<ConfigError>([&] { require_output(folder.file(name), Replace::file); }), "control character"));
    CHECK(contains(message<ConfigError>([&] { make_folders(folder.file(name)); }), "control character"));
  }
  require_output(folder.file("größe 1"), Replace::nothing);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("output file: bytes that are not those that were written are found before anything is replaced") {
  const TemporaryFolder folder;
  const std::string target = folder.file("out");
  test::write_bytes(target, "old");
  OutputFile file(target, Replace::file);
  file.append("new bytes");
  {
    std::fstream disk(file.path(), std::ios::in | std::ios::out);
    disk.seekp(4);
    disk << "x";
  }
  CHECK(contains(message<DataError>([&] { file.commit(); }), "9 bytes at 0 read back are not those"));
  CHECK(test::read_bytes(target) == "old");
}

TEST_CASE("output file: a write that fails is said, in every mode, and leaves what was there") {
  const TemporaryFolder folder;
  const std::string target = folder.file("out"), lines = folder.file("lines");
  test::write_bytes(target, "old");
  LineFile log(lines, LineFile::Start::empty);
  log.write("first");
  const SizeLimit limit(100);
  CHECK(contains(message<DataError>([&] { write_file(target, std::string(200, 'x'), Replace::file); }),
                 target + ": cannot be written: File too large"));
  CHECK(contains(message<DataError>([&] { log.write(std::string(200, 'x')); }), lines + ": cannot be written: "));
  CHECK(test::read_bytes(lines) == "first\n");  // no part of the line that did not fit
  log.write("second");
  CHECK(test::read_bytes(lines) == "first\nsecond\n");
  CHECK(test::read_bytes(target) == "old");
  CHECK(names_in(folder.path()).size() == 2);
}

// The library keeps small data sets and its own structures until it closes the file; what fails then must be told.
TEST_CASE("output file: an HDF5 file that does not fit fails wherever its limit lies, and the library lives on") {
  const TemporaryFolder folder;
  const std::string target = folder.file("out.h5");
  const auto write = [&] {
    Hdf5Output out(target, Replace::nothing, Comm::self());
    for (const char* name : {"a", "group/b", "c"}) {
      out.create_dataset(name, {10, 10});
      out.write_rows(name, 0, test::ramp(100));
    }
    out.write_text("text", std::string(500, 't'));
    out.write_attribute("attribute", "a");
    out.commit();
  };
  write();
  const auto size = static_cast<rlim_t>(fs::file_size(target));
  fs::remove(target);
  for (rlim_t bytes = 0; bytes < size; bytes += 97) {
    CAPTURE(bytes);
    const SizeLimit limit(bytes);
    CHECK_THROWS_AS(write(), DataError);
    CHECK(fs::is_empty(folder.path()));
  }
  write();
  CHECK(Hdf5File::open(target, Comm::self()).read_text("text") == std::string(500, 't'));
}

TEST_CASE("output file: a signal that ends the process removes the file first") {
  const TemporaryFolder folder;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    const pid_t child = fork();
    if (child == 0) {
      std::signal(signal, SIG_DFL);  // the test program has a handler of its own
      OutputFile file(folder.file("out"), Replace::nothing);
      file.append("half");
      std::vector<std::unique_ptr<FinishedFile>> whole;  // and all that wait for their places
      for (int i = 0; i < 20; ++i)
        whole.push_back(OutputFile(folder.file(std::to_string(i)), Replace::nothing).finish());
      std::raise(signal);
      _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(fs::is_empty(folder.path()));
  }
}

TEST_CASE("line file: what is in it stays when it is opened again, and other lines replace all") {
  const TemporaryFolder folder;
  const std::string path = folder.file("lines");
  LineFile(path, LineFile::Start::empty).write("a");
  LineFile again(path, LineFile::Start::append);
  again.write("b");
  CHECK(test::read_bytes(path) == "a\nb\n");
  again.replace({"c", "d"});
  again.write("e");
  CHECK(test::read_bytes(path) == "c\nd\ne\n");
  LineFile(path, LineFile::Start::empty).sync();
  CHECK(test::read_bytes(path).empty());
  fs::remove(path);
  fs::create_symlink("/dev/null", path);
  CHECK_THROWS_AS(LineFile(path, LineFile::Start::append), DataError);
}

TEST_CASE("checksummed file: every flipped bit and every cut is seen; HDF5 files without a checksum are told apart") {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.h5"), plain = folder.file("plain.h5");
  // Of such a size one flipped bit of the superblock makes it state the end behind the checksum.
  constexpr std::size_t digits = 16;
  std::string bytes;
  for (Index count = 4; bytes.empty() || (bytes.size() & digits) != 0; count += 4) {
    REQUIRE(count < 40);
    Hdf5Output file(path, Replace::file, Comm::self(), Hdf5Output::End::checksum);
    file.create_dataset("a", {count});
    file.write_values("a", 1, test::ramp(count - 1));
    file.write_values("a", 0, test::ramp(1));
    file.commit();
    bytes = test::read_bytes(path);
    bytes.resize(bytes.size() - digits);
  }
  CHECK(verify(path) == Checksum::right);
  test::write_bytes(plain, bytes);
  CHECK(verify(plain) == Checksum::missing);

  const std::string whole = test::read_bytes(path);
  REQUIRE(whole.size() == bytes.size() + 16);
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += bit < 8 * 96 ? 1 : 37) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    test::write_bytes(path, damaged);
    CAPTURE(bit);
    REQUIRE(verify(path) == Checksum::wrong);
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{64}, whole.size() - 17, whole.size() - 1}) {
    test::write_bytes(path, whole.substr(0, size));
    CHECK(verify(path) == Checksum::wrong);
  }
  CHECK(contains(message<DataError>([&] { verify(folder.file("none")); }), "none: no such file"));
}

TEST_CASE("folders are made one by one, and taken back when one cannot be") {
  const TemporaryFolder folder;
  const std::string deep = folder.file("a/b/c");
  CHECK(make_folders(deep) == std::vector<std::string>{folder.file("a"), folder.file("a/b"), deep});
  CHECK(make_folders(deep + "/").empty());
  test::write_bytes(folder.file("file"), "");
  CHECK(contains(message<DataError>([&] { make_folders(folder.file("file/x")); }), "Not a directory"));
  test::write_bytes(folder.file("a/file"), "");
  CHECK_THROWS_AS(make_folders(folder.file("a/file")), DataError);
  CHECK_THROWS_AS(make_folders(folder.file("new/../file/x")), DataError);
  CHECK_FALSE(fs::exists(folder.file("new")));
}

// By hand, on a quiet machine: unit_tests -tc="output file: the cost*" --no-skip
TEST_CASE("output file: the cost of checked writes" * doctest::skip()) {
  const TemporaryFolder folder;
  const auto seconds = [](const auto& action) {
    const Timer timer;
    action();
    return timer.seconds();
  };
  constexpr std::size_t cosmoflow = 9440668 * 3 * 4;  // parameters and two moments of the preset, float32
  for (const std::size_t size : {std::size_t{1} << 20, std::size_t{10} << 20, cosmoflow, std::size_t{400} << 20}) {
    std::string bytes(size, 'x');
    for (std::size_t i = 0; i < bytes.size(); i += 64) bytes[i] = static_cast<char>(i >> 6);
    std::vector<double> plain, checked;  // in turns, so that both see the same minutes
    for (int i = 0; i < 15; ++i) {
      plain.push_back(seconds([&] {
        const int file = ::open(folder.file("plain").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
        std::string_view left = bytes;
        while (!left.empty()) left.remove_prefix(static_cast<std::size_t>(::write(file, left.data(), left.size())));
        ::fsync(file);
        ::close(file);
      }));
      checked.push_back(seconds([&] {
        OutputFile file(folder.file("checked"), Replace::file);
        file.append(bytes);
        append_checksum(file, bytes.size());
        file.commit();
      }));
    }
    std::ranges::sort(plain);
    std::ranges::sort(checked);
    const double ratio = checked[7] / plain[7];
    MESSAGE(size, " bytes: plain write and fsync ", plain[7], " s, checked ", checked[7], " s, ratio ", ratio);
    if (size == cosmoflow) CHECK(ratio <= 2);
  }
}
