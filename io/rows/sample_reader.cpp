#include "io/rows/sample_reader.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "io/rows/not_finite.hpp"
#include "kernels/errors.hpp"
#include "mpi/cores.hpp"

namespace mrmf {
namespace {

/// The rows in both ranges.
Range common(Range a, Range b) {
  const Index begin = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return {begin, std::max<Index>(end - begin, 0)};
}

/// Bytes of unpacked chunks in each open data set.
Index cached_by_each(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most) {
  const Index sources = std::ssize(spec.sample_names());
  return most / std::max<Index>(1, open_files(shape, owned, sources) * sources);
}

}  // namespace

Index open_files(const DatasetShape& shape, Range rows, Index sources) {
  Index files = 0, first = 0;
  for (const Index samples : shape.file_samples) {
    if (common({first, samples}, rows).count > 0) ++files;
    first += samples;
  }
  return std::min(files, std::max<Index>(1, static_cast<Index>(most_open_files()) / sources));
}

SampleFiles::SampleFiles(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most_cached)
    : type_(shape.type),
      sample_(shape.read_sample()),
      whole_(shape.sample.spatial),
      block_(shape.block),
      row_bytes_(sample_.per_sample() * size_of(shape.type)),
      order_(parse_axes(spec.axes)),
      stored_(shape),
      missing_(spec.missing),
      not_finite_(spec.not_finite),
      mask_(spec.mask),
      rows_(spec, &shape, spec.sample_names(), {0, cached_by_each(spec, shape, owned, most_cached)}),
      files_(static_cast<std::size_t>(open_files(shape, owned, std::ssize(spec.sample_names()))),
             [this](std::size_t number) { return open(number); }) {
  MRMF_CHECK(shape.file_samples.size() == spec.files.size(), "the shape is not of these files");
  Range samples;
  Index left = open_files(shape, owned, std::ssize(rows_.names()));  // others are opened when they are read
  for (std::size_t i = 0; i < spec.files.size() && left > 0; ++i) {
    samples = {samples.first + samples.count, shape.file_samples[i]};
    if (common(samples, owned).count == 0) continue;
    --left;
    for (const Source& source : files_.at(i)->sources) {
      const ReadPath& one = source.rows.way();
      way_.direct = (way_.text.empty() || way_.direct) && one.direct;
      if (way_.text.find(one.text) == std::string::npos) way_.text += (way_.text.empty() ? "" : ", ") + one.text;
    }
  }
}

std::shared_ptr<const SampleFiles::File> SampleFiles::open(std::size_t number) const {
  File file{rows_.open(number), {}};
  Index channels = 0;
  const auto require = [&](bool same) {
    if (!same)
      throw DataError(file.open->front()->where() +
                      " changed while it was being opened; start again when nothing writes to it");
  };
  for (const auto& rows : *file.open) {
    const Index elements = rows->row_bytes() / size_of(rows->type()), positions = product(whole_);
    const Index own = elements / positions;
    require(rows->shape().front() == stored_.rows_of_file(number) && own * positions == elements);
    if (missing_ == MissingRule::refuse) rows->require_written();  // as this rank sees it
    file.sources.push_back({*rows, own, channels});
    channels += own;
  }
  require(channels + (mask_ ? 1 : 0) == sample_.channels);
  return std::make_shared<const File>(std::move(file));
}

// Positions in the axes of the file, where the channels have a place of their own or none.
RowBox SampleFiles::box_of(const RowSource& rows, const Box& positions) const {
  const auto axes = rows.shape().size() - 1;
  const std::size_t channel =
      order_.given() ? (order_.channel < 0 ? axes : static_cast<std::size_t>(order_.channel)) : axes - 1;
  RowBox box;
  std::size_t spatial = 3 - static_cast<std::size_t>(sample_.axes);
  for (std::size_t a = 0; a < axes; ++a) {
    box.first.push_back(a == channel ? 0 : positions.first.at(spatial));
    box.count.push_back(a == channel ? rows.shape()[a + 1] : positions.count.at(spatial));
    spatial += a == channel ? 0 : 1;
  }
  return box;
}

void SampleFiles::read(Range samples, std::byte* to, Scratch& scratch) const {
  stored_.for_each_run(samples, [&](const RowRun& run) {
    read_run(*files_.at(run.file), {run.rows, sample_, block_}, to, scratch);
    to += run.rows.count * row_bytes_;
  });
}

void SampleFiles::read_box(Index sample, const Box& box, std::byte* to, Scratch& scratch) const {
  const RowRun run = stored_.at(sample);
  Shape part = sample_;
  part.spatial = box.count;
  read_run(*files_.at(run.file), {run.rows, part, box}, to, scratch);
}

void SampleFiles::join_sources(const File& file, const ReadPart& rows, std::byte* to, Scratch& scratch) const {
  const Index positions = rows.positions(), bytes = size_of(type_);
  for (const Source& source : file.sources) {
    const auto width = static_cast<std::size_t>(source.channels * bytes);
    scratch.source.resize(static_cast<std::size_t>(positions) * width);
    read_source(source, rows, scratch.source.data(), scratch);
    for (Index p = 0; p < positions; ++p)
      std::memcpy(to + (p * sample_.channels + source.first_channel) * bytes,
                  scratch.source.data() + static_cast<std::size_t>(p) * width, width);
  }
}

void SampleFiles::read_run(const File& file, const ReadPart& rows, std::byte* to, Scratch& scratch) const {
  if (file.sources.size() == 1 && !mask_)
    read_source(file.sources.front(), rows, to, scratch);
  else
    join_sources(file, rows, to, scratch);
  const Index width = rows.sample.per_sample(), elements = rows.range.count * width;
  if (mask_) write_mask(type_, to, rows.positions(), sample_.channels);
  const auto first_bad = not_finite_ == NotFiniteRule::fill ? first_infinite : first_not_finite;
  const Index bad = first_bad(type_, to, elements);
  if (bad == elements) return;
  const Index channel = bad % sample_.channels;
  const auto source =
      std::ranges::find_if(file.sources, [&](const Source& one) { return channel < one.first_channel + one.channels; });
  throw DataError(not_finite_text(source->rows, rows.range.first + bad / width, not_finite_));
}

void SampleFiles::read_source(const Source& source, const ReadPart& rows, std::byte* to, Scratch& scratch) const {
  if (!order_.moves()) return read_converted(source, rows, to, scratch);
  Shape own = rows.sample;
  own.channels = source.channels;
  scratch.unordered.resize(static_cast<std::size_t>(rows.positions() * own.channels * size_of(type_)));
  read_converted(source, rows, scratch.unordered.data(), scratch);
  move_channels_last(channel_box(own, order_), rows.range.count, size_of(type_), scratch.unordered.data(), to);
}

void SampleFiles::read_as_stored(const Source& source, const ReadPart& rows, std::byte* to) const {
  if (rows.box)
    source.rows.read(rows.range.first, rows.range.count, box_of(source.rows, *rows.box), to);
  else
    source.rows.read(rows.range.first, rows.range.count, to);
}

void SampleFiles::read_converted(const Source& source, const ReadPart& rows, std::byte* to, Scratch& scratch) const {
  const ElementType type = source.rows.type();
  if (type == type_) return read_as_stored(source, rows, to);
  const Index elements = rows.positions() * source.channels;
  scratch.as_stored.resize(static_cast<std::size_t>(elements * size_of(type)));
  read_as_stored(source, rows, scratch.as_stored.data());
  to_float32(type, scratch.as_stored.data(), {reinterpret_cast<float*>(to), static_cast<std::size_t>(elements)});
}

ReaderPool::ReaderPool(int threads, Read read) : read_(std::move(read)) {
  try {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] {
        leave_place();
        work();
      });
  } catch (const std::exception& error) {
    std::unique_lock lock(mutex_);
    stop_ = true;  // otherwise the threads already started would never end
    lock.unlock();
    work_there_.notify_all();
    throw FaultError("cannot start " + std::to_string(threads) + " threads that read data (" + error.what() +
                     "); start fewer ranks on a node, or raise the limit on processes and memory (ulimit -u, ulimit "
                     "-v, or the job's)");
  }
}

ReaderPool::~ReaderPool() {
  const std::scoped_lock lock(mutex_);
  stop_ = true;
  jobs_.clear();
  work_there_.notify_all();
}

void ReaderPool::submit(ReadGroup& group, const std::vector<ReadTask>& tasks) {
  const std::scoped_lock lock(mutex_);
  group = {};
  group.left = std::ssize(tasks);
  for (const ReadTask& task : tasks) jobs_.push_back({task, &group});
  work_there_.notify_all();
}

void ReaderPool::wait(ReadGroup& group) {
  std::unique_lock lock(mutex_);
  work_done_.wait(lock, [&] { return group.left == 0; });
  if (group.error) std::rethrow_exception(std::exchange(group.error, nullptr));
}

void ReaderPool::cancel() {
  std::unique_lock lock(mutex_);
  for (const Job& job : jobs_) --job.group->left;
  jobs_.clear();
  work_done_.wait(lock, [&] { return running_ == 0; });
}

void ReaderPool::work() {
  Scratch scratch;
  std::unique_lock lock(mutex_);
  while (true) {
    work_there_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    ++running_;
    lock.unlock();
    std::exception_ptr error;
    try {
      read_(job.task, scratch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --running_;
    --job.group->left;
    if (error && job.task.rows.first < job.group->failed_row) {
      job.group->failed_row = job.task.rows.first;
      job.group->error = error;
    }
    if (job.group->left == 0 || running_ == 0) work_done_.notify_all();
  }
}

namespace {

constexpr Index kNeighbourBytes = Index{1} << 22;     // bytes of neighbours read together: long enough for a disk
constexpr Index most_batches = 4, least_batches = 2;  // the one in use, and those being read meanwhile

}  // namespace

RowCache::RowCache(Range rows, Index row_bytes, Index capacity)
    : rows_(rows), row_bytes_(row_bytes), resident_(static_cast<std::size_t>(rows.count), false) {
  const bool all = capacity >= rows.count;
  block_rows_ = std::clamp<Index>(kNeighbourBytes / std::max<Index>(row_bytes, 1), 1, std::max<Index>(capacity, 1));
  blocks_ = (rows.count + block_rows_ - 1) / block_rows_;
  kept_blocks_ = all ? blocks_ : capacity / block_rows_;
  for (Index block = 0; block < blocks_; ++block)
    if (slot(block) >= 0) kept_ += std::min(block_rows_, rows.count - block * block_rows_);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>((all ? rows.count : kept_blocks_ * block_rows_) * row_bytes));
}

// Spreads the blocks that are kept evenly over all, as a line is drawn on a grid.
Index RowCache::slot(Index block) const {
  const Index before = block * kept_blocks_ / blocks_;
  return (block + 1) * kept_blocks_ / blocks_ > before ? before : -1;
}

std::byte* RowCache::buffer_of(Index row) const {
  const Index at = row - rows_.first, here = slot(at / block_rows_);
  return here < 0 ? nullptr : memory_.get() + (here * block_rows_ + at % block_rows_) * row_bytes_;
}

/// A batch being read or in use.
struct RowStream::Batch {
  ReaderPool::ReadGroup group;
  std::vector<const std::byte*> rows;   // one per id
  std::vector<Index> arriving;          // rows being read into their buffers
  std::unique_ptr<std::byte[]> memory;  // for rows that the cache has no buffer for
  Index memory_rows = 0;

  std::byte* reserve(Index count, Index row_bytes) {
    if (count > memory_rows) {
      memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(count * row_bytes));
      memory_rows = count;
    }
    return memory.get();
  }
};

StreamMemory budget_stream(const StreamBudget& budget) {
  const Index batch = budget.batch_rows * budget.row_bytes, all = budget.rows * budget.row_bytes;
  StreamMemory plan;
  if (!budget.stay) {
    plan.least = least_batches * batch + budget.scratch;
    plan.batches = std::clamp(budget.bytes / std::max<Index>(batch, 1), least_batches, most_batches);
    plan.bytes = plan.batches * batch + budget.scratch;
    return plan;
  }
  plan.least = std::min(all, least_batches * batch) + budget.scratch;
  if (all + budget.scratch <= budget.bytes) {
    plan.cached = budget.rows;
    plan.bytes = all + budget.scratch;
    return plan;
  }
  plan.batches = std::clamp(budget.bytes / 4 / std::max<Index>(batch, 1), least_batches, most_batches);
  const Index left = budget.bytes - budget.scratch - plan.batches * batch;
  plan.cached = std::max<Index>(left, 0) / std::max<Index>(budget.row_bytes, 1);
  plan.bytes = plan.batches * batch + plan.cached * budget.row_bytes + budget.scratch;
  return plan;
}

RowStream::RowStream(const Settings& settings, ReaderPool::Read read)
    : settings_(settings),
      cache_(settings.rows, settings.row_bytes, settings.plan.cached),
      pool_(std::make_unique<ReaderPool>(settings.threads, std::move(read))) {
  const Index batches = settings.plan.batches > 0 ? settings.plan.batches : most_batches;
  for (Index i = 0; i < batches; ++i) ring_.push_back(std::make_unique<Batch>());
}

RowStream::RowStream(Range rows, Index row_bytes)
    : settings_{rows, row_bytes, {0, 0, rows.count}, 1, 0}, cache_(rows, row_bytes, rows.count) {
  ring_.push_back(std::make_unique<Batch>());
}

RowStream::~RowStream() = default;

void RowStream::load_all() {
  ReaderPool::ReadGroup group;
  tasks_.clear();
  const Range all = settings_.rows;
  for (Index row = all.first; row < all.first + all.count; row += settings_.task_rows)
    tasks_.push_back({{row, std::min(settings_.task_rows, all.first + all.count - row)}, cache_.buffer_of(row)});
  pool_->submit(group, tasks_);
  pool_->wait(group);
  mark_all();
}

void RowStream::mark_all() {
  for (Index i = 0; i < settings_.rows.count; ++i) cache_.mark_resident(settings_.rows.first + i);
  pool_.reset();
}

void RowStream::expect(const EpochOrder& order) {
  if (!pool_) return;
  std::vector<Range> steps = order.steps;
  std::erase_if(steps, [](const Range& step) { return step.count == 0; });
  if (fetched_ == 0 && steps == order_.steps && order.ids == order_.ids && order.key == key_)
    return;  // already being read
  forget();
  key_ = order.key;
  order_.ids = order.ids;
  order_.steps = std::move(steps);
  read_ahead();
}

void RowStream::forget() {
  if (pool_) pool_->cancel();
  order_ = {};
  begun_ = fetched_ = 0;
}

bool RowStream::expected(std::span<const std::int64_t> ids) const {
  if (fetched_ == begun_) return false;
  const Range step = order_.steps[fetched_];
  return std::equal(ids.begin(), ids.end(), order_.ids.begin() + step.first,
                    order_.ids.begin() + step.first + step.count);
}

void RowStream::read_ahead() {
  while (begun_ < order_.steps.size() && begun_ - fetched_ < ring_.size()) {
    const Range step = order_.steps[begun_];
    begin(*ring_[begun_ % ring_.size()],
          std::span(order_.ids).subspan(static_cast<std::size_t>(step.first), static_cast<std::size_t>(step.count)));
    ++begun_;
  }
}

const std::vector<const std::byte*>& RowStream::fetch(std::span<const std::int64_t> ids) {
  const bool ahead = expected(ids);
  if (!ahead) {
    forget();
    begin(*ring_.front(), ids);
  }
  Batch& batch = *ring_[fetched_ % ring_.size()];
  if (pool_) pool_->wait(batch.group);
  for (const Index row : std::exchange(batch.arriving, {})) cache_.mark_resident(row);
  return batch.rows;
}

void RowStream::done() {
  if (fetched_ == begun_) return;  // it was not expected
  ++fetched_;
  read_ahead();
}

// Rows not yet in memory are read into their buffers, or in id order into the batch's own memory. So neighbours in the
// file stay neighbours and are read at once.
void RowStream::begin(Batch& batch, std::span<const std::int64_t> ids) {
  std::vector<std::size_t> by_id(ids.size());
  std::iota(by_id.begin(), by_id.end(), std::size_t{0});
  std::ranges::sort(by_id, {}, [&](std::size_t i) { return ids[i]; });
  const auto homeless = [&](std::int64_t id) { return cache_.buffer_of(id) == nullptr; };
  std::byte* next = batch.reserve(std::ranges::count_if(ids, homeless), settings_.row_bytes);
  batch.rows.resize(ids.size());
  batch.arriving.clear();
  tasks_.clear();
  const std::byte* last = nullptr;
  std::int64_t last_id = -1;
  for (const std::size_t i : by_id) {
    const std::int64_t id = ids[i];
    if (id != last_id) {
      std::byte* to = cache_.buffer_of(id);
      if (to == nullptr) {
        to = next;
        next += settings_.row_bytes;
        add_task({id, 1}, to);
      } else if (!cache_.resident(id)) {
        batch.arriving.push_back(id);
        add_task({id, 1}, to);
      }
      last = to;
      last_id = id;
    }
    batch.rows[i] = last;
  }
  if (pool_)
    pool_->submit(batch.group, tasks_);
  else
    MRMF_CHECK(tasks_.empty(), "rows that are not in memory were asked for");
}

void RowStream::add_task(Range rows, std::byte* to) {
  if (!tasks_.empty()) {
    ReadTask& before = tasks_.back();
    const bool follows = before.rows.first + before.rows.count == rows.first &&
                         before.to + before.rows.count * settings_.row_bytes == to;
    if (follows && before.rows.count < settings_.task_rows) {
      ++before.rows.count;
      return;
    }
  }
  tasks_.push_back({rows, to, key_});
}

}  // namespace mrmf
