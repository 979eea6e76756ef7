// Every file that the program writes is opened here and nowhere else (a rule of tests/check_source.sh). Three modes:
//
//   create    OutputFile, Replace::nothing   a new file; what is in its place, or comes meanwhile, stays
//   replace   OutputFile, Replace::file      a file of our own, or one that the user gave up with --overwrite
//   append    LineFile                       records and logs, line by line
//
// Every call of the system is checked, the last bytes, the close and the rename too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/input_file.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// A file that must not outlive the process unfinished. While it lives, a signal that would end the process (SIGINT,
/// SIGTERM, SIGHUP, SIGUSR1) removes the file first. Where the program handles such a signal itself, nothing changes:
/// it then ends by its own way, and destructors run. A few can live at a time; further ones are not watched.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

 private:
  int place_ = -1;  // in the table; -1: not watched
};

/// What a handler of a signal calls before it ends the process: removes the files that are watched.
void remove_unfinished_files();

/// What an output may take the place of when it is done. Never a folder, a link or a device.
enum class Replace { nothing, file };

/// The one rule for every output of every command. ConfigError when `target` is there and may not be replaced, is no
/// plain file, is one of `inputs` (by whatever name), or has a control character in its name. On one rank.
void require_output(const std::string& target, Replace replace, const std::vector<std::string>& inputs = {});

/// Bytes that are to become a file. They go to a file of a unique name beside it ("<target>.partial-<16 hex digits>"),
/// which is removed unless commit() is reached; also when a signal ends the process, but for SIGKILL. So a command that
/// fails leaves nothing half-written, and two that write one target do not meet.
///
/// One process writes it, or all ranks of a communicator: each makes one and writes where it likes; ranges of ranks do
/// not overlap. A rank that fails throws alone (collective_try() of mpi/comm.hpp makes it everyone's); only the
/// constructor and commit() are collective.
class OutputFile {
 public:
  /// ConfigError as require_output(); DataError when the file cannot be made.
  OutputFile(std::string target, Replace replace);
  OutputFile(std::string target, Replace replace, const Comm& comm);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  const std::string& target() const { return target_; }
  const std::string& path() const { return partial_; }  ///< where the bytes are until commit()

  /// All of them, or DataError: the file, the system's reason, what to do.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void append(std::string_view bytes);  ///< behind what this rank has written last
  /// What is there, then zeros.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  /// Asks the file system for so many bytes in all, so that a full one is told before the work. DataError: it has not
  /// as many. File systems that cannot tell are believed.
  void reserve(std::uint64_t bytes);
  void resize(std::uint64_t bytes);

  /// Collective. When it returns, the file is in its place and on disk: synced, closed, read back and compared with
  /// what was written, renamed, its folder synced. ConfigError when another command has put a file there meanwhile,
  /// with Replace::nothing. DataError otherwise; what was in its place is then still there.
  void commit();

 private:
  struct Extent {
    std::uint64_t size, checksum;
  };
  bool root() const { return !comm_ || comm_->root(); }
  void create();
  template <typename Action>
  void on_all(const Action& action);
  void forget(std::uint64_t offset, std::uint64_t size);
  void read_back() const;

  std::string target_, partial_;
  Replace replace_;
  std::optional<Comm> comm_;  // none: one process
  FileDescriptor file_;
  std::optional<UnfinishedFile> unfinished_;  // on the root
  std::map<std::uint64_t, Extent> written_;   // by this rank
  std::uint64_t end_ = 0;                     // of what it wrote last
  bool committed_ = false;
};

/// A whole file of these bytes. On one rank. Errors as OutputFile's; what was there before is then still there.
void write_file(const std::string& target, std::string_view bytes, Replace replace);

/// Lines added to a file of our own; every one is there for others as soon as write() returns.
class LineFile {
 public:
  enum class Start { empty, append };
  /// DataError when it cannot be made or opened, or is no plain file.
  LineFile(std::string path, Start start);
  /// DataError when it cannot be added; then no part of it is in the file.
  void write(const std::string& line);
  /// Other lines in the place of all: the old file or the new one is there at any moment.
  void replace(const std::vector<std::string>& lines);
  /// Returns when all lines are on disk.
  void sync() const;

 private:
  void open();

  std::string path_;
  FileDescriptor file_;
};

/// The folder of an output. Its end removes those folders that it made and that are empty, as they are when nothing
/// came of the output. On one rank. Errors as make_folders()'s.
class OutputFolder {
 public:
  explicit OutputFolder(const std::string& folder);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  std::vector<std::string> made_;  // outermost first
};

/// Makes the folders that are missing on the way to `folder`; returns those that it made, outermost first. DataError
/// when one cannot be made; those made before it are then removed again. ConfigError for a control character in its
/// name.
std::vector<std::string> make_folders(const std::string& folder);

/// A file that a command writes, as its command line names it. Where its option is not given, nothing is written.
struct OutputOption {
  std::string file;
  Replace replace = Replace::nothing;

  bool given() const { return !file.empty(); }
  /// Before the work begins: errors as require_output()'s.
  void require(const std::vector<std::string>& inputs = {}) const {
    if (given()) require_output(file, replace, inputs);
  }
  void write(const std::string& text) const {
    if (given()) write_file(file, text, replace);
  }
};

}  // namespace mrmf
