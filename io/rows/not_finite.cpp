#include "io/rows/not_finite.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <type_traits>

#include "io/rows/class_values.hpp"
#include "io/rows/split.hpp"
#include "io/values/element_type.hpp"

namespace mrmf {
namespace {

constexpr Index kReadBytes = Index{1} << 24;

/// Which element of some is bad, or their number.
using FirstBad = Index (*)(ElementType, const void*, Index);

/// What is not finite in its own type, else what float32 cannot hold.
Index first_unusable(ElementType type, const void* raw, Index count) {
  const Index first = first_not_finite(type, raw, count);
  return first < count ? first : first_beyond_float32(type, raw, count);
}

/// Adds the bad rows of a run of one file to `bad`, counted from the run's first row as `number`. Numbers that float32
/// cannot hold say something that is not to be skipped.
void add_bad(const RowSource& reader, Range rows, Index number, FirstBad first, std::vector<Index>& bad) {
  const ElementType type = reader.type();
  const Index width = reader.row_bytes() / size_of(type);
  const Index step = std::max<Index>(1, kReadBytes / std::max<Index>(1, reader.row_bytes()));
  std::vector<std::byte> values;
  for (Index done = 0; done < rows.count; done += step) {
    const Index count = std::min(step, rows.count - done);
    values.resize(static_cast<std::size_t>(count * reader.row_bytes()));
    reader.read(rows.first + done, count, values.data());
    for (Index row = 0; row < count; ++row) {
      const std::byte* const from = values.data() + row * reader.row_bytes();
      const Index at = first(type, from, width);
      if (at < width && !std::isfinite(number_at(type, from, at)))
        bad.push_back(number + done + row);
      else if (at < width)
        throw DataError(not_finite_text(reader, rows.first + done + row));
    }
  }
}

/// This rank's bad rows.
void scan(const DatasetSpec& spec, const std::vector<std::string>& names, const DatasetShape& shape, Range mine,
          const std::function<FirstBad(const RowSource&)>& first_of, std::vector<Index>& bad) {
  const StoredRows stored(shape);
  std::vector<Index> starts{0};
  for (std::size_t i = 0; i < spec.files.size(); ++i) starts.push_back(starts.back() + stored.rows_of_file(i));
  if (names.empty()) return;
  const RowSources sources(spec, &shape, names, {1, kMostCached / std::ssize(names), true});
  stored.for_each_run(mine, [&](const RowRun& run) {
    const auto open = sources.at(run.file);
    for (const auto& rows : *open)
      if (is_float(rows->type())) add_bad(*rows, run.rows, starts[run.file] + run.rows.first, first_of(*rows), bad);
  });
}

void scan_labels(const DatasetSpec& spec, const DatasetShape& shape, Range mine, std::vector<Index>& bad) {
  const auto first_of = [&](const RowSource& rows) {
    return says_no_label(spec.form, rows) ? first_infinite : first_unusable;
  };
  scan(spec, spec.label_names(), shape, mine, first_of, bad);
}

void sort_once(std::vector<Index>& rows) {
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
}

}  // namespace

bool says_no_label(const LabelForm& form, const RowSource& labels) {
  return form.kind != LabelKind::numbers && labels.packing().declared;
}

Index labels_not_finite(const DatasetSpec& spec, const DatasetShape& shape) {
  std::vector<Index> bad;
  scan_labels(spec, shape, {0, shape.samples}, bad);
  sort_once(bad);
  return std::ssize(bad);
}

std::string not_finite_text(const RowSource& source, Index number, NotFiniteRule rule, NumbersOf of) {
  std::vector<std::byte> row(static_cast<std::size_t>(source.row_bytes()));
  source.read(number, 1, row.data());
  const Index width = source.row_bytes() / size_of(source.type());
  const auto index_of = [&](const auto& first) { return first(source.type(), row.data(), width); };
  const bool fills = rule == NotFiniteRule::fill;
  Index bad = index_of(fills ? first_infinite : first_not_finite);
  if (bad == width) bad = std::min(index_of(first_beyond_float32), width - 1);
  const double value = number_at(source.type(), row.data(), bad);
  return source.row_text(number) + " holds " + not_finite_reason(value) +
         (std::isfinite(value) ? "; store the numbers in other units, or their logarithm"
          : fills
              ? ", which is not missing as NaN is: data.not_finite = \"fill\" leaves it; store NaN in its place"
              : "; remove or repair that sample, or leave all such out with data.not_finite = \"skip\" (evaluate and "
                "predict: --not-finite skip)") +
         (std::isnan(value) && of == NumbersOf::samples
              ? "; where NaN is a missing number of samples, \"fill\" keeps the row"
              : "");
}

std::vector<Index> rows_not_finite(const DatasetSpec& spec, const DatasetShape& shape, Comm& comm) {
  std::vector<Index> bad;
  collective_try(comm, [&] {
    const Range mine = piece(shape.samples, comm.rank(), comm.size());
    const FirstBad in_samples = spec.not_finite == NotFiniteRule::fill ? first_infinite : first_unusable;
    scan(
        spec, spec.sample_names(), shape, mine, [&](const RowSource&) { return in_samples; }, bad);
    scan_labels(spec, shape, mine, bad);
  });
  sort_once(bad);
  const std::vector<double> counts = comm.all_gather(static_cast<double>(bad.size()));
  const auto before = static_cast<std::ptrdiff_t>(std::accumulate(counts.begin(), counts.begin() + comm.rank(), 0.0));
  std::vector<std::int64_t> all(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0.0)));
  std::ranges::copy(bad, all.begin() + before);
  comm.sum(all);
  return {all.begin(), all.end()};
}

namespace {

template <typename Element>
void mask_lines(Element* line, Index positions, Index channels) {
  for (Index p = 0; p < positions; ++p, line += channels) {
    bool there = true;
    for (Index c = 0; c + 1 < channels; ++c) there = there && !std::isnan(to_float(line[c]));
    if constexpr (std::is_same_v<Element, Half>)
      line[channels - 1] = Half{static_cast<std::uint16_t>(there ? 0x3c00 : 0)};
    else
      line[channels - 1] = static_cast<Element>(there ? 1 : 0);
  }
}

}  // namespace

void write_mask(ElementType type, std::byte* values, Index positions, Index channels) {
  with_elements(type, values, [&](const auto* elements) {
    using Element = std::remove_cvref_t<decltype(*elements)>;
    mask_lines(reinterpret_cast<Element*>(values), positions, channels);
  });
}

}  // namespace mrmf
