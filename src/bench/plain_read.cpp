#include "src/bench/plain_read.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "io/input_file.hpp"

namespace mrmf {
namespace {

constexpr std::size_t block = std::size_t{1} << 23;

std::size_t size_of(const Descriptor& file) {
  struct stat facts {};
  return ::fstat(file.number(), &facts) == 0 ? static_cast<std::size_t>(facts.st_size) : 0;
}

/// The share of the file's pages that the operating system has in memory; 1 where it does not say.
double share_in_memory(const Descriptor& file) {
  const std::size_t size = size_of(file), page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (size == 0) return 0;
  const auto unmap = [size](void* mapped) { ::munmap(mapped, size); };
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (at == MAP_FAILED) return 1;
  const std::unique_ptr<void, decltype(unmap)> mapped(at, unmap);
  std::vector<unsigned char> pages((size + page - 1) / page);
  if (::mincore(at, size, pages.data()) != 0) return 1;
  const auto there = std::ranges::count_if(pages, [](unsigned char p) { return (p & 1U) != 0; });
  return static_cast<double>(there) / static_cast<double>(pages.size());
}

}  // namespace

double drop_from_memory(const std::string& path) {
  const Descriptor file(path);
  ::fdatasync(file.number());  // what was not written yet cannot be dropped
  ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_DONTNEED);
  return share_in_memory(file);
}

void read_plainly(const std::string& path, Range bytes) {
  const Descriptor file(path);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(block);
  ::lseek(file.number(), static_cast<off_t>(bytes.first), SEEK_SET);
  for (auto left = static_cast<std::size_t>(bytes.count); left > 0;) {
    const ssize_t got = ::read(file.number(), buffer.get(), std::min(left, block));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw DataError(path + ": cannot be read: " + (got == 0 ? "it ends too early" : std::strerror(errno)) +
                      "; copy it or make it again");
    left -= static_cast<std::size_t>(got);
  }
}

}  // namespace mrmf
