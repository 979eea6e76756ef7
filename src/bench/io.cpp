// `mrmf bench io`, and the plain reading from front to back that it compares the loader with.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "src/bench/bench.hpp"
#include "src/data/data.hpp"
#include "src/plan/plan.hpp"
#include "src/system/host_info.hpp"
#include "src/training/data_and_spatial_parallel.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 23;

std::size_t size_of(const InputFile& file) {
  struct stat facts {};
  return ::fstat(file.number(), &facts) == 0 ? static_cast<std::size_t>(facts.st_size) : 0;
}

/// The share of the file's pages that the operating system has in memory; 1 when it does not tell.
double share_in_memory(const InputFile& file) {
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

/// Asks the operating system to forget its copy of the file; returns the share that it still keeps (0 to 1). It keeps
/// pages that others use, and files of in-memory file systems. DataError when the file cannot be opened.
double drop_from_memory(const std::string& path) {
  const InputFile file(path);
  ::fdatasync(file.number());  // unwritten pages cannot be dropped
  ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_DONTNEED);
  return share_in_memory(file);
}

/// Reads bytes [first, first + count) of the file with read(2), in large blocks into the same buffer. DataError when
/// they cannot be read.
void read_plainly(const std::string& path, Range bytes) {
  const InputFile file(path);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kReadBytes);
  ::lseek(file.number(), static_cast<off_t>(bytes.first), SEEK_SET);
  for (auto left = static_cast<std::size_t>(bytes.count); left > 0;) {
    const ssize_t got = ::read(file.number(), buffer.get(), std::min(left, kReadBytes));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw DataError(path + ": cannot be read: " + (got == 0 ? "it ends too early" : std::strerror(errno)) +
                      "; copy it or make it again");
    left -= static_cast<std::size_t>(got);
  }
}

constexpr double kGiga = 1e9;

/// The longest time of any rank. All ranks begin together and fail together.
template <typename Action>
double slowest(Comm& world, Action&& action) {
  world.barrier();
  const Timer timer;
  double seconds = 0;
  collective_try(world, [&] {
    action();
    seconds = timer.seconds();
  });
  return world.max(seconds);
}

/// The files as a plain reader sees them.
class PlainFiles {
 public:
  explicit PlainFiles(const std::vector<std::string>& files) : files_(files) {
    for (const std::string& file : files) {
      std::error_code error;
      sizes_.push_back(static_cast<Index>(std::filesystem::file_size(file, error)));
      if (error) throw DataError(file + ": cannot be read: " + error.message());
      total_ += sizes_.back();
    }
  }
  Index total() const { return total_; }

  /// Returns the largest share of a file that stayed in memory.
  double drop() const {
    double left = 0;
    for (const std::string& file : files_) left = std::max(left, drop_from_memory(file));
    return left;
  }
  /// Reads this rank's part of all bytes.
  void read(const Comm& world) const {
    const Range mine = piece(total_, world.rank(), world.size());
    Index start = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const Index first = std::max(mine.first, start), end = std::min(mine.first + mine.count, start + sizes_[i]);
      if (first < end) read_plainly(files_[i], {first - start, end - first});
      start += sizes_[i];
    }
  }

 private:
  std::vector<std::string> files_;
  std::vector<Index> sizes_;
  Index total_ = 0;
};

/// The training samples, loaded as in training: of a grid, each rank's block of them.
class Loader {
 public:
  Loader(const Config& config, Comm& world) : seed_(config.training.seed), step_(make_plan(config).last) {
    shape_ = inspect_dataset(config.data.train, world);
    Config resolved = config;
    resolve_axes(resolved.model.layers, shape_.sample.axes);
    const auto backend = make_reference_backend();
    std::optional<StageGrids> grids;
    if (product(step_.grid) > 1) grids.emplace(*backend, resolved, make_plan(resolved), shape_.sample, world);
    const DataShare share = grids ? grids->share(step_.resolution) : DataShare{world};
    if (reads_blocks(config.data)) shape_.block = share.block;
    if (config.training.loss.task() == Task::classes) resolve_labels(resolved, shape_, {step_.resolution});
    const DatasetSpec& spec = resolved.data.train;
    order_ = order_settings(config.data, shape_.samples, share.team.size(), share.team.rank());
    order_.batch = step_.batch;
    check(order_);
    DataConfig streamed = config.data;
    streamed.load = LoadRule::stream;
    const int groups = share.team.size();
    const MemoryBudget memory = budget_memory(streamed, {{shape_, order_, {{step_.resolution, step_.batch}}}}, world,
                                              ranks_of_same(host_name(), world).size(), world.size() / groups);
    store_ = std::make_unique<SampleStore>(spec, shape_, visited_rows(order_), share.team, memory.stores.front());
    store_->make_ready(step_.resolution, step_.batch);
    batch_ = store_->sample(step_.resolution).with_rows(step_.batch);
    x_.resize(static_cast<std::size_t>(batch_.count()));
    outputs_ = store_->target(step_.resolution).per_sample();
    targets_.resize(static_cast<std::size_t>(step_.batch * outputs_));
    const Index positions = product(shape_.read_sample().spatial);
    const double read =
        world.sum(static_cast<double>(positions)) / groups / static_cast<double>(product(shape_.sample.spatial));
    const auto first = RowSources(spec, shape_, spec.sample_names()).open(0);
    for (const auto& rows : *first) bytes_ += read * static_cast<double>(shape_.samples * rows->row_bytes());
    const std::string blocks =
        grids ? fmt::format("; run.grid = {}: with the positions beside the blocks, {:.1f} % more are read",
                            resolution_text(step_.grid, shape_.sample.axes), 100 * (read - 1))
              : "";
    text_ = fmt::format("{} samples of {}, {:.3g} GB as {}; batch {}, resolution {}{}\n{}; {}\n", shape_.samples,
                        to_string(shape_.sample), bytes_ / kGiga, to_string(shape_.type), step_.batch,
                        resolution_text(step_.resolution, shape_.sample.axes), blocks, memory.text, store_->way());
  }

  double bytes() const { return bytes_; }  ///< bytes of all ranks' samples, unpacked
  const std::string& text() const { return text_; }

  void epoch(std::uint64_t number) {
    const EpochOrder order = epoch_order(order_, seed_, 0, number);
    store_->expect(step_.resolution, order);
    for (const Range& rows : order.steps) {
      const auto ids =
          std::span(order.ids).subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
      const Shape batch = batch_.with_rows(rows.count);
      store_->gather(step_.resolution, ids, {batch, Span(x_).first(static_cast<std::size_t>(batch.count()))},
                     {Shape{.n = rows.count, .channels = outputs_},
                      Span(targets_).first(static_cast<std::size_t>(rows.count * outputs_))});
    }
  }

 private:
  std::uint64_t seed_;
  Phase step_;
  DatasetShape shape_;
  Index outputs_ = 0;  // numbers of a sample's targets
  OrderSettings order_;
  std::unique_ptr<SampleStore> store_;
  Shape batch_;
  std::vector<float> x_, targets_;
  double bytes_ = 0;
  std::string text_;
};

/// GB/s of each round.
struct Speeds {
  std::vector<double> plain_cold, plain_warm, loader_cold, loader_warm;
  double left_in_memory = 0;  // when the cache should have been cold
  double file_bytes = 0, sample_bytes = 0;
};

std::string line(const char* what, double plain, double loader) {
  return fmt::format("{:<16} {:>10.2f} {:>10.2f} {:>9.0f} %\n", what, plain, loader, 100 * loader / plain);
}

}  // namespace

void bench_io(const BenchIo& bench, Comm& world, std::ostream& out) {
  Speeds speeds;
  std::string text;
  for (int round = 0; round < bench.rounds; ++round) {
    Loader loader(bench.config, world);
    const PlainFiles files(bench.config.data.train.files);
    const auto drop = [&] {
      slowest(world, [&] { speeds.left_in_memory = std::max(speeds.left_in_memory, files.drop()); });
    };
    const auto plain = [&] {
      return static_cast<double>(files.total()) / kGiga / slowest(world, [&] { files.read(world); });
    };
    const auto loaded = [&](std::uint64_t epoch) {
      return loader.bytes() / kGiga / slowest(world, [&] { loader.epoch(epoch); });
    };
    drop();
    speeds.plain_cold.push_back(plain());
    drop();
    speeds.loader_cold.push_back(loaded(0));
    plain();  // reads everything, including what the loader left to the operating system
    speeds.plain_warm.push_back(plain());
    speeds.loader_warm.push_back(loaded(1));
    text = loader.text();
    speeds.file_bytes = static_cast<double>(files.total());
    speeds.sample_bytes = loader.bytes();
  }
  const double left = world.max(speeds.left_in_memory);
  if (!world.root()) return;
  const double plain_cold = median(speeds.plain_cold), loader_cold = median(speeds.loader_cold);
  const double plain_warm = median(speeds.plain_warm), loader_warm = median(speeds.loader_warm);
  out << text << fmt::format("{:<16} {:>10} {:>10} {:>11}\n", "GB/s", "read(2)", "loader", "ratio");
  out << line("from the disk", plain_cold, loader_cold) << line("second epoch", plain_warm, loader_warm);
  out << fmt::format(
      "read(2) counts all of the files, {:.3g} GB; the loader its samples as they are unpacked, {:.3g} GB\n",
      speeds.file_bytes / kGiga, speeds.sample_bytes / kGiga);
  out << fmt::format("before \"from the disk\" at most {:.0f} % of a file was still in the operating system's memory\n",
                     100 * left);
  const std::string json = fmt::format(
      "{{\"read_cold\": {:.4f}, \"loader_cold\": {:.4f}, \"read_warm\": {:.4f}, \"loader_warm\": {:.4f}, "
      "\"left_in_memory\": {:.3f}, \"file_bytes\": {:.0f}, \"sample_bytes\": {:.0f}, \"ranks\": {}, \"rounds\": {}}}\n",
      plain_cold, loader_cold, plain_warm, loader_warm, left, speeds.file_bytes, speeds.sample_bytes, world.size(),
      bench.rounds);
  out << json;
  bench.json.write(json);
}

}  // namespace mrmf
