// Reading files that a user names: what they must be, limits of shapes and texts; and the checksums at the end of our
// own files.
#include "io/files/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "io/files/file_names.hpp"
#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {

Index saturated_product(Index a, Index b) {
  return b > 0 && a > std::numeric_limits<Index>::max() / b ? std::numeric_limits<Index>::max() : a * b;
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string text;
  for (const Index size : shape)  // as the file has it, even if it does not fit an Index
    text += (text.empty() ? "" : ", ") + std::to_string(static_cast<std::uint64_t>(size));
  return "(" + text + ")";
}

void require_countable(const std::vector<Index>& shape, const std::string& what) {
  Index elements = 1, row = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    elements = saturated_product(elements, std::max<Index>(shape[axis], 0));
    if (axis > 0) row = saturated_product(row, std::max<Index>(shape[axis], 0));
  }
  const bool negative = std::ranges::any_of(shape, [](Index size) { return size < 0; });
  if (!negative && elements <= kMostElements && row <= kMostRowElements) return;
  throw DataError(what + " has shape " + shape_text(shape) + ", which is more than " +
                  std::to_string(kMostRowElements) + " numbers a row or " + std::to_string(kMostElements) +
                  " in all; is the file damaged?");
}

namespace {

/// The position behind the string that begins at `at`. An unterminated one-line string ends with its line, where a
/// parser stops, too.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool lines = text.substr(at, 3) == three;
  for (std::size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (lines) {
      if (text.substr(i, 3) == three) return i + 3;
    } else if (text[i] == quote || text[i] == '\n') {
      return i + 1;
    }
  }
  return text.size();
}

struct Depth {
  int open = 0, dots = 0, most = 0;

  void see(char c) {
    if (c == '[' || c == '{') ++open;
    if (c == ']' || c == '}') open = std::max(open - 1, 0);
    if (c == '.')
      ++dots;
    else if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos)
      dots = 0;
    most = std::max({most, open, dots});
  }
};

}  // namespace

int toml_nesting(std::string_view text) {
  Depth depth;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"' || text[i] == '\'') {
      i = behind_string(text, i);
    } else if (text[i] == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else {
      depth.see(text[i++]);
    }
  }
  return depth.most;
}

int json_nesting(std::string_view text) {
  int open = 0, most = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (text[i] == '[' || text[i] == '{') {
      most = std::max(most, ++open);
    } else if (text[i] == ']' || text[i] == '}') {
      --open;
    }
  }
  return most;
}

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// Looks in [first, last), the inside of a multi-line string, for a non-ASCII character directly behind a line-ending
// backslash and the space after it.
std::size_t odd_continuation(std::string_view text, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i + 1 < last; ++i) {
    if (text[i] != '\\') continue;
    std::size_t next = i + 1;
    while (next < last && is_space(text[next])) ++next;
    if (next > i + 1 && next < last && !is_ascii(text[next])) return next;
    if (next == i + 1) ++i;  // the backslash escapes the next character
  }
  return text.size();
}

// The first non-ASCII character where TOML allows none; the text's size when there is none. For most such characters
// toml++ 3.3 has undefined behaviour when it tests for a space (is_non_ascii_horizontal_whitespace).
std::size_t first_odd_letter(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  char before = '\n';  // the last character that is not a space
  for (std::size_t i = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0; i < text.size();) {
    const bool begins = std::string_view("\n=[{,.").find(before) != std::string_view::npos;
    if (!is_space(text[i]) || text[i] == '\n') before = text[i];
    // Within a number or word, a quote begins no string: the parser reads on.
    if (begins && (text[i] == '"' || text[i] == '\'')) {
      const std::size_t end = behind_string(text, i);
      const std::size_t odd = text.substr(i, 3) == "\"\"\"" ? odd_continuation(text, i + 3, end) : text.size();
      if (odd < text.size()) return odd;
      i = end;
    } else if (text[i] == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (!is_ascii(text[i])) {
      return i;
    } else {
      ++i;
    }
  }
  return text.size();
}

}  // namespace

void require_shallow_toml(std::string_view text, const std::string& origin) {
  if (static_cast<Index>(text.size()) > kMostTomlBytes)
    throw ConfigError(origin + ": has " + std::to_string(text.size()) + " bytes; a configuration has at most " +
                      std::to_string(kMostTomlBytes));
  if (toml_nesting(text) > kMostNesting)
    throw ConfigError(origin + ": lists, tables or dotted keys are nested more than " + std::to_string(kMostNesting) +
                      " deep; no key wants that");
  if (const std::size_t odd = first_odd_letter(text); odd < text.size())
    throw ConfigError(
        origin + ":" + std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<Index>(odd), '\n')) +
        ": a character that is not ASCII outside of quotes and comments; is it a space or a quote of another kind?");
}

void require_shallow_json(std::string_view text, const std::string& origin) {
  if (json_nesting(text) > kMostNesting)
    throw DataError(origin + ": is nested more than " + std::to_string(kMostNesting) +
                    " deep, which mrmf never writes; is the file damaged?");
}

namespace {

[[noreturn]] void cannot_open(const std::string& path, int reason) {
  if (reason == ENOENT) {
    if (const std::string advice = advice_on_name(path); !advice.empty())
      throw DataError(path + ": no such file: " + advice);
    const bool relative = std::filesystem::path(path).is_relative();
    std::error_code gone;
    throw DataError(path + ": no such file" +
                    (relative ? " (looked from " + std::filesystem::current_path(gone).string() + ")" : "") +
                    "; check the path");
  }
  if (reason == EACCES) throw DataError(path + ": permission denied; make it readable for this user");
  if (reason == ENXIO) throw DataError(path + ": is a socket or a device, not a file");
  const bool descriptors = reason == EMFILE || reason == ENFILE;
  throw DataError(path + ": cannot be opened: " + std::strerror(reason) +
                  (descriptors ? "; raise `ulimit -n`, or use more ranks" : ""));
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO (named pipe)";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

// Without O_NONBLOCK, opening a FIFO waits for its writer.
InputFile::InputFile(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (!file_) cannot_open(path, errno);
  struct stat facts {};
  const bool known = ::fstat(number(), &facts) == 0;
  bytes_ = facts.st_size;
  if (known && S_ISREG(facts.st_mode)) return;
  throw DataError(path + ": is " + (known ? kind_of(facts.st_mode) : "unreadable") + ", not a file");
}

InputFile::InputFile(FileDescriptor file) : file_(std::move(file)) {
  struct stat facts {};
  if (::fstat(number(), &facts) == 0) bytes_ = facts.st_size;
}

bool is_there(const std::string& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) throw DataError(path + ": cannot be looked for (" + error.message() + "); ask its owner for access");
  return there;
}

bool is_hdf5(const std::string& path) {
  constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
  const InputFile file(path);
  std::array<char, signature.size()> start{};
  const ssize_t got = ::pread(file.number(), start.data(), start.size(), 0);
  return got == std::ssize(start) && signature == std::string_view(start.data(), start.size());
}

std::string read_file(const std::string& path, Index most) {
  const InputFile file(path);
  const auto too_large = [&](Index bytes) {
    if (bytes > most)
      throw DataError(path + ": is larger than the " + std::to_string(most) + " bytes that such a file may have");
  };
  too_large(file.bytes());
  // Files in /proc report a size of 0, and a file may grow while it is read.
  constexpr Index room = 4096;
  std::string text;
  Index done = 0;
  for (Index wanted = file.bytes() + 1;; wanted = std::max(file.bytes() + 1, done + room)) {
    text.resize(static_cast<std::size_t>(wanted));
    const auto left = static_cast<std::size_t>(std::min(wanted - done, kMostReadBytes));
    const ssize_t got = ::read(file.number(), text.data() + done, left);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError(path + ": cannot be read: " + std::strerror(errno) + "; copy it or make it again");
    if (got == 0) break;
    done += got;
    too_large(done);
  }
  text.resize(static_cast<std::size_t>(done));
  return text;
}

std::optional<FileIdentity> file_identity(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return FileIdentity{found.st_dev, found.st_ino};
}

namespace {

FileState state_of(const struct stat& found) {
  const auto nanoseconds = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + std::int64_t{time.tv_nsec};
  };
  return {{found.st_dev, found.st_ino}, found.st_size, nanoseconds(found.st_mtim), nanoseconds(found.st_ctim)};
}

}  // namespace

std::optional<FileState> file_state(int descriptor) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) return {};
  return state_of(found);
}

std::optional<FileState> file_state(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return state_of(found);
}

namespace {

constexpr std::uint64_t kDigits = 16, kPiece = 1 << 20;  // bytes that are read at once

std::string digits(std::uint64_t number) { return fmt::format("{:016x}", number); }

// Where an HDF5 file ends according to its superblock, which has 8-byte offsets. 0: there is no such superblock.
std::uint64_t stated_end(const std::string& head) {
  constexpr char signature[] = "\211HDF\r\n\032\n";
  if (head.size() < 64 || head.compare(0, 8, signature, 8) != 0) return 0;
  const auto version = static_cast<unsigned char>(head[8]);
  const std::size_t at = version == 0 ? 40 : version == 1 ? 44 : 28;
  std::uint64_t end = 0;
  for (std::size_t i = 8; i-- > 0;) end = end << 8 | static_cast<unsigned char>(head[at + i]);
  return end;
}

std::string read_piece(const InputFile& file, const std::string& path, std::uint64_t offset, std::size_t count) {
  std::string piece(count, '\0');
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = ::pread(file.number(), piece.data() + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw DataError(path + ": cannot be read" + (got < 0 ? std::string(": ") + std::strerror(errno) : "") +
                      "; copy it again, or restore it");
    done += static_cast<std::size_t>(got);
  }
  return piece;
}

}  // namespace

// HDF5 writes the beginning of its files last, so the bytes are read back: they are still in the system's memory.
void append_checksum(OutputFile& file, std::uint64_t bytes) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  std::vector<std::byte> piece(std::min(kPiece, bytes));
  for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
    piece.resize(std::min(kPiece, bytes - done));
    file.read(done, piece);
    XXH3_64bits_update(&state, piece.data(), piece.size());
  }
  const std::string end = digits(XXH3_64bits_digest(&state));
  file.write(bytes, std::as_bytes(std::span(end)));
}

Checksum verify(const std::string& path) {
  const InputFile file(path);
  const auto size = static_cast<std::uint64_t>(file.bytes()), before = size - std::min(size, kDigits);
  const auto read = [&](std::uint64_t offset, std::size_t count) { return read_piece(file, path, offset, count); };
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (std::uint64_t done = 0; done < before; done += kPiece) {
    const std::string piece = read(done, std::min(kPiece, before - done));
    XXH3_64bits_update(&state, piece.data(), piece.size());
  }
  const std::string end = read(before, size - before);
  if (end == digits(XXH3_64bits_digest(&state))) return Checksum::right;
  // The end that the superblock states may itself be what has changed, by just these digits.
  const bool digits_there = end.find_first_not_of("0123456789abcdef") == std::string::npos;
  const bool whole = size > 0 && stated_end(read(0, std::min<std::uint64_t>(size, 64))) == size;
  return whole && !digits_there ? Checksum::missing : Checksum::wrong;
}

std::string checksum_at_end(const std::string& path) {
  const InputFile file(path);
  const auto size = static_cast<std::uint64_t>(file.bytes());
  const std::uint64_t count = std::min(size, kDigits);
  return read_piece(file, path, size - count, count);
}

}  // namespace mrmf
