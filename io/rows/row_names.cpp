#include "io/rows/row_names_and_origins.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fnmatch.h>

#include "io/files/text.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/links.hpp"
#include "io/hdf5/rows.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/errors.hpp"

namespace mrmf {

RowName RowName::parse(const std::string& name) {
  const std::size_t at = name.rfind('@');
  if (at == std::string::npos) return {name, ""};
  return {name.substr(0, at), name.substr(at + 1)};
}

RowName name_in(const DataFile& file, const std::string& group, const std::string& name) {
  const std::string path = group.empty() ? name : group + (name.starts_with('@') ? "" : "/") + name;
  if (name.find('@') == std::string::npos) return {path, ""};
  const h5::Lock lock;
  if (h5::is_dataset(h5::follow(file.id(), path))) return {path, ""};
  if (name.ends_with('@'))
    throw DataError(file.path() + ": '" + name + "' stands for an attribute and does not say which; write " + name +
                    "NAME, or, for a data set, its name without @");
  return RowName::parse(name.starts_with("/@") ? name.substr(1) : path);
}

std::string owner_text(const RowName& name) { return name.object.empty() ? "of the file" : "of '" + name.object + "'"; }

std::string attribute_text(const std::string& path, const RowName& name) {
  return path + ": attribute '" + name.attribute + "' " + owner_text(name);
}

h5::Object owner_of(const DataFile& file, const RowName& name) {
  if (name.object.empty()) return h5::Object(H5Oopen(file.id(), "/", H5P_DEFAULT));
  const h5::Target target = h5::follow(file.id(), name.object);
  if (!target.there)
    throw DataError(file.path() + ": no '" + name.object + "' that could have an attribute '" + name.attribute + "'" +
                    (target.broken.empty() ? "" : "; it " + target.broken));
  return h5::Object(H5Oopen(target.file, target.name.c_str(), H5P_DEFAULT));
}

namespace {

herr_t add_name_of_link(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

/// All links of a group, whatever they lead to, by name.
std::vector<std::string> links_of(hid_t group) {
  std::vector<std::string> names;
  H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name_of_link, &names);
  return names;
}

h5::Group open_group(hid_t file, const std::string& path) {
  if (path.empty()) return h5::Group(H5Gopen2(file, "/", H5P_DEFAULT));
  const h5::Target target = h5::follow(file, path);
  if (!target.there) return {};
  const h5::Object object(H5Oopen(target.file, target.name.c_str(), H5P_DEFAULT));
  if (!object || H5Iget_type(object.get()) != H5I_GROUP) return {};
  return h5::Group(H5Gopen2(target.file, target.name.c_str(), H5P_DEFAULT));
}

/// Adds the groups below `above` that fit the rest of a pattern.
void add_groups(hid_t file, const std::string& above, const std::string& pattern, std::vector<std::string>& groups) {
  const h5::Group group = open_group(file, above);
  if (!group) return;
  const std::size_t slash = pattern.find('/');
  const std::string first = pattern.substr(0, slash);
  for (const std::string& name : links_of(group.get())) {
    if (::fnmatch(first.c_str(), name.c_str(), FNM_NOESCAPE) != 0) continue;
    const std::string path = above.empty() ? name : above + "/" + name;
    if (slash != std::string::npos)
      add_groups(file, path, pattern.substr(slash + 1), groups);
    else if (open_group(file, path))
      groups.push_back(path);
  }
}

/// The arrays that a sample's group holds.
std::vector<std::string> arrays_of(const DatasetSpec& spec) {
  std::vector<std::string> arrays = spec.sample_names();
  for (const std::string& name : spec.label_names())
    if (name.find('@') == std::string::npos) arrays.push_back(name);
  return arrays;
}

/// A group that holds the samples, found by depth first; "" where none does.
std::string group_with_samples(hid_t file, const std::string& above, const std::string& samples, int levels) {
  std::vector<std::string> below;
  const h5::Group group = open_group(file, above);
  if (!group) return "";
  for (const std::string& name : links_of(group.get())) {
    const std::string path = above.empty() ? name : above + "/" + name;
    if (!open_group(file, path)) continue;
    if (h5::is_dataset(h5::follow(file, path + "/" + samples))) return path;
    below.push_back(path);
  }
  for (const std::string& path : below)
    if (levels > 0)
      if (std::string found = group_with_samples(file, path, samples, levels - 1); !found.empty()) return found;
  return "";
}

/// What fits a group, and those beside it on every level: "*/*".
std::string pattern_of_depth(const std::string& group) {
  std::string pattern = "*";
  for (const char c : group)
    if (c == '/') pattern += "/*";
  return pattern;
}

[[noreturn]] void refuse(const DataFile& file, const std::string& pattern, bool fit, const DatasetSpec& spec) {
  constexpr int kLevels = 4;
  const std::string one = group_with_samples(file.id(), "", spec.samples, kLevels);
  const bool elsewhere = !one.empty() && std::ranges::count(one, '/') != std::ranges::count(pattern, '/');
  const std::string deeper = elsewhere
                                 ? "; '" + one + "' holds '" + spec.samples +
                                       "': write a name or * for each level, such as \"" + pattern_of_depth(one) + "\""
                                 : "";
  if (fit)
    throw DataError(file.path() + ": none of the groups that fit \"" + pattern + "\" holds a data set '" +
                    spec.samples + "'" + (elsewhere ? deeper : "; correct data.groups, or the name"));
  std::vector<std::string> there;
  add_groups(file.id(), "", "*", there);
  throw DataError(file.path() + ": no group fits \"" + pattern + "\"; " +
                  (there.empty() ? "there is no group" : "there are " + list_near(pattern, there)) +
                  (elsewhere ? deeper : "; correct data.groups"));
}

}  // namespace

std::vector<std::string> groups_of(const DataFile& file, const DatasetSpec& spec) {
  const h5::Lock lock;
  std::string pattern = spec.groups.empty() ? "*" : spec.groups;
  pattern.erase(0, pattern.find_first_not_of('/'));
  while (pattern.ends_with('/')) pattern.pop_back();
  std::vector<std::string> groups;
  add_groups(file.id(), "", pattern, groups);
  if (groups.empty()) refuse(file, pattern, false, spec);
  const std::string last = pattern.substr(pattern.rfind('/') + 1);
  if (last.find_first_not_of('*') != std::string::npos) return groups;
  const std::vector<std::string> arrays = arrays_of(spec);
  std::erase_if(groups, [&](const std::string& group) {
    return std::ranges::none_of(
        arrays, [&](const std::string& name) { return h5::is_dataset(h5::follow(file.id(), group + "/" + name)); });
  });
  if (groups.empty()) refuse(file, pattern, true, spec);
  return groups;
}

namespace {

/// Texts, whatever they hold, as one: each after its length.
std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += std::to_string(text.size()) + ':' + text;
  return all;
}

std::vector<std::string> parted(const std::string& all) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t colon = all.find(':', at), size = std::stoull(all.substr(at, colon - at));
    texts.push_back(all.substr(colon + 1, size));
    at = colon + 1 + size;
  }
  return texts;
}

std::string types_text(const GroupsAsRows& file) {
  std::vector<std::string> texts;
  for (const auto& [name, type] : file.types) {
    texts.push_back(name);
    texts.push_back(std::to_string(static_cast<int>(type)));
  }
  return joined(texts);
}

std::map<std::string, ElementType> types_of(const std::string& text) {
  std::map<std::string, ElementType> types;
  const std::vector<std::string> texts = parted(text);
  for (std::size_t i = 0; i + 1 < texts.size(); i += 2)
    types[texts[i]] = static_cast<ElementType>(std::stoi(texts[i + 1]));
  return types;
}

}  // namespace

std::vector<GroupsAsRows> share_groups(const std::vector<GroupsAsRows>& groups, Comm& comm) {
  std::vector<GroupsAsRows> all(groups.size());
  for (int rank = 0; rank < comm.size() && !groups.empty(); ++rank) {
    const Range files = piece(std::ssize(groups), rank, comm.size());
    std::vector<std::int64_t> counts(static_cast<std::size_t>(files.count));
    std::string names;
    for (std::size_t i = 0; i < counts.size() && rank == comm.rank(); ++i) {
      const GroupsAsRows& file = groups[static_cast<std::size_t>(files.first) + i];
      const std::vector<std::string>& own = *file.names;
      counts[i] = std::ssize(own);
      names += joined(own) + joined({types_text(file)});
    }
    comm.broadcast(std::span(counts), rank);
    comm.broadcast(names, rank);
    const std::vector<std::string> found = parted(names);
    auto next = found.begin();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      GroupsAsRows& file = all[static_cast<std::size_t>(files.first) + i];
      file.names = std::make_shared<const std::vector<std::string>>(next, next + counts[i]);
      next += counts[i];
      file.types = types_of(*next++);
    }
  }
  return all;
}

namespace {

/// Texts.
class WordRows : public RowSource {
 public:
  WordRows(std::vector<Index> shape, const std::string& where, bool whole) : whole_(whole) {
    facts_.where = where;
    facts_.words = true;
    facts_.shape = std::move(shape);
    if (whole_) facts_.shape.insert(facts_.shape.begin(), 1);
    if (facts_.shape.empty()) throw DataError(where + " is a single text; rows of them are wanted");
    facts_.way = {true, "words"};
  }
  std::string row_text(Index row) const override { return where() + (whole_ ? "" : ", row " + std::to_string(row)); }
  void require_written() const override {}
  void read(Index, Index, std::byte*) const override { refuse(); }
  void read(Index, Index, const RowBox&, std::byte*) const override { refuse(); }

 protected:
  bool whole() const { return whole_; }

 private:
  [[noreturn]] void refuse() const { throw DataError(where() + " holds words; " + readable_types()); }

  bool whole_;
};

/// The words of an attribute, read when it is opened.
class AttributeWords final : public WordRows {
 public:
  AttributeWords(h5::StoredWords stored, const std::string& where, bool whole)
      : WordRows(std::move(stored.shape), where, whole), words_(std::move(stored.words)) {}
  std::vector<std::string> words(Index first, Index count) const override {
    const auto at = words_.begin() + static_cast<std::ptrdiff_t>(first * row_elements());
    return {at, at + static_cast<std::ptrdiff_t>(count * row_elements())};
  }

 private:
  std::vector<std::string> words_;
};

/// The words of an array, read when they are asked for.
class ArrayWords final : public WordRows {
 public:
  ArrayWords(std::shared_ptr<const DataFile> file, h5::Dataset dataset, std::vector<Index> shape,
             const std::string& where, bool whole)
      : WordRows(std::move(shape), where, whole), file_(std::move(file)), dataset_(std::move(dataset)) {}
  ArrayWords(const ArrayWords&) = delete;
  ArrayWords& operator=(const ArrayWords&) = delete;
  ~ArrayWords() override {
    const h5::Lock lock;
    dataset_.close();
  }
  std::vector<std::string> words(Index first, Index count) const override {
    const h5::Lock lock;
    if (!whole()) return h5::words_of_rows(dataset_, first, count, where());
    return count == 0 ? std::vector<std::string>{} : h5::words_of(dataset_, where())->words;
  }
  void require_written() const override {
    const h5::Lock lock;
    h5::require_written(dataset_, where());
  }

 private:
  std::shared_ptr<const DataFile> file_;
  h5::Dataset dataset_;
};

}  // namespace

std::unique_ptr<const RowSource> open_words(const std::shared_ptr<const DataFile>& file, const RowName& name,
                                            bool whole) {
  const h5::Lock lock;
  const h5::Target target = h5::follow(file->id(), name.object.empty() ? "/" : name.object);
  if (name.attribute.empty()) {
    if (!h5::is_dataset(target)) return nullptr;
    const std::string where = file->path() + ": data set '" + name.object + "'";
    h5::Dataset dataset(H5Dopen2(target.file, target.name.c_str(), H5P_DEFAULT));
    auto shape = h5::shape_of_words(dataset);
    return shape ? std::make_unique<ArrayWords>(file, std::move(dataset), std::move(*shape), where, whole) : nullptr;
  }
  const h5::Object owner = owner_of(*file, name);
  if (!owner || H5Aexists(owner.get(), name.attribute.c_str()) <= 0) return nullptr;
  const std::string where = attribute_text(file->path(), name);
  auto stored = h5::words_of(h5::Attribute(H5Aopen(owner.get(), name.attribute.c_str(), H5P_DEFAULT)), where);
  return stored ? std::make_unique<AttributeWords>(std::move(*stored), where, whole) : nullptr;
}

}  // namespace mrmf
