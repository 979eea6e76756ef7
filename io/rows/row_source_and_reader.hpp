// Rows of a data set, wherever its files have them: as arrays, attributes or groups, with a cache of open files; and
// rows of one array, read by any thread, with a cache of where they lie in files that have been opened before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/duplicate_rows.hpp"
#include "io/values/class_names.hpp"
#include "io/values/element_type.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// Rows of one data set of one file, read by any thread.

/// How rows get from the file into memory; `text` is for people.
struct ReadPath {
  bool direct = false;  ///< with pread, without HDF5 and its lock
  std::string text;     ///< "contiguous", "chunked (3 rows a chunk)", "compressed (1 row a chunk)", ...
  bool operator==(const ReadPath&) const = default;
};

/// A part of each row: a range along each axis of the data set but the first.
struct RowBox {
  std::vector<Index> first, count;
  bool operator==(const RowBox&) const = default;
};

/// Copies the box's part of a row, which is of an array of this shape (rows first), and lies whole at `row`. Returns
/// the end of the copy.
std::byte* copy_box(const std::vector<Index>& shape, Index element_bytes, const RowBox& box, const std::byte* row,
                    std::byte* to);

class DataFile;

/// Rows of numbers that lie in their own file as one run of bytes, or are an attribute, as they were found there. With
/// that they are read again without a look at the file's headers, as long as the file is what it was.
struct PlainRows {
  /// What is the same in files that are alike.
  struct Form {
    Packing packing;
    std::vector<Index> shape;
    std::string units;
    ReadPath way;
    bool whole = false;
    NumberNames names{};
    bool operator==(const Form&) const = default;
  };
  std::shared_ptr<const Form> form;
  FileState state;
  Index offset = 0;                 ///< offset of the first byte
  std::uint64_t address = 0;        ///< address of the array's object
  std::vector<std::byte> values{};  ///< values of an attribute: all of them; else empty
};

/// Rows of one data set of one file, in their own element type or unpacked, read by any thread. Keeps its file open.
/// Contiguous data sets in this machine's own format are read without HDF5, by many threads at once. All others are
/// read through HDF5, by one thread at a time.
class RowReader {
 public:
  /// DataError when file or data set cannot be opened.
  RowReader(const std::string& path, const std::string& dataset, const RowsOpening& opening = {});
  /// Reads from a file that is open already and that others use, too.
  RowReader(std::shared_ptr<const DataFile> file, const std::string& dataset, const RowsOpening& opening = {});
  /// A reader of rows that were plain() before, without asking HDF5 again; none where the file is not what it was then,
  /// or cannot be opened.
  static std::optional<RowReader> again(const std::string& path, const std::string& dataset, const PlainRows& known);
  RowReader(RowReader&&) noexcept;
  RowReader& operator=(RowReader&&) noexcept;
  ~RowReader();

  ElementType type() const;                 ///< type of the numbers that are read
  const Packing& packing() const;           ///< how they come from those in the file
  const std::vector<Index>& shape() const;  ///< rows first
  const std::string& units() const;         ///< the array's units, as Rows have them; "" where it says nothing
  const NumberNames& names() const;         ///< what its numbers are called
  const std::string& where() const;         ///< "<path>: data set '<name>'", for messages
  Index row_bytes() const;
  ReadPath way() const;
  ChunkMemory chunk_memory() const;
  bool elsewhere() const;                ///< as Storage's (io/hdf5/rows.hpp)
  const ObjectIdentity& object() const;  ///< the data set
  /// With which they can be read again(); nothing where they cannot, as those that the library reads.
  std::optional<PlainRows> plain() const;

  /// DataError with the first row when rows were never written, or come from a missing file. Reads no rows.
  void require_written() const;
  /// Reads rows [first, first + count) into count * row_bytes() bytes. DataError: file, data set, row, what is wrong.
  void read(Index first, Index count, std::byte* to) const;
  /// Reads a box of each of these rows, one row after the other.
  void read(Index first, Index count, const RowBox& box, std::byte* to) const;

 private:
  struct State;
  explicit RowReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Where the rows of files lie that have been opened before. Private to io/.

/// Where the rows of arrays lie that are read without HDF5, and the values of attributes: so that of a file whose
/// headers this rank has read once, they are not read again. Takes some 200 bytes for each. On any thread.
class RowHeaderCache {
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

// What was opened last: as many things as may be open at once. Private to io/.

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

// Where the rows of a data set lie: what each of its names stands for in each of its files. All that reads rows of a
// data set asks here, so that nothing else knows what one row is. Who asks whom (labels and headers ask RowSources):
//
//   RowStream   asks SampleFiles for samples that are to be in memory soon.
//   SampleFiles asks StoredRows which rows of which file they are (RowRun), and RowSources for that file.
//   RowSources  gives the file's OpenRows: a RowSource for each name, made anew or of PlainRows that it remembers.
//   RowSource   asks RowReader for rows of an array. Attributes it has in memory; a row that is a group has its own.
//   RowReader   asks h5::Rows, which ask the HDF5 library. What lies as plain bytes (PlainRows) it reads by itself.

/// A name, as configurations have it: "density" and "fields/density" are arrays. "@omega_m" is an attribute of the
/// file; "density@omega_m" is one of an object of that name. With RowsBy::groups, names are within the sample's group:
/// "@omega_m" is an attribute of the group, and "/@omega_m" one of the file, the same for all of its samples. An array
/// whose own name is of that form is the array.
struct RowName {
  std::string object;     ///< "": the file, or the group
  std::string attribute;  ///< "": the object is an array
  static RowName parse(const std::string& name);
};

/// The rows under one name of one file, open, in their own element type. Read by any thread.
class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource() = default;

  ElementType type() const { return facts_.type; }
  const std::vector<Index>& shape() const { return facts_.shape; }  ///< rows first
  Index row_bytes() const { return facts_.row_bytes; }
  Index row_elements() const;
  /// Whether these are texts: then type() is other, and only words() reads them.
  bool holds_words() const { return facts_.words; }
  const ReadPath& way() const { return facts_.way; }
  const ChunkMemory& chunk_memory() const { return facts_.chunk_memory; }  ///< chunk memory of the first
  const Packing& packing() const {
    return facts_.packing;
  }  ///< how these numbers come from those in the file; of groups, in the first
  /// Calls visit() for the packing of all rows or, of groups, which may each have their own, for that of each row. Not
  /// of words. Opens groups.
  virtual void for_each_packing(const std::function<void(const Packing&)>& visit) const {
    if (!holds_words()) visit(packing());
  }
  const std::string& units() const { return facts_.units; }  ///< as units_text() has it; "": the array says nothing
  const NumberNames& names() const { return facts_.names; }  ///< what numbers are called; of groups, in the first
  const std::string& where() const { return facts_.where; }  ///< "<path>: data set '<name>'", for messages
  /// The same with the row: "<path>: data set '<name>', row 3", or, of a group, "<path>: data set 'sim_3/<name>'".
  virtual std::string row_text(Index row) const = 0;

  /// DataError when rows were never written, or come from a missing file. Reads none of them.
  virtual void require_written() const = 0;
  /// What rows have in common, and the most that any of them needs.
  struct Common {
    using Said = std::pair<std::string, NumberNames>;  ///< names of numbers, with where() they are first
    std::string units;                                 ///< units of the first that has some
    bool elsewhere;   ///< rows may lie in another file than the one that was named, or be the same: origins() tells
    Index converted;  ///< bytes of an element in the file, where it is converted on the way to kept_as(type()); else 0
    ChunkMemory chunk_memory;
    std::vector<Said> names;
    ElementType type;  ///< that holds the numbers of all of them
  };
  /// DataError where rows are not alike in shape and units, which those of groups need not be, or hold words and
  /// numbers, or were never written (`written`). Opens them all.
  virtual Common require_alike(bool written) const;
  /// Whether rows may lie in another file than the one that was named; of groups, require_alike() tells.
  bool elsewhere() const { return facts_.elsewhere; }
  /// The array that is a row, where all of one is; none of attributes and words.
  const std::optional<ObjectIdentity>& object() const { return facts_.object; }
  /// Where the rows truly lie, ascending (io/rows/duplicate_rows.hpp); nowhere where they are attributes. Opens files.
  virtual std::vector<RowOrigin> origins() const { return {}; }
  /// With what they can be opened again without a look at the file's headers; nothing where that is not to be had, as
  /// for rows that the library reads.
  virtual std::optional<PlainRows> plain() const { return {}; }
  virtual void read(Index first, Index count, std::byte* to) const = 0;
  virtual void read(Index first, Index count, const RowBox& box, std::byte* to) const = 0;
  /// The texts of these rows, where holds_words().
  virtual std::vector<std::string> words(Index first, Index count) const;

 protected:
  struct Facts {
    ElementType type = ElementType::other;
    std::vector<Index> shape;
    Index row_bytes = 0;
    ReadPath way;
    ChunkMemory chunk_memory;
    std::string where;
    std::string units{};
    bool words = false;
    Packing packing{};
    bool elsewhere = false;
    std::optional<ObjectIdentity> object{};
    NumberNames names{};
  };
  Facts facts_;
};

/// DataError where data sets of one name differ: `what` ("<path>: data set '<name>'") has one thing, `other` another.
/// `remedy`: what else may be done than to leave one of them out.
[[noreturn]] void refuse_unlike(const std::string& what, const std::string& has, const std::string& other,
                                const std::string& other_has, const std::string& remedy = "");

/// What the names of a data set stand for in one file, in the names' order.
using OpenRows = std::vector<std::unique_ptr<const RowSource>>;

/// The rows under some names of a data set, in all of its files. Remembers where they lie (RowHeaderCache), together
/// with all others of the same shape.
class RowSources {
 public:
  struct Limits {
    std::size_t files = 1;            ///< open at once: those that were used last
    Index most_cached = kMostCached;  ///< bytes of unpacked chunks, in each array
    bool words = false;               ///< whether texts may be opened, too
  };
  /// `shape` is what inspect_dataset() has found; null: not yet known, so that groups are looked for.
  RowSources(const DatasetSpec& spec, const DatasetShape* shape, std::vector<std::string> names, Limits limits);
  RowSources(const DatasetSpec& spec, const DatasetShape& shape, std::vector<std::string> names)
      : RowSources(spec, &shape, std::move(names), {}) {}
  RowSources(const RowSources&) = delete;
  RowSources& operator=(const RowSources&) = delete;

  const std::vector<std::string>& names() const { return names_; }
  const std::string& path(std::size_t file) const { return spec_.files[file]; }
  /// The rows of a file, by its index in the data set's list; none of them is read. On any thread. DataError when the
  /// file or one of the names is not there, or holds no numbers.
  std::shared_ptr<const OpenRows> at(std::size_t file) const;
  /// Opens a file's rows anew, even if they are still open.
  std::shared_ptr<const OpenRows> open(std::size_t file) const;
  /// Opens a file's rows anew, and finds the groups that are its rows, unless they are given.
  std::shared_ptr<const OpenRows> open(std::size_t file, GroupsAsRows& groups) const;
  /// What is remembered of these files, for a shape that others will use.
  RememberedRows remembered() const { return {memory_}; }
  /// All files that rows under these names are read from, or in which links on the way to them lie. For
  /// require_output(): while `target` does not exist, they are only those of the list.
  std::vector<std::string> all_inputs(const std::string& target) const;

 private:
  std::shared_ptr<const OpenRows> open_again(std::size_t file) const;
  RowHeaderCache::Name in_memory(std::size_t file, const std::string& name) const;

  DatasetSpec spec_;
  std::vector<GroupsAsRows> groups_;
  std::vector<std::string> names_;
  Limits limits_;
  std::shared_ptr<RowHeaderCache> memory_;
  std::unique_ptr<LruCache<OpenRows>> recent_;
};

/// How many files a data set may keep open, of those that a process may have (`ulimit -n`).
std::size_t most_open_files();

}  // namespace mrmf
