// Which rank makes which member, and when: ranks draw members as they are ready for more.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"
#include "mpi/cores.hpp"
#include "src/ensemble/ensemble.hpp"
#include "src/method/train_run.hpp"
#include "src/run/signals.hpp"
#include "src/system/backend_choice.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {
namespace {

using namespace std::chrono_literals;

std::string journal_of(const Ensemble& ensemble, int writer, int writers) {
  return ensemble.folder + (writers == 1 ? kJournalName : fmt::format("/journal-{}.txt", writer));
}

/// Makes this rank's members with several threads. The main thread draws their numbers, keeps the journal and looks
/// after signals.
class Makers {
 public:
  Makers(const Ensemble& ensemble, Comm& world, int threads)
      : ensemble_(ensemble),
        threads_(ensemble.spec.side_by_side > 0 ? ensemble.spec.side_by_side : threads),
        workplace_{ensemble.folder, stop_, std::max(1, threads / threads_)},
        members_(make_members(ensemble.spec, workplace_)),
        row_bytes_(static_cast<std::size_t>(bytes_of(members_->parts()))),
        at_once_(static_cast<std::size_t>(std::clamp<Index>(
            static_cast<Index>(ensemble.pending.size()) / (threads_ * world.size()), 1, members_->at_once()))),
        rows_(ensemble.folder + kRowsName, row_bytes_),
        journal_(journal_of(ensemble, world.rank(), world.size())),
        numbers_(world) {}

  /// Until no number is left, or a signal came. `beat` is called now and then with the members made so far.
  void run(const StopSignals& signals, const std::function<void(Index)>& beat) {
    std::vector<std::jthread> workers;
    for (int w = 0; w < threads_; ++w) workers.emplace_back([this] { work(); });
    try {
      keep_busy(signals, beat);
    } catch (...) {
      stop_ = true;
      end_of_work();
      throw;
    }
    if (error_) stop_ = true;
    end_of_work();
    workers.clear();
    if (error_) std::rethrow_exception(error_);
    flush();
    beat(made_);
  }

  Index made() const { return made_; }

 private:
  using Chunk = std::span<const Index>;

  void keep_busy(const StopSignals& signals, const std::function<void(Index)>& beat) {
    const std::size_t depth = 4 * static_cast<std::size_t>(threads_);
    bool left = true;
    for (;;) {
      if (signals.received() != 0) stop_ = true;
      const bool ending = stop_;
      std::unique_lock lock(mutex_);
      while (left && !ending && queue_.size() < depth) {
        lock.unlock();
        const std::optional<Chunk> chunk = draw();
        lock.lock();
        left = chunk.has_value();
        if (chunk) queue_.push_back(*chunk), more_.notify_one();
      }
      if (ending) queue_.clear();
      if (error_ || (working_ == 0 && queue_.empty() && (!left || ending))) return;
      changed_.wait_for(lock, 20ms, [&] {
        return error_ || flush_is_due() || (working_ == 0 && queue_.empty()) ||
               (left && !ending && queue_.size() < depth);
      });
      const bool due = flush_is_due();
      lock.unlock();
      if (due) flush();
      beat(made_);
    }
  }

  // Putting members on disk takes no more than a tenth of the time.
  bool flush_is_due() const { return !written_.empty() && flushed_.seconds() > 10 * flush_seconds_; }

  std::optional<Chunk> draw() {
    const std::size_t first = static_cast<std::size_t>(numbers_.next()) * at_once_;
    if (first >= ensemble_.pending.size()) return {};
    return Chunk(ensemble_.pending).subspan(first, std::min(at_once_, ensemble_.pending.size() - first));
  }

  void end_of_work() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    queue_.clear();
    more_.notify_all();
  }

  void work() {
    leave_place();
    const auto memory = members_->memory();
    for (;;) {
      Chunk chunk;
      {
        std::unique_lock lock(mutex_);
        more_.wait(lock, [&] { return ended_ || !queue_.empty(); });
        if (queue_.empty()) return;
        chunk = queue_.front();
        queue_.pop_front();
        ++working_;
        changed_.notify_one();
      }
      std::exception_ptr error;
      try {
        make(chunk, *memory);
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      --working_;
      if (error && !error_) error_ = error;
      changed_.notify_one();
    }
  }

  // All members of a chunk; those that failed once more, one by one.
  void make(Chunk chunk, MemberSimulator::Memory& memory) {
    std::vector<Index> left(chunk.begin(), chunk.end());
    std::vector<int> tries;
    for (const Index member : left) tries.push_back(ensemble_.attempts[static_cast<std::size_t>(member)]);
    while (!left.empty() && !stop_) {
      const std::vector<Attempt> attempts = attempt(left, tries, memory);
      std::vector<Index> again;
      std::vector<int> again_tries;
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (attempts[i].done || attempts[i].reason == kToldToStop || attempts[i].number > ensemble_.spec.retries)
          continue;
        again.push_back(left[i]), again_tries.push_back(attempts[i].number);
      }
      left = std::move(again), tries = std::move(again_tries);
    }
  }

  std::vector<Attempt> attempt(const std::vector<Index>& which, const std::vector<int>& tries,
                               MemberSimulator::Memory& memory) {
    std::vector<std::byte> rows(which.size() * row_bytes_);
    std::vector<std::vector<double>> values;
    std::vector<MemberTask> tasks;
    for (const Index member : which)
      values.push_back(values_of(ensemble_.spec, ensemble_.points[static_cast<std::size_t>(member)]));
    for (std::size_t i = 0; i < which.size(); ++i)
      tasks.push_back({which[i], values[i], std::span(rows).subspan(i * row_bytes_, row_bytes_), {}});
    const Timer timer;
    members_->make(tasks, memory);
    const double seconds = timer.seconds() / static_cast<double>(which.size());
    std::vector<Attempt> attempts;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      attempts.push_back(
          {which[i], tasks[i].error.empty(), tries[i] + 1, seconds, row_checksum(tasks[i].row), tasks[i].error});
      if (attempts.back().done) rows_.write(static_cast<std::uint64_t>(which[i]), tasks[i].row);
    }
    const std::lock_guard lock(mutex_);
    for (const Attempt& one : attempts) {
      if (one.reason == kToldToStop) continue;
      written_.push_back(one);
      made_ += one.done ? 1 : 0;
    }
    changed_.notify_one();
    return attempts;
  }

  // A line of the journal says that a row is on disk.
  void flush() {
    std::vector<Attempt> attempts;
    {
      const std::lock_guard lock(mutex_);
      attempts.swap(written_);
    }
    if (attempts.empty()) return;
    const Timer timer;
    rows_.sync();
    journal_.append(attempts);
    flush_seconds_ = timer.seconds();
    flushed_ = {};
  }

  const Ensemble& ensemble_;
  int threads_;
  std::atomic<bool> stop_{false};
  Workplace workplace_;
  std::unique_ptr<MemberSimulator> members_;
  std::size_t row_bytes_, at_once_;
  RowFile rows_;
  Journal journal_;
  SharedCounter numbers_;

  std::mutex mutex_;
  std::condition_variable more_, changed_;
  std::deque<Chunk> queue_;
  std::vector<Attempt> written_;  // not yet in the journal
  int working_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;
  std::atomic<Index> made_{0};
  Timer flushed_;
  double flush_seconds_ = 0;
};

/// A group of ranks that trains one member after the other together.
class GroupTrainer {
 public:
  GroupTrainer(const Ensemble& ensemble, Comm& world)
      : ensemble_(ensemble),
        group_(world.split(world.rank() / ensemble.spec.ranks_per_member)),
        roots_(world.split(group_.root() ? 0 : 1)) {
    if (!group_.root()) return;
    numbers_.emplace(roots_);
    rows_.emplace(ensemble.folder + kRowsName, static_cast<std::uint64_t>(bytes_of(row_arrays_of(ensemble.spec))));
    journal_.emplace(journal_of(ensemble, roots_.rank(), roots_.size()));
  }

  /// Until no number is left, or a signal came, whose number it returns.
  int run(const std::function<void(Index)>& beat) {
    for (;;) {
      std::int64_t at = group_.root() ? numbers_->next() : 0;
      group_.broadcast(std::span(&at, 1), 0);
      if (at >= std::ssize(ensemble_.pending)) return 0;
      const Index member = ensemble_.pending[static_cast<std::size_t>(at)];
      for (int tries = ensemble_.attempts[static_cast<std::size_t>(member)]; tries <= ensemble_.spec.retries; ++tries) {
        const Attempt attempt = train(member, tries + 1);
        if (signal_ != 0) return signal_;
        if (group_.root()) keep(attempt);
        beat(made_);
        if (attempt.done) break;
      }
    }
  }

  Index made() const { return group_.root() ? made_ : 0; }

 private:
  // Errors that all ranks of the group see are the member's. Any other ends the ensemble.
  Attempt train(Index member, int number) {
    Attempt attempt{member, true, number, 0, 0, ""};
    const Timer timer;
    try {
      const TrainingCall call =
          training_call(ensemble_.spec, ensemble_.folder, member, ensemble_.points[static_cast<std::size_t>(member)]);
      // The root's word counts: another node may not see yet what an earlier start has written.
      const bool done = group_.max(group_.root() && call.done ? 1 : 0) > 0;
      if (!done) train_run(config_of(call), {}, group_);
    } catch (const Stopped& stopped) {
      signal_ = std::max(1, stopped.signal);
    } catch (const ConfigError& error) {
      attempt.done = false, attempt.reason = error.what();
    } catch (const DataError& error) {
      attempt.done = false, attempt.reason = error.what();
    } catch (const DivergedError& error) {
      attempt.done = false, attempt.reason = error.what();
    }
    attempt.seconds = timer.seconds();
    return attempt;
  }

  // An error of one rank is that of all, and the member's.
  Config config_of(const TrainingCall& call) {
    Config config;
    collective_try(group_, [&] { config = read_config(ensemble_.spec.train->config, call.settings); });
    return config;
  }

  void keep(Attempt attempt) {
    if (attempt.done) {
      std::vector<std::byte> row(static_cast<std::size_t>(bytes_of(row_arrays_of(ensemble_.spec))));
      read_training(training_folder(ensemble_.folder, attempt.member), row);
      rows_->write(static_cast<std::uint64_t>(attempt.member), row);
      rows_->sync();
      attempt.row = row_checksum(row);
      ++made_;
    }
    journal_->append({&attempt, 1});
  }

  const Ensemble& ensemble_;
  Comm group_, roots_;
  std::optional<SharedCounter> numbers_;
  std::optional<RowFile> rows_;
  std::optional<Journal> journal_;
  Index made_ = 0;
  int signal_ = 0;
};

Made all_ranks(Comm& world, Index made, int signal) {
  return {static_cast<Index>(world.sum(static_cast<double>(made))), static_cast<int>(world.max(signal))};
}

}  // namespace

Made make_pending(const Ensemble& ensemble, Comm& world, const std::function<void(Index)>& beat) {
  if (ensemble.spec.ranks_per_member > 1) {
    GroupTrainer trainer(ensemble, world);
    const int signal = trainer.run(beat);
    return all_ranks(world, trainer.made(), signal);
  }
  const int threads = choose_threads(0, world);
  const StopSignals signals(false);
  Makers makers(ensemble, world, threads);
  collective_try(world, [&] { makers.run(signals, beat); });
  return all_ranks(world, makers.made(), signals.received());
}

}  // namespace mrmf
