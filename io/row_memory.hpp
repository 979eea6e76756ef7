// What is kept of the files of a data set once they have been opened: the files used last, open, and where the rows of
// all lie. Private to io/.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/row_reader.hpp"

namespace mrmf {

// What was opened last: as many things as may be open at once.

/// Things by number, opened when they are asked for. Those that were used last stay open; others are closed, once
/// nobody uses them any more. On any thread; two that ask for the same thing at once may both open it.
template <class Thing>
class Recent {
 public:
  using Open = std::function<std::shared_ptr<const Thing>(std::size_t number)>;
  Recent(std::size_t most, Open open) : most_(most), open_(std::move(open)) {}

  std::shared_ptr<const Thing> at(std::size_t number) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = places_.find(number); found != places_.end()) {
        order_.splice(order_.begin(), order_, found->second);
        return order_.front().second;
      }
    }
    std::shared_ptr<const Thing> opened = open_(number);  // others may continue meanwhile
    std::shared_ptr<const Thing> closed;                  // after the lock, as closing may wait
    const std::scoped_lock lock(mutex_);
    if (const auto found = places_.find(number); found != places_.end()) return found->second->second;
    order_.emplace_front(number, opened);
    places_[number] = order_.begin();
    if (order_.size() > most_) {
      closed = std::move(order_.back().second);
      places_.erase(order_.back().first);
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
  std::unordered_map<std::size_t, typename Order::iterator> places_;
};

/// Where the rows of arrays lie that are read without HDF5, and the values of attributes: so that of a file whose
/// headers this rank has read once, they are not read again. Takes some 200 bytes for each. On any thread.
class RowMemory {
 public:
  /// How an array is asked for.
  struct Name {
    const std::string& path;
    const std::string& array;
    bool whole;
    PackingRule packing;
  };
  std::optional<PlainRows> find(const Name& name) const;
  void keep(const Name& name, PlainRows rows);

 private:
  struct Known {
    std::string array;
    PackingRule packing;
    PlainRows rows;
  };
  static bool is(const Known& known, const Name& name);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::vector<Known>> files_;
  std::vector<std::shared_ptr<const PlainRows::Form>> forms_;  // the last few that were seen
};

}  // namespace mrmf
