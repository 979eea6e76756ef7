#include "tests/emulated/nccl_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace mrmf::emulated::nccl {
namespace {

constexpr std::size_t pages(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
constexpr std::size_t kSlots = pages(sizeof(Slot) * kMaxRanks);

}  // namespace

Segment::Segment(const std::string& name, int ranks)
    : name_(name),
      ranks_(static_cast<std::size_t>(ranks)),
      bytes_(kSlots + kChunk * ranks_ + pages(sizeof(Pair) * ranks_ * ranks_) + kMessageChunk * ranks_ * ranks_) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0)
    throw std::runtime_error("no shared memory for " + name);
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory_ == MAP_FAILED) throw std::runtime_error("shared memory of " + name + " cannot be mapped");
}

Segment::~Segment() {
  unlink();
  munmap(memory_, bytes_);
}

char* Segment::chunk(int rank) const {
  return static_cast<char*>(memory_) + kSlots + kChunk * static_cast<std::size_t>(rank);
}

std::size_t Segment::number(int from, int to) const {
  return static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to);
}

Pair& Segment::pair(int from, int to) const {
  return reinterpret_cast<Pair*>(static_cast<char*>(memory_) + kSlots + kChunk * ranks_)[number(from, to)];
}

char* Segment::chunk(int from, int to) const {
  return static_cast<char*>(memory_) + kSlots + kChunk * ranks_ + pages(sizeof(Pair) * ranks_ * ranks_) +
         kMessageChunk * number(from, to);
}

void Segment::unlink() {
  if (name_.empty()) return;
  shm_unlink(name_.c_str());
  name_.clear();
}

bool is_dead(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  const auto end = line.rfind(')');  // the name before it may hold anything
  return end == std::string::npos || end + 2 >= line.size() || line[end + 2] == 'Z' || line[end + 2] == 'X';
}

}  // namespace mrmf::emulated::nccl
