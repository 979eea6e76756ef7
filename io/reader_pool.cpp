#include "io/reader_pool.hpp"

#include <string>
#include <utility>

#include "kernels/check.hpp"

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

void ReaderPool::submit(Ticket& ticket, const std::vector<ReadTask>& tasks) {
  const std::scoped_lock lock(mutex_);
  ticket = {};
  ticket.left = std::ssize(tasks);
  for (const ReadTask& task : tasks) jobs_.push_back({task, &ticket});
  work_there_.notify_all();
}

void ReaderPool::wait(Ticket& ticket) {
  std::unique_lock lock(mutex_);
  work_done_.wait(lock, [&] { return ticket.left == 0; });
  if (ticket.error) std::rethrow_exception(std::exchange(ticket.error, nullptr));
}

void ReaderPool::cancel() {
  std::unique_lock lock(mutex_);
  for (const Job& job : jobs_) --job.ticket->left;
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
    --job.ticket->left;
    if (error && job.task.rows.first < job.ticket->failed_row) {
      job.ticket->failed_row = job.task.rows.first;
      job.ticket->error = error;
    }
    if (job.ticket->left == 0 || running_ == 0) work_done_.notify_all();
  }
}

}  // namespace mrmf
