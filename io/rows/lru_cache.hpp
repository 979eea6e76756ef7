// What was opened last: as many things as may be open at once. Private to io/.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace mrmf {

/// Things by number, opened when they are asked for. Those that were used last stay open; others are closed, once
/// nobody uses them any more. On any thread; two that ask for the same thing at once may both open it.
template <class Thing>
class LruCache {
 public:
  using Open = std::function<std::shared_ptr<const Thing>(std::size_t number)>;
  LruCache(std::size_t most, Open open) : most_(most), open_(std::move(open)) {}

  std::shared_ptr<const Thing> at(std::size_t number) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = entries_.find(number); found != entries_.end()) {
        order_.splice(order_.begin(), order_, found->second);
        return order_.front().second;
      }
    }
    std::shared_ptr<const Thing> opened = open_(number);  // others may continue meanwhile
    std::shared_ptr<const Thing> closed;                  // after the lock, as closing may wait
    const std::scoped_lock lock(mutex_);
    if (const auto found = entries_.find(number); found != entries_.end()) return found->second->second;
    order_.emplace_front(number, opened);
    entries_[number] = order_.begin();
    if (order_.size() > most_) {
      closed = std::move(order_.back().second);
      entries_.erase(order_.back().first);
      order_.pop_back();
    }
    return opened;
  }

 private:
  using Order = std::list<std::pair<std::size_t, std::shared_ptr<const Thing>>>;
  std::size_t most_;
  Open open_;
  std::mutex mutex_;
  Order order_;  // the one used last comes first
  std::unordered_map<std::size_t, typename Order::iterator> entries_;
};

}  // namespace mrmf
