#include "kernels/cpu/arena.hpp"

#include <fcntl.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>

#include "kernels/file_descriptor.hpp"

namespace mrmf::cpu {
namespace {

std::string new_name() {
  std::random_device random;
  std::string name = "mrmf";
  for (int i = 0; i < 4; ++i) name += "-" + std::to_string(random());
  return name;
}

// All at once: without them, a full memory would be a signal where they are first written.
bool take_pages(const FileDescriptor& file, std::size_t bytes) {
  while (::fallocate(file.number(), 0, 0, static_cast<off_t>(bytes)) != 0)
    if (errno != EINTR) return false;
  return true;
}

// Large arenas are read from end to end in every step. In pages of 4 KB the processor would look up a page's address as
// often as it reads 64 of its lines.
constexpr std::size_t huge_page = std::size_t{2} << 20, huge_from = huge_page / 2;

/// Floats that nobody has written yet.
Arena take_memory(Index count) {
  const auto floats = static_cast<std::size_t>(count);
  const std::size_t alignment = floats * sizeof(float) < huge_from ? 64 : huge_page;
  const std::size_t bytes = (floats * sizeof(float) + alignment - 1) / alignment * alignment;
  auto* data = static_cast<float*>(std::aligned_alloc(alignment, std::max(bytes, alignment)));
  if (data == nullptr) throw std::bad_alloc();
  // Where the system leaves it to programs. What it says is no matter: the memory serves in small pages, too.
  if (alignment == huge_page) ::madvise(data, bytes, MADV_HUGEPAGE);
  return {data, floats, +[](float* p) { std::free(p); }};
}

}  // namespace

Arena make_arena(Index count) {
  Arena arena = take_memory(count);
  float* const data = arena.span().data();
  // The thread that first writes a page decides which memory it lies in: share the pages out as the loops do.
#pragma omp parallel for schedule(static)
  for (Index i = 0; i < count; ++i) data[i] = 0.0F;
  return arena;
}

void Workspace::reserve(Index common, Index of_thread) {
  if (common > std::ssize(common_.span())) common_ = make_arena(common);
  if (of_thread <= std::ssize(of_threads_.front().memory.span())) return;
  std::vector<Arena> more;  // all or none, should there be no memory
  while (more.size() < of_threads_.size()) more.push_back(take_memory(of_thread));
  for (std::size_t t = 0; t < more.size(); ++t) of_threads_[t].memory = std::move(more[t]), of_threads_[t].form.clear();
  const int threads_now = threads();
#pragma omp parallel for schedule(static, 1) num_threads(threads_now)
  for (std::size_t t = 0; t < of_threads_.size(); ++t) std::ranges::fill(of_threads_[t].memory.span(), 0.0F);
}

float* Workspace::of_thread(int thread, Index floats, const std::vector<Index>& form) {
  OfThread& of = of_threads_[static_cast<std::size_t>(thread)];
  if (of.form != form) {
    std::fill_n(of.memory.span().data(), floats, 0.0F);
    of.form = form;
  }
  return of.memory.span().data();
}

namespace {

/// Bytes of the last cache that this process may count on. Others use it, too: a virtual machine of two cores is told
/// of all of a processor's, which has 1.5 to 5 MB for each core.
long last_cache() {
  constexpr long usual = 32L << 20, of_core = 3L << 20;
  const long size = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::min(size > 0 ? size : usual, omp_get_num_procs() * of_core);  // of the process, however threads are bound
}

}  // namespace

bool exceeds_caches(ConstSpan values) {
  static const long last = last_cache();  // asked for in every step of every layer
  const auto address = reinterpret_cast<std::uintptr_t>(values.data());
  return address % 64 == 0 && std::ssize(values) > last / static_cast<long>(sizeof(float));
}

bool streams(const Tensor& written) {
  return written.shape.channels % 16 == 0 && written.stride() == written.shape.channels && exceeds_caches(written.data);
}

Arena allocate_shared(Backend& backend, Index count) {
  const auto floats = static_cast<std::size_t>(count);
  const std::size_t bytes = std::max<std::size_t>(floats, 1) * sizeof(float);
  FileDescriptor file(::memfd_create(new_name().c_str(), MFD_CLOEXEC));
  if (!file || !take_pages(file, bytes)) return backend.allocate(count);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) return backend.allocate(count);
  const int number = file.number();
  const auto owner = std::make_shared<FileDescriptor>(std::move(file));
  return {static_cast<float*>(memory), floats, [bytes, owner](float* data) { ::munmap(data, bytes); }, number};
}

}  // namespace mrmf::cpu
