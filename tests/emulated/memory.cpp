#include "tests/emulated/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace mrmf::emulated {

namespace {

// A change of protection costs by the page, and there are thousands of them in a test: huge pages make it 512 times
// cheaper, where the system grants them.
constexpr std::size_t kPage = std::size_t{2} << 20;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes, bool always_open)
    : total_(bytes), reserved_(whole_pages(bytes + bytes / 2 + (std::size_t{64} << 20))) {
  if (always_open) opened_ = 1;
  const int access = always_open ? PROT_READ | PROT_WRITE : PROT_NONE;
  mapped_ = mmap(nullptr, reserved_ + kPage, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped_ == MAP_FAILED) throw std::bad_alloc();
  void* start = mapped_;
  std::size_t space = reserved_ + kPage;
  base_ = static_cast<char*>(std::align(kPage, reserved_, start, space));
  madvise(base_, reserved_, MADV_HUGEPAGE);
}

DeviceMemory::~DeviceMemory() { munmap(mapped_, reserved_ + kPage); }

std::size_t DeviceMemory::footprint(std::size_t bytes) const {
  return (bytes + kAlignment + kAlignment - 1) / kAlignment * kAlignment;
}

/// The first gap between allocations that is large enough, or `reserved_`.
std::size_t DeviceMemory::find_room(std::size_t bytes) const {
  std::size_t start = 0;
  for (const auto& [offset, size] : allocations_) {
    if (start + footprint(bytes) <= offset) return start;
    start = offset + footprint(size);
  }
  return start + footprint(bytes) <= reserved_ ? start : reserved_;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > total_ - used_) return nullptr;
  const std::size_t offset = find_room(bytes);
  if (offset == reserved_) return nullptr;
  touched_ = std::max(touched_, offset + footprint(bytes));
  open();
  std::memset(base_ + offset, 0xff, footprint(bytes));
  close();
  allocations_[offset] = bytes;
  used_ += bytes;
  return base_ + offset;
}

bool DeviceMemory::free(void* pointer) {
  if (!owns(pointer)) return false;
  const auto at = allocations_.find(static_cast<std::size_t>(static_cast<char*>(pointer) - base_));
  if (at == allocations_.end()) return false;
  open();
  std::memset(pointer, 0xff, at->second);
  close();
  used_ -= at->second;
  allocations_.erase(at);
  return true;
}

bool DeviceMemory::owns(const void* pointer) const {
  const char* at = static_cast<const char*>(pointer);
  return at >= base_ && at < base_ + reserved_;
}

std::size_t DeviceMemory::reach(const void* pointer) const {
  if (!owns(pointer)) return 0;
  const auto at = static_cast<std::size_t>(static_cast<const char*>(pointer) - base_);
  auto next = allocations_.upper_bound(at);
  if (next == allocations_.begin()) return 0;
  --next;
  return at < next->first + next->second ? next->first + next->second - at : 0;
}

void DeviceMemory::open() {
  if (opened_++ == 0 && touched_) mprotect(base_, whole_pages(touched_), PROT_READ | PROT_WRITE);
}

void DeviceMemory::close() {
  if (--opened_ == 0 && touched_) mprotect(base_, whole_pages(touched_), PROT_NONE);
}

std::string DeviceMemory::damage() const {
  for (const auto& [offset, bytes] : allocations_) {
    const char* begin = base_ + offset + bytes;
    const char* end = base_ + offset + footprint(bytes);
    const char* bad = std::find_if(begin, end, [](char c) { return c != '\xff'; });
    if (bad != end)
      return "a write " + std::to_string(bad - begin) + " bytes behind the end of an allocation of " +
             std::to_string(bytes) + " bytes";
  }
  return "";
}

void* PinnedMemory::allocate(std::size_t bytes) {
  void* memory = std::aligned_alloc(4096, (std::max<std::size_t>(bytes, 1) + 4095) / 4096 * 4096);
  if (memory) add(memory, bytes);
  return memory;
}

bool PinnedMemory::free(void* pointer) {
  if (!remove(pointer)) return false;
  std::free(pointer);
  return true;
}

bool PinnedMemory::owns(const void* pointer) const {
  const char* at = static_cast<const char*>(pointer);
  auto next = ranges_.upper_bound(at);
  if (next == ranges_.begin()) return false;
  --next;
  return at < next->first + next->second;
}

}  // namespace mrmf::emulated
