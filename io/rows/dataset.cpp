// Which rows of a data set are its samples: what a split (split.hpp) leaves. Headers are read in dataset_headers.cpp.
#include "io/rows/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "io/rows/not_finite.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/split_column_and_groups.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

/// Leaves rows out of a shape that has them all.
void keep_rows(DatasetShape& shape, std::vector<Index> rows) {
  if (shape.file_rows.empty()) shape.file_rows = shape.file_samples;
  shape.samples = std::ssize(rows);
  shape.file_samples.assign(shape.file_rows.size(), 0);
  std::size_t file = 0;
  Index end = shape.file_rows.front();
  for (const Index row : rows) {
    while (row >= end) end += shape.file_rows[++file];
    ++shape.file_samples[file];
  }
  shape.rows = std::move(rows);
}

std::string why_no_row(const RowChoice& choice, const std::string& part) {
  if (choice.rule == SplitRule::arrays) return "its arrays name none";
  if (part == "the test")
    return choice.by_roles() ? "name the values of '" + choice.column + "' whose rows test in data.split.test"
                             : "set data.split.test to the share of the rows that tests";
  if (choice.column.empty()) return "it has only one; give more samples";
  if (!choice.validation_roles.empty()) return "data.split names no rows of '" + choice.column + "' for it";
  return "'" + choice.column + "' has " + (part == "training" ? "no 0" : "only zeros") +
         ", and rows of 0 train, all others validate";
}

// What the log and `mrmf data` say of groups and folds.
void tell_parts(const RowChoice& choice, const SplitColumn& column, const std::vector<std::int32_t>& strata,
                DatasetShape& shape) {
  const std::vector<Subset> parts = parts_of_rows(choice, shape.samples, column, strata);
  shape.unused = parts_text(choice, column, parts);
  const std::string one = one_class_text(parts, strata);
  if (!one.empty()) shape.unused += (shape.unused.empty() ? "" : "; ") + one;
}

/// Keeps the rows of one part of a split, chosen by the root.
void choose(const DatasetSpec& spec, DatasetShape& shape, Comm& comm) {
  if (spec.choice.part == Subset::all) return;
  std::vector<Index> rows;
  collective_try_on_root(comm, [&] {
    SplitColumn column;
    const RowChoice& choice = spec.choice;
    if (choice.rule == SplitRule::arrays) {
      column = read_split_arrays(RowSources(spec, &shape, choice.columns(), {.words = true}), shape.file_samples);
    } else if (!choice.column.empty()) {
      const RowSources sources(spec, &shape, {choice.column}, {.words = true});
      const bool groups = choice.by_groups();
      column =
          read_split_column(sources, shape.file_samples, groups ? static_cast<std::size_t>(shape.samples) : kMostRoles);
    }
    if (choice.by_roles()) shape.unused = unused_text(choice, column);
    std::vector<std::int32_t> strata;
    if (!choice.strata.empty())
      strata = read_strata(RowSources(spec, &shape, {choice.strata}, {.words = true}), shape.file_samples);
    rows = choose_rows(choice, shape.samples, column, strata);
    if (choice.rule == SplitRule::groups || choice.rule == SplitRule::folds) tell_parts(choice, column, strata, shape);
  });
  Index count = std::ssize(rows);
  comm.broadcast(std::span(&count, 1), 0);
  rows.resize(static_cast<std::size_t>(count));
  comm.broadcast(std::span(rows), 0);
  comm.broadcast(shape.unused, 0);
  keep_rows(shape, std::move(rows));
  if (shape.samples > 0) return;
  const std::string part = spec.choice.part == Subset::train        ? "training"
                           : spec.choice.part == Subset::validation ? "validation"
                                                                    : "the test";
  throw DataError("data set '" + spec.samples + "' leaves no row for " + part + ": " + why_no_row(spec.choice, part));
}

std::vector<Index> chosen_rows(const DatasetShape& shape) {
  if (!shape.rows.empty()) return shape.rows;
  std::vector<Index> all(static_cast<std::size_t>(shape.samples));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

void choose_piece(const DatasetSpec& spec, DatasetShape& shape) {
  const RowPiece& piece = spec.piece;
  if (piece.all()) return;
  const Index samples = shape.samples;
  keep_rows(shape, rows_of_piece(piece, chosen_rows(shape)));
  if (shape.samples > 0) return;
  throw DataError(fmt::format(
      "data set '{}' has {} training rows, which are too few for {} parts{}; use fewer parts (tournament.trainers, or "
      "data.part.of), or give more samples",
      spec.samples, samples, piece.of, piece.held_out > 0 ? " that each hold out one" : ""));
}

}  // namespace

namespace {

// Whether attributes say which numbers of the labels are missing. The first file says it of all.
bool declares_missing(const DatasetSpec& spec, const DatasetShape& shape) {
  const auto open = RowSources(spec, &shape, spec.label_names(), {.words = true}).open(0);
  return std::ranges::any_of(*open, [](const auto& labels) { return labels->packing().declared; });
}

[[noreturn]] void refuse_all_rows(const DatasetSpec& spec, const DatasetShape& shape) {
  const Index rows = std::ssize(shape.skipped), of_labels = labels_not_finite(spec, shape);
  const Subset part = spec.choice.part;
  const std::string of = std::string(part == Subset::train        ? " of the training rows of "
                                     : part == Subset::validation ? " of the validation rows of "
                                     : part == Subset::test       ? " of the test rows of "
                                                                  : " of ") +
                         spec.files.front() + (spec.files.size() > 1 ? ", ..." : "");
  const std::string all = "all " + std::to_string(rows) + " rows hold NaN or infinity";
  if (of_labels == rows)
    throw DataError(
        "the labels '" + spec.labels_text() + "'" + of + " have no row that is finite: " + all +
        (declares_missing(spec, shape) ? ", or what attributes such as _FillValue say is missing" : "") +
        (part == Subset::validation ? "; correct them, or let other rows validate" : "; correct them, or name others"));
  throw DataError(
      "data set '" + spec.samples + "'" + of + " has no sample that is finite: " + all +
      (of_labels > 0 ? ", " + std::to_string(of_labels) + " of them in the labels '" + spec.labels_text() + "'" : "") +
      "; correct them, or, where NaN is a missing number, keep the rows with data.not_finite = \"fill\"");
}

}  // namespace

DatasetShape without_rows(DatasetShape shape, const DatasetSpec& spec, const std::vector<Index>& rows) {
  shape.skipped = rows;
  if (rows.empty()) return shape;
  std::vector<Index> rest;
  std::ranges::set_difference(chosen_rows(shape), shape.skipped, std::back_inserter(rest));
  if (rest.empty()) refuse_all_rows(spec, shape);
  keep_rows(shape, std::move(rest));
  return shape;
}

namespace {

/// ": 3, 7-9", ": sim_3, sim_7", or nothing where the file is one row.
std::string rows_text(const DatasetSpec& spec, const DatasetShape& shape, std::size_t file,
                      const std::vector<Index>& rows) {
  if (spec.rows == RowsBy::files) return "";
  if (spec.rows == RowsBy::axis) return ": " + ranges_text(rows);
  std::string text;
  for (const Index row : rows)
    text += (text.empty() ? ": " : ", ") + (*shape.groups[file].names)[static_cast<std::size_t>(row)];
  return text;
}

}  // namespace

namespace {

/// What inspect_dataset() has to do when the headers are known.
DatasetShape choose_samples(const DatasetSpec& spec, DatasetShape shape, Comm& comm) {
  choose(spec, shape, comm);
  choose_piece(spec, shape);
  if (spec.not_finite != NotFiniteRule::skip) return shape;
  const std::vector<Index> bad = rows_not_finite(spec, shape, comm);
  return without_rows(std::move(shape), spec, bad);
}

/// A shape with all rows of its files.
DatasetShape with_all_rows(DatasetShape shape) {
  if (!shape.file_rows.empty()) shape.file_samples = std::move(shape.file_rows);
  shape.samples = std::accumulate(shape.file_samples.begin(), shape.file_samples.end(), Index{0});
  shape.file_rows.clear();
  shape.rows.clear();
  shape.skipped.clear();
  shape.unused.clear();
  return shape;
}

}  // namespace

DatasetShape inspect_dataset(const DatasetSpec& spec, Comm& comm) {
  return choose_samples(spec, inspect_headers(spec, comm), comm);
}

bool have_same_headers(const DatasetSpec& one, const DatasetSpec& other) {
  DatasetSpec same = other;
  same.choice = one.choice;
  same.piece = one.piece;
  same.not_finite = one.not_finite;
  return same == one;
}

DatasetShape inspect_dataset(const DatasetSpec& spec, const FoundDataset& first, Comm& comm) {
  if (have_same_headers(spec, first.spec)) return choose_samples(spec, with_all_rows(first.shape), comm);
  return choose_samples(spec, inspect_headers(spec, comm, first.shape.remembered), comm);
}

std::vector<std::string> skipped_texts(const DatasetSpec& spec, const DatasetShape& shape) {
  return rows_texts(spec, shape, shape.skipped);
}

std::vector<std::string> rows_texts(const DatasetSpec& spec, const DatasetShape& shape,
                                    const std::vector<Index>& rows) {
  const std::vector<Index>& file_rows = shape.file_rows.empty() ? shape.file_samples : shape.file_rows;
  std::vector<std::string> texts;
  Index start = 0;
  auto row = rows.begin();
  for (std::size_t i = 0; i < file_rows.size(); start += file_rows[i++]) {
    std::vector<Index> here;
    for (; row != rows.end() && *row < start + file_rows[i]; ++row) here.push_back(*row - start);
    if (!here.empty()) texts.push_back(spec.files[i] + rows_text(spec, shape, i, here));
  }
  return texts;
}

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
