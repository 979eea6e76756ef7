#include "io/files/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <utility>

#include "kernels/errors.hpp"
#include "mpi/comm.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {

struct UnfinishedFile::Watched {
  std::atomic<bool> watched{false};
  std::string path;  ///< changes only while it is not watched, and no signal ends the process
  Watched* next = nullptr;
};

namespace {

// A signal handler may neither lock nor allocate, and sees only the process's own memory. Hence a list, the only one of
// its kind, to which entries are added and never taken away: those of files that are done serve others.
std::atomic<UnfinishedFile::Watched*> first_watched{nullptr};

// A signal ends the process, maybe in a thread of its own (src/run/signals.hpp) while this one goes on.
// Whoever sets up a watched file or has opened one looks here afterwards: then either the handler sees it, or its maker
// sees this.
std::atomic<bool> ending{false};

struct WatchedFiles {
  std::mutex mutex;
  std::deque<UnfinishedFile::Watched> all;  // which stay where they are
  std::vector<UnfinishedFile::Watched*> unused;
  WatchedFiles() = default;
  WatchedFiles(const WatchedFiles&) = delete;
  WatchedFiles& operator=(const WatchedFiles&) = delete;
  ~WatchedFiles() { first_watched.store(nullptr); }
};

WatchedFiles& watched_files() {
  static WatchedFiles here;
  return here;
}

// Sets a handler only where a signal would end the process by default.
void watch_signals() {
  for (const int signal : kEndingSignals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL)
      continue;
    struct sigaction ours {};
    ours.sa_handler = end_by_signal;
    ::sigaction(signal, &ours, nullptr);
  }
}

}  // namespace

// Another thread may set another handler meanwhile, so the signal is raised until it ends the process.
void end_by_signal(int signal) {
  ending = true;
  for (const UnfinishedFile::Watched* file = first_watched.load(); file != nullptr; file = file->next)
    if (file->watched.load()) ::unlink(file->path.c_str());
  sigset_t one{};
  sigemptyset(&one);
  sigaddset(&one, signal);
  for (;;) {
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    std::raise(signal);
  }
}

void stay_where_a_signal_ends() {
  while (ending) ::pause();
}

UnfinishedFile::UnfinishedFile(const std::string& path) {
  WatchedFiles& here = watched_files();
  const std::lock_guard lock(here.mutex);
  const bool fresh = here.unused.empty();
  watched_ = fresh ? &here.all.emplace_back() : here.unused.back();
  if (!fresh) here.unused.pop_back();
  stay_where_a_signal_ends();
  watched_->path = path;
  watched_->watched.store(true);
  if (fresh) {
    watched_->next = first_watched.load();
    first_watched.store(watched_);
  }
  watch_signals();
}

UnfinishedFile::~UnfinishedFile() {
  watched_->watched.store(false);
  WatchedFiles& here = watched_files();
  const std::lock_guard lock(here.mutex);
  here.unused.push_back(watched_);
}

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& what, int reason) {
  stay_where_a_signal_ends();
  const bool full = reason == ENOSPC || reason == EDQUOT;
  throw DataError(path + ": " + what + ": " + std::strerror(reason) +
                  (full              ? "; make room, or name another place"
                   : reason == EFBIG ? "; raise `ulimit -f`, or name another place"
                   : reason == EMFILE || reason == ENFILE
                       ? "; raise `ulimit -n`"
                       : "; check its folder, and the rights, space and quota there"));
}

/// Repeats a call until no signal interrupts it; returns its result.
template <typename Call>
auto uninterrupted(const Call& call) {
  for (;;)
    if (const auto result = call(); result >= 0 || errno != EINTR) return result;
}

int open_file(const std::string& path, int flags) {
  return uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666); });
}

// 0, or errno. Some file systems cannot sync, above all folders, and say so; that counts as success.
int sync(int descriptor) {
  if (uninterrupted([&] { return ::fsync(descriptor); }) == 0) return 0;
  return errno == EINVAL || errno == ENOSYS || errno == ENOTSUP ? 0 : errno;
}

// 0, or errno. Writes at `offset`, or without one where the file's mode says.
int write_all(int descriptor, std::span<const std::byte> bytes, std::optional<std::uint64_t> offset) {
  constexpr std::size_t most = std::size_t{1} << 30;  // Linux takes less than 2 GiB at once
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), most);
    const ssize_t written = uninterrupted([&] {
      return offset ? ::pwrite(descriptor, bytes.data(), size, static_cast<off_t>(*offset))
                    : ::write(descriptor, bytes.data(), size);
    });
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    if (offset) *offset += static_cast<std::uint64_t>(written);
  }
  return 0;
}

// The number of bytes read, or -1 with errno set.
ssize_t read_all(int descriptor, std::uint64_t offset, std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = uninterrupted(
        [&] { return ::pread(descriptor, to.data() + done, to.size() - done, static_cast<off_t>(offset + done)); });
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

void sync_folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  FileDescriptor open(uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!open && errno == EACCES) return;  // a folder may be writable but not readable
  const int reason = open ? sync(open.number()) : errno;
  if (reason != 0) fail(folder, "cannot be put on disk", reason);
}

std::string random_digits() {
  std::uint64_t number = 0;
  // Without the system's random numbers, O_EXCL still keeps two files apart.
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
    number = static_cast<std::uint64_t>(::getpid()) * 0x9e3779b97f4a7c15U;
  return fmt::format("{:016x}", number);
}

/// Creates a new file and returns its name. From its first moment on, a fatal signal removes it.
std::string create_partial(const std::string& target, FileDescriptor& file,
                           std::unique_ptr<UnfinishedFile>& unfinished) {
  for (int attempt = 0;; ++attempt) {
    std::string path = target + ".partial-" + random_digits();
    unfinished = std::make_unique<UnfinishedFile>(path);
    file = FileDescriptor(open_file(path, O_RDWR | O_CREAT | O_EXCL));
    if (file && ending) ::unlink(path.c_str());
    stay_where_a_signal_ends();
    if (file) return path;
    const int reason = errno;
    unfinished.reset();
    if (reason != EEXIST || attempt > 100) fail(target, "cannot be created", reason);
  }
}

[[noreturn]] void refuse_existing(const std::string& target) {
  throw ConfigError(target + ": is there already; give --overwrite to replace it, or name another output");
}

// 0, or errno; EEXIST when the target exists.
int rename_to_new(const std::string& from, const std::string& to) {
  const auto done = [](int result) { return result == 0 ? 0 : errno; };
  int reason =
      done(uninterrupted([&] { return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE); }));
  if (reason != EINVAL && reason != ENOSYS && reason != ENOTSUP) return reason;
  // Some file systems cannot. Then link a second name, which fails if it exists, and unlink the first.
  reason = done(uninterrupted([&] { return ::link(from.c_str(), to.c_str()); }));
  if (reason == 0) return done(::unlink(from.c_str()));
  if (reason != EPERM && reason != ENOTSUP && reason != ENOSYS && reason != EMLINK) return reason;
  // Nor that. Then create an empty file of that name, which fails if it exists, and replace it.
  FileDescriptor created(open_file(to, O_WRONLY | O_CREAT | O_EXCL));
  if (!created) return errno;
  reason = done(uninterrupted([&] { return ::rename(from.c_str(), to.c_str()); }));
  if (reason != 0) ::unlink(to.c_str());
  return reason;
}

void rename_file(const std::string& from, const std::string& to, Replace replace) {
  const int reason = replace == Replace::nothing                                              ? rename_to_new(from, to)
                     : uninterrupted([&] { return ::rename(from.c_str(), to.c_str()); }) == 0 ? 0
                                                                                              : errno;
  if (reason == EEXIST) refuse_existing(to);
  if (reason != 0) fail(to, "cannot be put in place", reason);
}

// Such a name comes from a slip in a script, breaks every line that mentions it, and is hard to type again.
void require_plain_name(const std::string& path) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::ranges::none_of(path, control)) return;
  std::string shown = path;
  std::ranges::replace_if(shown, control, '?');
  throw ConfigError(shown + ": has a line break or another control character in its name (here as ?); take it out");
}

std::string kind_of(const struct stat& facts) {
  if (S_ISDIR(facts.st_mode)) return "a folder";
  if (S_ISLNK(facts.st_mode)) return "a link";
  return "no plain file";
}

}  // namespace

void require_output(const std::string& target, Replace replace, const std::vector<std::string>& inputs) {
  if (target.empty()) throw ConfigError("an output has an empty name; give it one");
  require_plain_name(target);
  struct stat there {};
  if (::lstat(target.c_str(), &there) != 0) {
    if (errno == ENOENT) return;
    fail(target, "cannot be written", errno);
  }
  if (!S_ISREG(there.st_mode))
    throw ConfigError(target + ": is " + kind_of(there) + ", which no output takes the place of; name another output");
  for (const std::string& input : inputs) {
    struct stat other {};
    if (::stat(input.c_str(), &other) == 0 && other.st_dev == there.st_dev && other.st_ino == there.st_ino)
      throw ConfigError(target + ": is read by this very command" + (input == target ? "" : " (as " + input + ")") +
                        "; name another output");
  }
  if (replace == Replace::nothing) refuse_existing(target);
}

// Throws one rank's error on all.
template <typename Action>
void OutputFile::on_all(const Action& action) {
  if (comm_)
    collective_try(*comm_, action);
  else
    action();
}

void OutputFile::create() {
  require_output(target_, replace_);
  partial_ = create_partial(target_, file_, unfinished_);
}

OutputFile::OutputFile(std::string target, Replace replace) : target_(std::move(target)), replace_(replace) {
  create();
}

OutputFile::OutputFile(std::string target, Replace replace, const Comm& comm)
    : target_(std::move(target)), replace_(replace), comm_(comm.duplicate()) {
  on_all([&] {
    if (root()) create();
  });
  comm_->broadcast(partial_, 0);
  try {
    on_all([&] {
      if (root()) return;
      file_ = FileDescriptor(open_file(partial_, O_RDWR));
      if (!file_) fail(partial_, "cannot be opened", errno);
    });
  } catch (...) {  // no destructor follows a constructor that throws
    if (unfinished_) ::unlink(partial_.c_str());
    throw;
  }
}

OutputFile::~OutputFile() {
  if (unfinished_) ::unlink(partial_.c_str());
}

void OutputFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const int reason = write_all(file_.number(), bytes, offset);
  if (reason != 0) fail(target_, "cannot be written", reason);
  forget(offset, bytes.size());
  written_[offset] = {bytes.size(), XXH3_64bits(bytes.data(), bytes.size())};
  end_ = offset + bytes.size();
}

void OutputFile::append(std::string_view bytes) { write(end_, std::as_bytes(std::span(bytes))); }

// Bytes that are written twice are compared with the last write. Where a range is overwritten in part, its rest is not
// compared.
void OutputFile::forget(std::uint64_t offset, std::uint64_t size) {
  auto at = written_.upper_bound(offset);
  if (at != written_.begin() && std::prev(at)->first + std::prev(at)->second.size > offset) --at;
  while (at != written_.end() && at->first < offset + size) at = written_.erase(at);
}

void OutputFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  const ssize_t got = read_all(file_.number(), offset, to);
  if (got < 0) fail(target_, "cannot be read back", errno);
  std::ranges::fill(to.subspan(static_cast<std::size_t>(got)), std::byte{0});
}

void OutputFile::reserve(std::uint64_t bytes) {
  if (uninterrupted([&] { return ::fallocate(file_.number(), 0, 0, static_cast<off_t>(bytes)); }) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
    fail(target_, "needs " + std::to_string(bytes) + " bytes, which are not to be had", errno);
}

void OutputFile::resize(std::uint64_t bytes) {
  if (uninterrupted([&] { return ::ftruncate(file_.number(), static_cast<off_t>(bytes)); }) != 0)
    fail(target_, "cannot be written", errno);
}

void OutputFile::read_back() const {
  constexpr std::size_t most = std::size_t{1} << 22;
  FileDescriptor again(open_file(partial_, O_RDONLY));
  if (!again) fail(partial_, "cannot be read back", errno);
  std::vector<std::byte> buffer;
  for (const auto& [offset, extent] : written_) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (std::uint64_t done = 0; done < extent.size; done += buffer.size()) {
      buffer.resize(std::min<std::uint64_t>(most, extent.size - done));
      const ssize_t got = read_all(again.number(), offset + done, buffer);
      if (got < 0) fail(partial_, "cannot be read back", errno);
      if (static_cast<std::size_t>(got) < buffer.size()) break;
      XXH3_64bits_update(&state, buffer.data(), buffer.size());
    }
    if (XXH3_64bits_digest(&state) != extent.checksum)
      throw DataError(target_ + ": " + std::to_string(extent.size) + " bytes at " + std::to_string(offset) +
                      " read back are not those that were written; the disk or its file system is at fault: nothing "
                      "was replaced, name another place");
  }
}

std::unique_ptr<FinishedFile> OutputFile::finish() {
  on_all([&] {
    const int reason = sync(file_.number());
    if (reason != 0) fail(target_, "cannot be put on disk", reason);
    // After an interruption it is closed all the same, and everything synced is on disk.
    if (!file_.close() && errno != EINTR) fail(target_, "cannot be closed", errno);
    read_back();
  });
  return root() ? std::make_unique<FinishedFile>(partial_, target_, replace_, std::move(unfinished_)) : nullptr;
}

void OutputFile::commit() {
  const std::unique_ptr<FinishedFile> whole = finish();
  on_all([&] {
    if (whole) whole->put_in_place();
  });
}

FinishedFile::FinishedFile(std::string path, std::string target, Replace replace,
                           std::unique_ptr<UnfinishedFile> unfinished)
    : path_(std::move(path)), target_(std::move(target)), replace_(replace), unfinished_(std::move(unfinished)) {}

FinishedFile::~FinishedFile() {
  if (unfinished_) ::unlink(path_.c_str());
}

void FinishedFile::put_in_place() {
  rename_file(path_, target_, replace_);
  unfinished_.reset();
  sync_folder_of(target_);
}

void put_in_place(const std::vector<std::unique_ptr<FinishedFile>>& files) {
  std::vector<std::string> made;
  try {
    for (const auto& file : files) require_output(file->target(), file->replace());
    for (const auto& file : files) {
      struct stat there {};
      const bool fresh = ::lstat(file->target().c_str(), &there) != 0;
      file->put_in_place();
      if (fresh) made.push_back(file->target());
    }
  } catch (...) {
    for (const std::string& path : made) ::unlink(path.c_str());
    throw;
  }
}

void write_file(const std::string& target, std::string_view bytes, Replace replace) {
  OutputFile file(target, replace);
  file.append(bytes);
  file.commit();
}

void rename_file(const std::string& from, const std::string& to) {
  if (uninterrupted([&] { return ::rename(from.c_str(), to.c_str()); }) != 0)
    throw DataError(to + ": cannot be put in place of " + from + ": " + std::strerror(errno) +
                    "; check the rights on its folder");
  sync_folder_of(to);
}

RecordFile::RecordFile(std::string path, Start start) : path_(std::move(path)) {
  if (start == Start::empty) write_file(path_, "", Replace::file);
  open();
}

void RecordFile::open() {
  file_ = FileDescriptor(open_file(path_, O_WRONLY | O_APPEND | O_CREAT));
  struct stat facts {};
  if (!file_ || ::fstat(file_.number(), &facts) != 0) fail(path_, "cannot be written", errno);
  if (!S_ISREG(facts.st_mode)) throw DataError(path_ + ": is no plain file; remove it");
}

void RecordFile::append(std::string_view record) {
  struct stat before {};
  const bool known = ::fstat(file_.number(), &before) == 0;
  const int reason = write_all(file_.number(), std::as_bytes(std::span(record)), std::nullopt);
  if (reason == 0) return;
  // Failing to remove the part is ignored: the first error matters more.
  if (known) [[maybe_unused]]
    const int ignored = ::ftruncate(file_.number(), before.st_size);
  fail(path_, "cannot be written", reason);
}

void RecordFile::replace(std::string_view records) {
  write_file(path_, records, Replace::file);
  open();
}

void RecordFile::sync() const {
  const int reason = mrmf::sync(file_.number());
  if (reason != 0) fail(path_, "cannot be put on disk", reason);
}

void LineFile::replace(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  file_.replace(text);
}

RowFile::RowFile(std::string path, std::uint64_t row_bytes) : path_(std::move(path)), row_bytes_(row_bytes) {
  file_ = FileDescriptor(open_file(path_, O_RDWR | O_CREAT));
  struct stat facts {};
  if (!file_ || ::fstat(file_.number(), &facts) != 0) fail(path_, "cannot be written", errno);
  if (!S_ISREG(facts.st_mode)) throw DataError(path_ + ": is no plain file; remove it");
}

void RowFile::write(std::uint64_t row, std::span<const std::byte> bytes) const {
  const int reason = write_all(file_.number(), bytes, row * row_bytes_);
  if (reason != 0) fail(path_, "cannot be written", reason);
}

bool RowFile::read(std::uint64_t row, std::span<std::byte> bytes) const {
  const ssize_t got = read_all(file_.number(), row * row_bytes_, bytes);
  if (got < 0) fail(path_, "cannot be read", errno);
  return static_cast<std::size_t>(got) == bytes.size();
}

void RowFile::sync() const {
  const int reason = mrmf::sync(file_.number());
  if (reason != 0) fail(path_, "cannot be put on disk", reason);
}

std::vector<std::string> make_folders(const std::string& folder) {
  require_plain_name(folder);
  std::vector<std::string> made;
  fs::path at;
  for (const fs::path& part : fs::path(folder)) {
    at /= part;
    if (part.empty() || ::mkdir(at.c_str(), 0777) == 0) {
      if (!part.empty()) made.push_back(at.string());
      continue;
    }
    const int reason = errno;
    struct stat there {};
    if (::stat(at.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) continue;
    while (!made.empty()) ::rmdir(made.back().c_str()), made.pop_back();
    fail(folder, at == fs::path(folder) ? "cannot be made" : "cannot be made, nor " + at.string(),
         reason == EEXIST ? ENOTDIR : reason);
  }
  return made;
}

OutputFolder::OutputFolder(const std::string& folder) : made_(make_folders(folder)) {}

OutputFolder::~OutputFolder() {
  for (; !made_.empty(); made_.pop_back()) ::rmdir(made_.back().c_str());
}

}  // namespace mrmf
