// Writing files: whole or not at all, also when a signal ends the program; HDF5 files of our own with a checksum at
// their end (input_file_and_checksums.cpp).
#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/files/input_file.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

// The signals by which terminals and batch systems end a program; each does so by default.

inline constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

// Output files: every file that the program writes is opened here and nowhere else (a rule of tests/check_source.sh).
// Four modes:
//
//   create    OutputFile, Replace::nothing   a new file; one that is there already, or appears meanwhile, stays
//   replace   OutputFile, Replace::file      a file of our own, or one that the user gave up with --overwrite
//   append    RecordFile, LineFile           records and logs, one by one
//   in place  RowFile                        rows of one size in any order, kept from one start to the next
//
// Every system call is checked, including the last write, the close and the rename.

/// A file that must not outlive the process unfinished. While it lives, a signal that would end the process (SIGINT,
/// SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU) removes the file first. Signals that the program handles itself are left
/// alone: it then ends in its own way, and destructors run.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string& path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  struct Watched;  ///< what signal handlers see of it

 private:
  Watched* watched_;
};

/// Removes all watched files and ends the process by the signal's default action. For signal handlers.
void end_by_signal(int signal);
/// Does not return where a signal is ending the process in another thread. Call it before an error is told that may
/// come of a file that is gone for that reason.
void stay_where_a_signal_ends();

/// What a finished output may replace. Never a folder, a link or a device.
enum class Replace { nothing, file };

/// The one rule for every output of every command. ConfigError when `target` exists and may not be replaced, is not a
/// plain file, is one of `inputs` (by whatever name), or has a control character in its name. On one rank.
void require_output(const std::string& target, Replace replace, const std::vector<std::string>& inputs = {});

/// A file that is whole and on disk, under the unique name beside its target that it was written by. It is removed
/// unless it is put in its place. On one rank.
class FinishedFile {
 public:
  FinishedFile(std::string path, std::string target, Replace replace, std::unique_ptr<UnfinishedFile> unfinished);
  FinishedFile(const FinishedFile&) = delete;
  FinishedFile& operator=(const FinishedFile&) = delete;
  ~FinishedFile();

  const std::string& path() const { return path_; }
  const std::string& target() const { return target_; }
  Replace replace() const { return replace_; }
  /// Renames it and syncs its folder. ConfigError with Replace::nothing when another command has put a file there
  /// meanwhile. DataError otherwise; a file that was there before is then still there.
  void put_in_place();

 private:
  std::string path_, target_;
  Replace replace_;
  std::unique_ptr<UnfinishedFile> unfinished_;  // null: it is in its place
};

/// Puts all of a set in place, when all of it is whole. If one cannot be, those that replaced nothing are gone again.
/// On one rank. Errors as require_output()'s and put_in_place()'s.
void put_in_place(const std::vector<std::unique_ptr<FinishedFile>>& files);

/// A file in the making. Its bytes go to a file of a unique name beside it ("<target>.partial-<16 hex digits>"). That
/// is removed unless commit() is reached, even when a signal other than SIGKILL ends the process. So a command that
/// fails leaves nothing half-written, and two commands with one target do not collide.
///
/// One process writes it, or all ranks of a communicator: each makes an OutputFile and writes where it likes; the
/// ranks' ranges do not overlap. Only the constructor, finish() and commit() are collective. In other members a failing
/// rank throws alone; collective_try() of mpi/comm.hpp throws its error on all.
class OutputFile {
 public:
  /// ConfigError as require_output(); DataError when the file cannot be created.
  OutputFile(std::string target, Replace replace);
  OutputFile(std::string target, Replace replace, const Comm& comm);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  const std::string& target() const { return target_; }
  const std::string& path() const { return partial_; }  ///< where the bytes are until commit()

  /// Writes all bytes, or DataError: the file, the system's reason, what to do.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void append(std::string_view bytes);  ///< behind this rank's last write
  /// Reads what is there, then zeros.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  /// Reserves this many bytes in all, so that a full file system is noticed before the work. DataError when it has
  /// fewer. A file system that cannot tell is believed.
  void reserve(std::uint64_t bytes);
  void resize(std::uint64_t bytes);

  /// Collective: the file, whole and on disk (synced, closed, read back and compared), and not yet in its place. Null
  /// on other ranks than the root. DataError when that fails. Call it last.
  std::unique_ptr<FinishedFile> finish();
  /// Collective: finishes the file and gives it its name. Errors as FinishedFile's, too.
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
  std::unique_ptr<UnfinishedFile> unfinished_;  // on the root, until it is finished
  std::map<std::uint64_t, Extent> written_;     // by this rank
  std::uint64_t end_ = 0;                       // end of its last write
};

/// Writes a whole file. On one rank. Errors as OutputFile's; a file that was there before is then still there.
void write_file(const std::string& target, std::string_view bytes, Replace replace);

/// Gives a file of our own another name in its folder, in place of the file that has it. On one rank. DataError when it
/// cannot.
void rename_file(const std::string& from, const std::string& to);

/// Records appended to a file of our own. Others can read each as soon as append() returns.
class RecordFile {
 public:
  enum class Start { empty, append };
  /// DataError when it cannot be created or opened, or is not a plain file.
  RecordFile(std::string path, Start start);
  /// DataError when it cannot be appended; then no part of it is in the file.
  void append(std::string_view record);
  /// Replaces all records. At any moment either the old or the new file is there.
  void replace(std::string_view records);
  /// Returns when all records are on disk.
  void sync() const;

 private:
  void open();

  std::string path_;
  FileDescriptor file_;
};

/// The same for lines.
class LineFile {
 public:
  using Start = RecordFile::Start;
  LineFile(std::string path, Start start) : file_(std::move(path), start) {}
  void write(const std::string& line) { file_.append(line + '\n'); }
  void replace(const std::vector<std::string>& lines);
  void sync() const { file_.sync(); }

 private:
  RecordFile file_;
};

/// Rows of one size in a file of our own, which any number of processes write in any order. What was never written is
/// zeros, or behind its end.
class RowFile {
 public:
  /// Opens the file, or makes it. DataError when it cannot, or is not a plain file.
  RowFile(std::string path, std::uint64_t row_bytes);
  /// DataError when it cannot be written. On any thread.
  void write(std::uint64_t row, std::span<const std::byte> bytes) const;
  /// False where the file ends before the row does. DataError when it cannot be read. On any thread.
  bool read(std::uint64_t row, std::span<std::byte> bytes) const;
  /// Returns when all rows are on disk.
  void sync() const;

 private:
  std::string path_;
  std::uint64_t row_bytes_;
  FileDescriptor file_;
};

/// The folder of an output. The destructor removes those of its folders that it made and that are still empty, as they
/// are when the output failed. On one rank. Errors as make_folders()'s.
class OutputFolder {
 public:
  explicit OutputFolder(const std::string& folder);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  std::vector<std::string> made_;  // outermost first
};

/// Makes the missing folders on the way to `folder`; returns those it made, outermost first. DataError when one cannot
/// be made; those made before it are then removed. ConfigError for a control character in its name.
std::vector<std::string> make_folders(const std::string& folder);

/// A file that a command writes, as named by an option. Without the option, nothing is written.
struct OutputOption {
  std::string file;
  Replace replace = Replace::nothing;

  bool given() const { return !file.empty(); }
  /// Call before the work begins. Errors as require_output()'s.
  void require(const std::vector<std::string>& inputs = {}) const {
    if (given()) require_output(file, replace, inputs);
  }
  void write(const std::string& text) const {
    if (given()) write_file(file, text, replace);
  }
};

// HDF5 files that end with a checksum of the bytes before it: 16 hexadecimal digits of XXH3. The HDF5 library does not
// look behind the last byte of its file, and it never gets to see a damaged one.

/// Writes the checksum of a file's bytes [0, bytes) behind them, where all of them have been written. On one rank.
/// DataError when it cannot be read or written.
void append_checksum(OutputFile& file, std::uint64_t bytes);

enum class Checksum { right, wrong, missing };

/// Whether the file ends with the checksum of its contents. An HDF5 file that ends where its own header says has none.
/// DataError when it cannot be read. On one rank.
Checksum verify(const std::string& path);

/// The 16 digits at the end of a file that has them. DataError when it cannot be read.
std::string checksum_at_end(const std::string& path);

}  // namespace mrmf
