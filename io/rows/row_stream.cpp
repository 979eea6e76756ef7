#include "io/rows/row_stream.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "kernels/errors.hpp"

namespace mrmf {

ReaderPool::ReaderPool(int threads, Read read) : read_(std::move(read)) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
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
