#include "io/rows/row_source_and_reader.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "io/files/input_file.hpp"
#include "io/files/text.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/links.hpp"
#include "io/hdf5/rows.hpp"
#include "io/rows/duplicate_rows.hpp"
#include "io/rows/row_names_and_origins.hpp"
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

using File = std::shared_ptr<const DataFile>;
class ArrayRows final : public RowSource {
 public:
  ArrayRows(const File& file, const std::string& name, const RowsOpening& opening)
      : ArrayRows(file->path(), name, opening.whole, RowReader(file, name, opening)) {}
  ArrayRows(std::string path, std::string name, bool whole, RowReader reader)
      : path_(std::move(path)), name_(std::move(name)), whole_(whole), reader_(std::move(reader)) {
    facts_ = {reader_.type(),         reader_.shape(), reader_.row_bytes(), reader_.way(),
              reader_.chunk_memory(), reader_.where(), reader_.units(),     false,
              reader_.packing()};
    facts_.elsewhere = reader_.elsewhere();
    facts_.names = reader_.names();
    if (whole_) facts_.object = reader_.object();
  }
  std::vector<RowOrigin> origins() const override {
    const std::size_t axis = whole_ ? 1 : 0;  // the first in the file
    if (const auto plain = reader_.plain(); plain && shape().size() > axis)
      return h5::row_origins({plain->state.file, plain->address}, shape()[axis], whole_);
    const h5::Lock lock;
    const DataFile file(path_);
    return h5::row_origins(h5::open_dataset(path_, file.id(), name_), whole_);
  }
  std::string row_text(Index row) const override { return where() + (whole_ ? "" : ", row " + std::to_string(row)); }
  void require_written() const override { reader_.require_written(); }
  std::optional<PlainRows> plain() const override { return reader_.plain(); }
  void read(Index first, Index count, std::byte* to) const override { reader_.read(first, count, to); }
  void read(Index first, Index count, const RowBox& box, std::byte* to) const override {
    reader_.read(first, count, box, to);
  }

 private:
  std::string path_, name_;
  bool whole_;
  RowReader reader_;
};

[[noreturn]] void no_attribute(const std::string& path, const RowName& name, hid_t object) {
  const std::vector<std::string> there = h5::attribute_names(object);
  const std::string meant = nearest(name.attribute, there);
  throw DataError(path + ": no attribute '" + name.attribute + "' " + owner_text(name) + "; " +
                  (there.empty() ? "it has none" : "there are " + list_near(name.attribute, there)) +
                  (meant.empty() ? "" : "; do you mean '" + meant + "'?"));
}

/// An attribute's numbers, read when it is opened.
class AttributeRows final : public RowSource {
 public:
  AttributeRows(const File& file, const RowName& name, bool whole) : whole_(whole) {
    const h5::Lock lock;
    facts_.where = attribute_text(file->path(), name);
    const h5::Object owner = owner_of(*file, name);
    h5::require(bool(owner), facts_.where + " cannot be opened");
    if (H5Aexists(owner.get(), name.attribute.c_str()) <= 0) no_attribute(file->path(), name, owner.get());
    const h5::Attribute attribute(H5Aopen(owner.get(), name.attribute.c_str(), H5P_DEFAULT));
    h5::require(bool(attribute), facts_.where + " cannot be opened");
    read(attribute);
    if (const auto open = h5::plain_file_of(owner.get())) state_ = file_state(open->number());
  }
  AttributeRows(const std::string& path, const RowName& name, const PlainRows& known)
      : whole_(known.form->whole), state_(known.state), values_(known.values) {
    facts_.where = attribute_text(path, name);
    facts_.shape = known.form->shape;
    facts_.names = known.form->names;
    set_form(known.form->packing.stored, known.form->way);
  }
  std::optional<PlainRows> plain() const override {
    if (!state_ || values_.empty()) return {};
    PlainRows::Form form{packing(), shape(), units(), way(), whole_, names()};
    return PlainRows{std::make_shared<const PlainRows::Form>(std::move(form)), *state_, 0, 0, values_};
  }
  std::string row_text(Index row) const override { return where() + (whole_ ? "" : ", row " + std::to_string(row)); }
  void require_written() const override {}
  void read(Index first, Index count, std::byte* to) const override {
    MRMF_CHECK(first >= 0 && count >= 0 && first + count <= shape().front(), where());
    std::copy_n(values_.data() + first * row_bytes(), count * row_bytes(), to);
  }
  void read(Index first, Index count, const RowBox& box, std::byte* to) const override {
    for (Index row = first; row < first + count; ++row)
      to = copy_box(shape(), size_of(type()), box, values_.data() + row * row_bytes(), to);
  }

 private:
  void read(const h5::Attribute& attribute) {
    const h5::Space space(H5Aget_space(attribute.get()));
    const h5::Type type(H5Aget_type(attribute.get()));
    const h5::Element element = h5::element_of(type.get());
    facts_.type = element.type;
    facts_.names = h5::number_names(attribute.get(), type.get());
    if (facts_.type == ElementType::other)
      throw DataError(where() + " holds " + h5::describe(type.get()) + " elements; " + readable_types());
    facts_.shape = h5::shape_of(space.get(), {});
    if (whole_) facts_.shape.insert(facts_.shape.begin(), 1);
    if (!facts_.shape.empty())
      facts_.shape.insert(facts_.shape.end(), element.axes.begin(), element.axes.end());
    else
      throw DataError(where() +
                      " is a single value; rows are wanted, or, where each file or group is a sample, data.rows");
    set_form(facts_.type, {true, "an attribute"});
    values_.resize(static_cast<std::size_t>(facts_.shape.front() * facts_.row_bytes));
    const h5::Type memory = h5::memory_type(type.get());
    if (!values_.empty())
      h5::require(H5Aread(attribute.get(), memory.get(), values_.data()) >= 0, where() + " cannot be read");
  }

  void set_form(ElementType type, const ReadPath& way) {
    facts_.type = facts_.packing.stored = type;
    facts_.way = way;
    facts_.row_bytes =
        std::accumulate(facts_.shape.begin() + 1, facts_.shape.end(), size_of(type), std::multiplies<>());
  }

  bool whole_;
  std::optional<FileState> state_;  // state of the file that holds it, which a link may have led to
  std::vector<std::byte> values_;
};

/// How rows are opened, whether texts may be, and whether a group's rows must have been written.
struct Opening : RowsOpening {
  bool words = false, written = false;
};

std::unique_ptr<const RowSource> open_name(const File& file, const RowName& name, const Opening& opening) {
  if (opening.words)
    if (auto words = open_words(file, name, opening.whole)) return words;
  if (name.attribute.empty()) return std::make_unique<ArrayRows>(file, name.object, opening);
  return std::make_unique<AttributeRows>(file, name, opening.whole);
}

/// A row for each group: what the name is there, opened when it is read.
class GroupRows final : public RowSource {
 public:
  GroupRows(File file, GroupsAsRows groups, std::string name, const Opening& opening)
      : file_(std::move(file)), groups_(std::move(groups)), name_(std::move(name)), opening_(opening) {
    const auto first = open(0);
    facts_ = {first->type(),  first->shape(), first->row_bytes(),   first->way(),    first->chunk_memory(),
              first->where(), first->units(), first->holds_words(), first->packing()};
    facts_.shape.front() = std::ssize(*groups_.names);
    facts_.names = first->names();
    const auto joint = groups_.types.find(name_);
    if (joint == groups_.types.end() || holds_words()) return;
    facts_.type = facts_.packing.stored = joint->second;
    facts_.row_bytes = row_elements() * size_of(joint->second);
    joint_ = true;
  }
  std::vector<RowOrigin> origins() const override {
    const h5::Lock lock;
    std::vector<RowOrigin> all;
    for (Index row = 0; row < shape().front(); ++row) {
      const RowName array = name_in(*file_, group(row), name_);
      if (!array.attribute.empty()) continue;
      for (RowOrigin& origin : h5::row_origins(h5::open_dataset(file_->path(), file_->id(), array.object), true)) {
        origin.first = row;
        all.push_back(std::move(origin));
      }
    }
    return all;
  }
  std::string row_text(Index row) const override { return open_alike(row)->where(); }
  void require_written() const override {}  // each is when it is opened
  Common require_alike(bool written) const override {
    Common all{units(), false, 0, {}, {}, type()};
    std::string having = all.units.empty() ? "" : group(0);
    std::set<ObjectIdentity> arrays;  // links may lead to one array twice
    for (Index row = 0; row < shape().front(); ++row) {
      const auto rows = open_shaped(row);
      const Common one = rows->require_alike(written && !opening_.written);
      if (all.units.empty() && !one.units.empty()) all.units = one.units, having = group(row);
      if (!one.units.empty() && !same_units(one.units, all.units)) {
        const auto [here, there, remedy] = units_difference(one.units, all.units);
        refuse(*rows, here, "that of '" + having + "' " + there, remedy);
      }
      all.elsewhere = all.elsewhere || one.elsewhere || (rows->object() && !arrays.insert(*rows->object()).second);
      for (const auto& said : one.names)
        if (std::ranges::find(all.names, said.second, &Common::Said::second) == all.names.end())
          all.names.push_back(said);
      all.converted = std::max(all.converted, one.converted);
      if (one.type != all.type) all.type = ElementType::float64;
      all.chunk_memory.cache = std::max(all.chunk_memory.cache, one.chunk_memory.cache);
      all.chunk_memory.unpacking = std::max(all.chunk_memory.unpacking, one.chunk_memory.unpacking);
    }
    if (all.type != type()) all.converted = std::max(all.converted, size_of(all.type));
    return all;
  }
  void for_each_packing(const std::function<void(const Packing&)>& visit) const override {
    for (Index row = 0; row < shape().front() && !holds_words(); ++row) visit(open(row)->packing());
  }
  void read(Index first, Index count, std::byte* to) const override {
    for (Index row = first; row < first + count; ++row, to += row_bytes())
      read_joint(row, row_elements(), to, [&](const RowSource& rows, std::byte* at) { rows.read(0, 1, at); });
  }
  void read(Index first, Index count, const RowBox& box, std::byte* to) const override {
    const Index elements = std::accumulate(box.count.begin(), box.count.end(), Index{1}, std::multiplies<>());
    for (Index row = first; row < first + count; ++row, to += elements * size_of(type()))
      read_joint(row, elements, to, [&](const RowSource& rows, std::byte* at) { rows.read(0, 1, box, at); });
  }
  std::vector<std::string> words(Index first, Index count) const override {
    std::vector<std::string> all;
    for (Index row = first; row < first + count; ++row)
      for (std::string& word : open_alike(row)->words(0, 1)) all.push_back(std::move(word));
    return all;
  }

 private:
  static std::string kind(const RowSource& rows) { return rows.holds_words() ? "words" : "numbers"; }
  const std::string& group(Index row) const { return (*groups_.names)[static_cast<std::size_t>(row)]; }

  std::unique_ptr<const RowSource> open(Index row) const {
    return open_name(file_, name_in(*file_, group(row), name_), opening_);
  }
  /// `read` reads a row's elements in their own type, which become those of all rows.
  template <typename Read>
  void read_joint(Index row, Index elements, std::byte* to, const Read& read) const {
    const auto rows = open_alike(row);
    if (rows->type() == type()) return read(*rows, to);
    std::vector<std::byte> own(static_cast<std::size_t>(elements * size_of(rows->type())));
    read(*rows, own.data());
    for (Index i = 0; i < elements; ++i) {
      const double number = number_at(rows->type(), own.data(), i);
      std::memcpy(to + i * size_of(type()), &number, sizeof number);
    }
  }
  std::unique_ptr<const RowSource> open_alike(Index row) const {
    auto rows = open_shaped(row);
    if (rows->type() != type() && !joint_)
      refuse(*rows, "elements of " + to_string(rows->type()), first_text() + to_string(type()));
    return rows;
  }
  std::unique_ptr<const RowSource> open_shaped(Index row) const {
    auto rows = open(row);
    const auto shape_of = [](const RowSource& of) { return shape_text({of.shape().begin() + 1, of.shape().end()}); };
    if (!std::equal(shape().begin() + 1, shape().end(), rows->shape().begin() + 1, rows->shape().end()))
      refuse(*rows, "shape " + shape_of(*rows), first_text() + shape_of(*this));
    if (rows->holds_words() != holds_words()) refuse(*rows, kind(*rows), first_text() + kind(*this));
    if (opening_.written) rows->require_written();
    return rows;
  }
  std::string first_text() const { return "that of '" + group(0) + "' "; }
  [[noreturn]] static void refuse(const RowSource& rows, const std::string& here, const std::string& there,
                                  const std::string& remedy = "") {
    throw DataError(rows.where() + " has " + here + ", and " + there + "; all samples are alike: " +
                    (remedy.empty() ? "correct the group" : remedy) + ", or leave it out by data.groups");
  }

  File file_;
  GroupsAsRows groups_;
  std::string name_;
  Opening opening_;
  bool joint_ = false;  // type() is float64, which holds the numbers of all groups, whose types differ
};

}  // namespace

RowSource::Common RowSource::require_alike(bool written) const {
  if (written) require_written();
  Index converted = 0;
  if (!holds_words() && type() != kept_as(type()))
    converted = size_of(type());
  else if (!holds_words() && !packing().in_place())
    converted = size_of(packing().stored);
  return {units(), facts_.elsewhere, converted, chunk_memory(), {{where(), names()}}, type()};
}

void refuse_unlike(const std::string& what, const std::string& has, const std::string& other,
                   const std::string& other_has, const std::string& remedy) {
  throw DataError(what + " has " + has + ", but " + other + " has " + other_has + "; " +
                  (remedy.empty() ? "" : remedy + ", or ") + "leave one of them out");
}

Index RowSource::row_elements() const {
  return std::accumulate(shape().begin() + 1, shape().end(), Index{1}, std::multiplies<>());
}

std::vector<std::string> RowSource::words(Index, Index) const {
  MRMF_CHECK(false, where() + ": words of numbers");
  return {};
}

RowSources::RowSources(const DatasetSpec& spec, const DatasetShape* shape, std::vector<std::string> names,
                       Limits limits)
    : spec_(spec), names_(std::move(names)), limits_(limits) {
  if (shape != nullptr) groups_ = shape->groups, memory_ = shape->remembered.memory;
  if (memory_ == nullptr) memory_ = std::make_shared<RowHeaderCache>();
  recent_ = std::make_unique<LruCache<OpenRows>>(limits.files, [this](std::size_t file) { return open(file); });
}

std::shared_ptr<const OpenRows> RowSources::at(std::size_t file) const { return recent_->at(file); }

std::shared_ptr<const OpenRows> RowSources::open(std::size_t file) const {
  GroupsAsRows groups;
  return open(file, groups);
}

RowHeaderCache::Name RowSources::in_memory(std::size_t file, const std::string& name) const {
  return {path(file), name, spec_.rows != RowsBy::axis, spec_.packing};
}

namespace {

/// Rows that were found before; null where their file is not what it was.
std::unique_ptr<const RowSource> found_again(const std::string& path, const std::string& name, const PlainRows& known) {
  if (!known.values.empty())
    return file_state(path) == known.state ? std::make_unique<AttributeRows>(path, RowName::parse(name), known)
                                           : nullptr;
  std::optional<RowReader> reader = RowReader::again(path, name, known);
  return reader ? std::make_unique<ArrayRows>(path, name, known.form->whole, std::move(*reader)) : nullptr;
}

}  // namespace

/// Null where a file's headers are to be read.
std::shared_ptr<const OpenRows> RowSources::open_again(std::size_t file) const {
  auto rows = std::make_shared<OpenRows>();
  for (const std::string& name : names_) {
    const std::optional<PlainRows> known = memory_->find(in_memory(file, name));
    auto found = known ? found_again(path(file), name, *known) : nullptr;
    if (!found) return nullptr;
    rows->push_back(std::move(found));
  }
  return rows;
}

std::shared_ptr<const OpenRows> RowSources::open(std::size_t file, GroupsAsRows& groups) const {
  if (auto known = open_again(file)) return known;
  const auto opened = std::make_shared<const DataFile>(path(file));
  if (!groups_.empty())
    groups = groups_.at(file);
  else if (spec_.rows == RowsBy::groups && !groups.names)
    groups.names = std::make_shared<const std::vector<std::string>>(groups_of(*opened, spec_));
  const Opening opening{{limits_.most_cached, spec_.rows != RowsBy::axis, spec_.packing},
                        limits_.words,
                        spec_.missing == MissingRule::refuse};
  auto rows = std::make_shared<OpenRows>();
  for (const std::string& name : names_)
    if (spec_.rows == RowsBy::groups)
      rows->push_back(std::make_unique<GroupRows>(opened, groups, name, opening));
    else
      rows->push_back(open_name(opened, name_in(*opened, "", name), opening));
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (std::optional<PlainRows> plain = (*rows)[i]->plain())
      memory_->keep(in_memory(file, names_[i]), std::move(*plain));
  return rows;
}

std::vector<std::string> RowSources::all_inputs(const std::string& target) const {
  std::vector<std::string> files = spec_.files;
  std::error_code unknown;
  if (!std::filesystem::exists(target, unknown)) return files;
  const h5::Lock lock;
  for (const std::string& path : spec_.files) {
    if (!std::filesystem::is_regular_file(path, unknown)) continue;  // told where it is opened
    const DataFile file(path);
    std::vector<std::string> groups{""};
    if (spec_.rows == RowsBy::groups) groups = groups_of(file, spec_);
    for (const std::string& group : groups)
      for (const std::string& name : names_)
        if (const RowName row = name_in(file, group, name); !row.object.empty())
          h5::add_inputs(file.id(), path, row.object, files);
  }
  std::ranges::sort(files);
  files.erase(std::ranges::unique(files).begin(), files.end());
  return files;
}

std::size_t most_open_files() {
  constexpr rlim_t kOthers = 128, kLeast = 8, kMost = 4096;  // files of the program itself, libraries and MPI
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  const rlim_t left = limit.rlim_cur > kOthers ? limit.rlim_cur - kOthers : 0;
  return static_cast<std::size_t>(std::clamp(left / 2, kLeast, kMost));  // training and validation
}

}  // namespace mrmf
