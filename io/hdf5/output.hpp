// HDF5 files for writing, by one or many ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/values/element_type.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// An HDF5 file that appears whole at commit(), or never (io/files/output_file.hpp). Its bytes are the same for any
/// number of ranks: data sets are contiguous and get their offsets in the file at once, without times or fill values.
/// The root alone writes HDF5's structures; every rank writes its own rows with system calls.
///
/// Data sets are named by path ("a" or "group/a"); groups are created. Errors are DataError: file, data set, what is
/// wrong, what to do.
class Hdf5Output {
 public:
  /// What follows HDF5's last byte: a checksum of all bytes before (io/files/output_file.hpp), or nothing.
  enum class End { plain, checksum };

  /// Collective; errors as OutputFile's.
  Hdf5Output(const std::string& target, Replace replace, const Comm& comm, End end = End::plain);
  ~Hdf5Output();
  Hdf5Output(const Hdf5Output&) = delete;
  Hdf5Output& operator=(const Hdf5Output&) = delete;

  /// On the root: takes room for so many bytes of data sets at once, where the file system can. DataError when there is
  /// less.
  void reserve(std::uint64_t bytes);
  /// Collective: a contiguous data set of any type but `other`, little-endian. Together, the ranks write every element
  /// exactly once.
  void create_dataset(const std::string& name, const std::vector<Index>& shape,
                      ElementType type = ElementType::float32);
  /// Collective: as create_dataset(), of an enumeration with these values of such a type where the root has some.
  void create_enumeration(const std::string& name, const std::vector<Index>& shape, ElementType type,
                          const std::map<Index, std::string>& values);
  /// Collective: a contiguous data set of texts of so many bytes each, which zeros fill up: write_rows() takes their
  /// bytes.
  void create_texts(const std::string& name, const std::vector<Index>& shape, Index bytes);
  /// On any rank: writes `values`, of the data set's own type, as rows from `first` on.
  void write_rows(const std::string& name, Index first, ConstSpan values);
  void write_rows(const std::string& name, Index first, std::span<const std::uint16_t> values);
  void write_rows(const std::string& name, Index first, std::span<const std::uint32_t> values);
  void write_rows(const std::string& name, Index first, std::span<const std::byte> values);  ///< as in memory, any type
  /// On any rank: writes values of a data set of float32, from the one with the number `first` on.
  void write_values(const std::string& name, Index first, ConstSpan values);
  /// On any rank: writes planes along the first axis of one row, from plane `first` on.
  void write_planes(const std::string& name, Index row, Index first, std::span<const std::uint16_t> values);

  // Collective. The root's arguments count.
  void write_text(const std::string& name, const std::string& text);  ///< a (1,) variable-length string
  /// An attribute of the root group, below 64 KiB.
  void write_attribute(const std::string& name, const std::string& text);
  /// Copies data sets of another file, with their attributes but for those named.
  void copy_datasets(const std::string& source, const std::vector<std::string>& names,
                     const std::vector<std::string>& except = {});
  /// Copies attributes of objects ("/" is the root) that this file lacks; not references, whose targets are not here,
  /// nor those named.
  void copy_attributes(const std::string& source, const std::vector<std::string>& objects,
                       const std::vector<std::string>& except = {});
  /// Says of a data set of float32 that what is NaN in it is missing, as netCDF does.
  void mark_missing(const std::string& dataset);

  /// Gives this file the groups of another with their attributes, and the further names of its data sets and groups.
  void copy_names(const std::string& source, const FileNames& names);
  /// What the copies made above lack of their source, a line each; the root knows.
  std::vector<std::string> left_out() const;

  /// Collective: closes the file, as OutputFile::finish() does. FaultError when rows have not been written.
  std::unique_ptr<FinishedFile> finish();
  /// Collective: closes the file as finish() does, and gives it its name.
  void commit();

 private:
  struct State;
  void create(const std::string& name, const std::vector<Index>& shape, ElementType type, Index text,
              const std::map<Index, std::string>& values);
  void close();
  void write_bytes(const std::string& name, std::initializer_list<Index> first, std::span<const std::byte> bytes,
                   std::size_t element);  // bytes of an element as the caller has it; 0: as the data set has it
  std::unique_ptr<State> state_;
};

}  // namespace mrmf
