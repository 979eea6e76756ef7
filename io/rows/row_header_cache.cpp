#include "io/rows/row_header_cache.hpp"

#include <algorithm>
#include <utility>

namespace mrmf {
namespace {

constexpr std::size_t kMostForms = 16;  // that are compared with a new one

}  // namespace

bool RowHeaderCache::is(const Known& known, const Name& name) {
  return known.array == name.array && known.packing == name.packing && known.rows.form->whole == name.whole;
}

std::optional<PlainRows> RowHeaderCache::find(const Name& name) const {
  const std::scoped_lock lock(mutex_);
  const auto file = files_.find(name.path);
  if (file == files_.end()) return {};
  const auto known = std::ranges::find_if(file->second, [&](const Known& one) { return is(one, name); });
  if (known == file->second.end()) return {};
  return known->rows;
}

void RowHeaderCache::keep(const Name& name, PlainRows rows) {
  const std::scoped_lock lock(mutex_);
  const auto same = std::ranges::find_if(forms_, [&](const auto& form) { return *form == *rows.form; });
  if (same != forms_.end()) {
    rows.form = *same;
  } else {
    if (forms_.size() == kMostForms) forms_.erase(forms_.begin());
    forms_.push_back(rows.form);
  }
  std::vector<Known>& file = files_[name.path];
  std::erase_if(file, [&](const Known& one) { return is(one, name); });
  file.push_back({name.array, name.packing, std::move(rows)});
}

}  // namespace mrmf
