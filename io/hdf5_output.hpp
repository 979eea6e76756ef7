// HDF5 files that are written: on disk by one or many ranks, and in memory.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/element.hpp"
#include "io/output_file.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// An HDF5 file that appears at commit(), whole, or never (io/output_file.hpp). Its bytes are the same for any number
/// of ranks: data sets are contiguous, their places known as soon as they are made, and without times and fill values.
/// So the root alone writes HDF5's structures, and every rank its own rows, by the system's calls.
///
/// Data sets are named by path ("a" or "group/a"); groups are created. Errors are DataError: file, data set, what is
/// wrong, what to do.
class Hdf5Output {
 public:
  /// Collective; errors as OutputFile's.
  Hdf5Output(const std::string& target, Replace replace, const Comm& comm);
  ~Hdf5Output();
  Hdf5Output(const Hdf5Output&) = delete;
  Hdf5Output& operator=(const Hdf5Output&) = delete;

  /// Collective: a contiguous data set of float32 or uint16. The ranks together write every element of it once.
  void create_dataset(const std::string& name, const std::vector<Index>& shape,
                      ElementType type = ElementType::float32);
  /// By any rank: rows [first, first + rows) from `values`, of the data set's own type.
  void write_rows(const std::string& name, Index first, ConstSpan values);
  void write_rows(const std::string& name, Index first, std::span<const std::uint16_t> values);
  /// The same for planes [first, first + planes) of one row's first axis, from `values`.
  void write_planes(const std::string& name, Index row, Index first, std::span<const std::uint16_t> values);

  // Collective; what the root says counts.
  void write_text(const std::string& name, const std::string& text);       ///< a (1,) variable-length string
  void write_attribute(const std::string& name, const std::string& text);  ///< of the root group, below 64 KiB
  /// Data sets of another file, with their attributes, as they are there.
  void copy_datasets(const std::string& source, const std::vector<std::string>& names);
  /// The attributes of objects ("/" is the root) that this file has not; not references, whose objects are others here.
  void copy_attributes(const std::string& source, const std::vector<std::string>& objects);

  /// Collective: closes the file and puts it in its place. FaultError when rows have not been written.
  void commit();

 private:
  struct State;
  template <typename Element>
  void write_elements(const std::string& name, std::initializer_list<Index> first, std::span<const Element> values);
  std::unique_ptr<State> state_;
};

/// An HDF5 file in this process's memory, with data sets, texts and attributes as above. `name` is for messages.
/// `size`: bytes that it takes at once, and again whenever they are not enough; best a little more than it will hold.
class Hdf5Image {
 public:
  Hdf5Image(const std::string& name, std::size_t size);
  ~Hdf5Image();
  Hdf5Image(const Hdf5Image&) = delete;
  Hdf5Image& operator=(const Hdf5Image&) = delete;

  void add(const std::string& dataset, const std::vector<Index>& shape, ConstSpan values);  ///< float32, whole
  void write_text(const std::string& name, const std::string& text);
  void write_attribute(const std::string& name, const std::string& text);
  /// The file's bytes; the last thing that is done with it.
  std::string bytes();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Every data set of a file by its path, also those in groups, alphabetically. DataError when it cannot be opened.
std::vector<std::string> all_datasets(const std::string& path);

}  // namespace mrmf
