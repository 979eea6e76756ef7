#include "kernels/host/shared_arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

namespace mrmf::host {
namespace {

class File {
 public:
  explicit File(int number) : number_(number) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

std::string new_name() {
  std::random_device random;
  std::string name = "mrmf";
  for (int i = 0; i < 4; ++i) name += "-" + std::to_string(random());
  return name;
}

}  // namespace

Arena allocate_shared(Backend& backend, Index count) {
  const auto floats = static_cast<std::size_t>(count);
  const std::size_t bytes = std::max<std::size_t>(floats, 1) * sizeof(float);
  File file(::memfd_create(new_name().c_str(), MFD_CLOEXEC));
  // fallocate takes the pages now: without them, a full memory would be a signal where they are first written.
  if (file.number() < 0 || ::fallocate(file.number(), 0, 0, static_cast<off_t>(bytes)) != 0)
    return backend.allocate(count);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) return backend.allocate(count);
  const int number = file.release();
  const auto free = [bytes, number](float* data) {
    ::munmap(data, bytes);
    ::close(number);
  };
  return {static_cast<float*>(memory), floats, free, number};
}

}  // namespace mrmf::host
