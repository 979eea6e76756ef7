#include "io/files/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
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
