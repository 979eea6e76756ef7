#include "io/stored_rows.hpp"

#include <algorithm>

namespace mrmf {

StoredRows::StoredRows(const DatasetShape& shape) : starts_{0}, rows_(shape.rows) {
  for (const Index rows : shape.file_rows.empty() ? shape.file_samples : shape.file_rows)
    starts_.push_back(starts_.back() + rows);
}

void StoredRows::for_each_run(Range samples, const std::function<void(const RowRun&)>& visit) const {
  const auto row_of = [&](Index sample) { return rows_.empty() ? sample : rows_[static_cast<std::size_t>(sample)]; };
  const Index end = samples.first + samples.count;
  for (Index sample = samples.first; sample < end;) {
    const Index row = row_of(sample);
    const auto after = std::ranges::upper_bound(starts_, row);  // the first file that begins behind it
    const Index most = *after - row;
    Index count = 1;
    if (rows_.empty())
      count = std::min(most, end - sample);
    else
      while (count < most && sample + count < end && row_of(sample + count) == row + count) ++count;
    const auto file = static_cast<std::size_t>(after - starts_.begin()) - 1;
    visit({file, {row - starts_[file], count}});
    sample += count;
  }
}

RowRun StoredRows::at(Index sample) const {
  RowRun found;
  for_each_run({sample, 1}, [&](const RowRun& run) { found = run; });
  return found;
}

}  // namespace mrmf
