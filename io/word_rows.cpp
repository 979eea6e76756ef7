#include "io/word_rows.hpp"

#include <string>
#include <utility>
#include <vector>

#include "io/hdf5_library.hpp"
#include "io/hdf5_links.hpp"
#include "io/hdf5_rows.hpp"
#include "io/row_names.hpp"
#include "kernels/check.hpp"

namespace mrmf {
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
  std::string place(Index row) const override { return where() + (whole_ ? "" : ", row " + std::to_string(row)); }
  void require_written() const override {}
  void read(Index, Index, std::byte*) const override { refuse(); }
  void read(Index, Index, const RowBox&, std::byte*) const override { refuse(); }

 protected:
  bool whole() const { return whole_; }

 private:
  [[noreturn]] void refuse() const { throw DataError(where() + " holds words; " + readable_types()); }

  bool whole_;
};

/// Of an attribute, read when it is opened.
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

/// Of an array, read when they are asked for.
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
