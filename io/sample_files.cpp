#include "io/sample_files.hpp"

#include <algorithm>
#include <cmath>

namespace mrmf {
namespace {

/// The rows that both hold.
Range common(Range a, Range b) {
  const Index begin = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return {begin, std::max<Index>(end - begin, 0)};
}

}  // namespace

std::string not_finite_text(const RowPlace& place, float value) {
  return place.path + ": data set '" + place.dataset + "', row " + std::to_string(place.row) + " holds " +
         (std::isnan(value) ? "NaN" : "an infinity") + "; remove or repair that sample";
}

Index files_with(const DatasetShape& shape, Range rows) {
  Index files = 0, first = 0;
  for (const Index samples : shape.file_samples) {
    if (common({first, samples}, rows).count > 0) ++files;
    first += samples;
  }
  return files;
}

SampleFiles::SampleFiles(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most_cached)
    : dataset_(spec.samples),
      type_(shape.type),
      row_elements_(shape.sample.per_sample()),
      row_bytes_(row_elements_ * size_of(shape.type)) {
  MRMF_CHECK(shape.file_samples.size() == spec.files.size(), "the shape is not of these files");
  const Index of_file = most_cached / std::max<Index>(1, files_with(shape, owned));
  Range rows;
  for (std::size_t i = 0; i < spec.files.size(); ++i) {
    rows = {rows.first + rows.count, shape.file_samples[i]};
    if (common(rows, owned).count == 0) continue;
    File file{rows, spec.files[i], RowReader(spec.files[i], spec.samples, of_file)};
    const bool same = file.reader.shape().front() == rows.count &&
                      file.reader.row_bytes() == row_elements_ * size_of(file.reader.type());
    if (!same)
      throw DataError(spec.files[i] + ": data set '" + spec.samples +
                      "' changed while it was being opened; start again when nothing writes to it");
    if (spec.missing == MissingRule::refuse) file.reader.require_written();  // as this rank sees it
    files_.push_back(std::move(file));
  }
}

ReadingWay SampleFiles::way() const {
  ReadingWay way;
  for (const File& file : files_) {
    const ReadingWay one = file.reader.way();
    way.direct = (way.text.empty() || way.direct) && one.direct;
    if (way.text.find(one.text) == std::string::npos) way.text += (way.text.empty() ? "" : ", ") + one.text;
  }
  return way;
}

void SampleFiles::read(Range rows, std::byte* to, Scratch& scratch) const {
  Index done = 0;
  for (const File& file : files_) {
    const Range here = common(file.rows, rows);
    if (here.count == 0) continue;
    read_file(file, here, to + (here.first - rows.first) * row_bytes_, scratch);
    done += here.count;
  }
  MRMF_CHECK(done == rows.count, "rows that are not owned were asked for");
}

void SampleFiles::read_file(const File& file, Range rows, std::byte* to, Scratch& scratch) const {
  const Index first = rows.first - file.rows.first;  // in the file
  const auto elements = static_cast<std::size_t>(rows.count * row_elements_);
  if (file.reader.type() == type_) {
    file.reader.read(first, rows.count, to);
  } else {
    scratch.as_stored.resize(static_cast<std::size_t>(rows.count * file.reader.row_bytes()));
    file.reader.read(first, rows.count, scratch.as_stored.data());
    to_float32(file.reader.type(), scratch.as_stored.data(), {reinterpret_cast<float*>(to), elements});
  }
  const Index bad = first_not_finite(type_, to, rows.count * row_elements_);
  if (bad == rows.count * row_elements_) return;
  float value = 0;
  to_float32(type_, to + bad * size_of(type_), {&value, 1});
  throw DataError(not_finite_text({file.path, dataset_, first + bad / row_elements_}, value));
}

}  // namespace mrmf
