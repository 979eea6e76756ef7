// Links of every kind to one data set, and what lies at its place in the file that holds them.
#pragma once

#include "tests/support/data_files.hpp"

namespace mrmf::test {

/// An HDF5 file that is open for additions.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path, hid_t creation = H5P_DEFAULT)
      : id_(std::filesystem::exists(path) ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                                          : H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation, H5P_DEFAULT)) {
    if (id_ < 0) throw std::runtime_error("test file cannot be opened: " + path);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { H5Fclose(id_); }

  void soft(const std::string& name, const std::string& target) const {
    made(H5Lcreate_soft(target.c_str(), id_, name.c_str(), links().get(), H5P_DEFAULT), name);
  }
  void hard(const std::string& name, const std::string& target) const {
    made(H5Lcreate_hard(id_, target.c_str(), id_, name.c_str(), links().get(), H5P_DEFAULT), name);
  }
  void external(const std::string& name, const std::string& file, const std::string& target) const {
    made(H5Lcreate_external(file.c_str(), target.c_str(), id_, name.c_str(), links().get(), H5P_DEFAULT), name);
  }
  /// float32, all of it from the data set `source` of `file`.
  void virtual_of(const std::string& name, const std::vector<std::int64_t>& shape, const std::string& file,
                  const std::string& source) const {
    const std::vector<hsize_t> sizes(shape.begin(), shape.end());
    const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_virtual(creation, space, file.c_str(), source.c_str(), space);
    const hid_t data = H5Dcreate2(id_, name.c_str(), H5T_IEEE_F32LE, space, links().get(), creation, H5P_DEFAULT);
    made(data < 0 ? -1 : 0, name);
    H5Dclose(data);
    H5Pclose(creation);
    H5Sclose(space);
  }

 private:
  struct Links {
    hid_t id = H5Pcreate(H5P_LINK_CREATE);
    Links() { H5Pset_create_intermediate_group(id, 1); }
    Links(const Links&) = delete;
    Links& operator=(const Links&) = delete;
    ~Links() { H5Pclose(id); }
    hid_t get() const { return id; }
  };
  static Links links() { return {}; }
  static void made(herr_t result, const std::string& name) {
    if (result < 0) throw std::runtime_error("test link cannot be made: " + name);
  }
  hid_t id_;
};

/// A way from `master.h5` to an array of another file.
struct LinkedAs {
  const char* name;  ///< in master.h5
  bool direct;       ///< whether it is read without HDF5
};

/// Makes files in a folder. All names of linked_names() in master.h5 are of data sets with these values, of this shape.
/// Where they lie in their own files, master.h5 itself holds other numbers, which are as plausible.
inline void write_linked(const TemporaryFolder& folder, const std::vector<std::int64_t>& shape,
                         const std::vector<float>& values) {
  std::vector<float> others(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) others[i] = values[values.size() - 1 - i] + 1;
  std::filesystem::create_directories(folder.file("far/farther"));
  const std::string run = folder.file("run.h5"), far = folder.file("far/run.h5"),
                    deep = folder.file("far/farther/c.h5");
  const std::string block = folder.file("block.h5"), master = folder.file("master.h5");
  const auto add = [&](const std::string& path, const std::string& name, const std::vector<float>& what,
                       bool compressed = false) {
    NewDataset{path, name, shape, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, compressed}.write(what.data());
  };
  {  // a file whose numbers begin behind a block of its user's
    const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_userblock(creation, 1 << 20);
    const OpenFile make(block, creation);
    H5Pclose(creation);
  }
  add(block, "x", values);
  for (const std::string& path : {run, far, deep, master}) add(path, "x", path == master ? others : values);
  for (const std::string& path : {run, master}) add(path, "packed", path == master ? others : values, true);
  add(folder.file("source.h5"), "x", others);      // beside master.h5
  add(folder.file("far/source.h5"), "x", values);  // beside the virtual data set that names it
  add(folder.file("own.h5"), "x", values);
  {
    const OpenFile file(far);
    file.virtual_of("g/virtual", shape, "source.h5", "x");
    file.soft("g/alias", "/x");      // of far/run.h5, not of master.h5
    file.soft("g/near", "virtual");  // beside it
    file.external("on", "farther/c.h5", "/x");
    file.external("g/back", "../own.h5", "/x");
    file.soft("sideways", "/on");
  }
  const OpenFile file(master);
  file.external("link", "run.h5", "/x");
  file.external("linked_packed", "run.h5", "packed");
  file.external("absolute", far, "/x");
  file.external("block", "block.h5", "/x");
  file.external("group", "far/run.h5", "/g");
  file.external("root", "far/run.h5", "/");
  file.external("chain", "far/run.h5", "/sideways");
  file.external("to_alias", "far/run.h5", "/g/alias");
  file.soft("soft", "link");
  file.soft("deep/soft", "/soft");
  file.soft("soft_group", "/group");
  OpenFile(run).hard("h/x", "/x");
  file.external("hard/link", "run.h5", "/h/x");
}

inline const std::vector<LinkedAs>& linked_names() {
  static const std::vector<LinkedAs> names{
      {"link", true},        {"linked_packed", false},  {"absolute", true},
      {"block", true},       {"group/alias", true},     {"group/virtual", false},
      {"group/near", false}, {"group/back", true},      {"root/x", true},
      {"root/on", true},     {"root/sideways", true},   {"root/g/alias", true},
      {"chain", true},       {"to_alias", true},        {"soft", true},
      {"deep/soft", true},   {"soft_group/back", true}, {"soft_group/virtual", false},
      {"hard/link", true}};
  return names;
}

}  // namespace mrmf::test
