#pragma once
#include <cstddef>
#include <map>
#include <string>

namespace mrmf::emulated {

/// Memory of one device. It is PROT_NONE unless opened (or always open), so that host code cannot touch it. New and
/// freed memory holds NaN bytes (0xff). Behind every allocation lies a red zone of NaN bytes: reads there give NaN,
/// writes are found.
class DeviceMemory {
 public:
  DeviceMemory(std::size_t bytes, bool always_open);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* allocate(std::size_t bytes);  ///< null when there is no room
  bool free(void* pointer);           ///< false when `pointer` is not the start of an allocation
  bool owns(const void* pointer) const;
  /// Bytes from `pointer` to the end of its allocation; 0 outside of allocations.
  std::size_t reach(const void* pointer) const;
  std::size_t total() const { return total_; }
  std::size_t used() const { return used_; }

  void open();
  void close();
  /// Names the allocation whose red zone was written to; empty when all are whole. Needs open memory.
  std::string damage() const;

 private:
  static constexpr std::size_t kAlignment = 512;
  std::size_t footprint(std::size_t bytes) const;
  std::size_t find_room(std::size_t bytes) const;

  std::size_t total_, reserved_, used_ = 0, touched_ = 0;
  void* mapped_ = nullptr;
  char* base_ = nullptr;  // in what is mapped, on a huge page's boundary
  int opened_ = 0;
  std::map<std::size_t, std::size_t> allocations_;  // offset to bytes asked for
};

/// Pinned host memory: plain memory that is remembered.
class PinnedMemory {
 public:
  void* allocate(std::size_t bytes);
  bool free(void* pointer);
  void add(void* pointer, std::size_t bytes) { ranges_[static_cast<char*>(pointer)] = bytes; }
  bool remove(void* pointer) { return ranges_.erase(static_cast<char*>(pointer)) > 0; }
  bool owns(const void* pointer) const;

 private:
  std::map<const char*, std::size_t> ranges_;
};

}  // namespace mrmf::emulated
