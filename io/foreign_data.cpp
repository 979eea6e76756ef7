#include "io/foreign_data.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "io/input_file.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

/// As one word of a shell's command.
std::string word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || (std::string_view("_-./+=:@,%").find(static_cast<char>(c)) != std::string_view::npos);
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string with_extension(const std::string& file, const std::string& extension) {
  return word(fs::path(file).replace_extension(extension).string());
}

bool ends_with(const std::string& name, std::string_view end) { return name.ends_with(end); }

std::string advice_on_address(const std::string& name, const std::string& scheme) {
  const std::string local = "files are read from folders of this machine, not from addresses; ";
  if (scheme == "file") return local + "write " + name.substr(name.find("://") + 3);
  const std::string copy = scheme == "s3"   ? "aws s3 cp " + word(name) + " ."
                           : scheme == "gs" ? "gcloud storage cp " + word(name) + " ."
                           : scheme == "http" || scheme == "https" || scheme == "ftp" ? "curl -LO " + word(name)
                                                                                      : "";
  return local + "copy it here first" + (copy.empty() ? "" : ", such as `" + copy + "`") + ", and name the copy";
}

/// "$DATA" or "${DATA}" at a position: how long it is there, and its name.
struct Variable {
  std::size_t length = 0;
  std::string name;
};

Variable variable_at(const std::string& text, std::size_t dollar) {
  const bool braces = text.size() > dollar + 1 && text[dollar + 1] == '{';
  std::size_t end = dollar + (braces ? 2 : 1);
  const std::size_t start = end;
  const auto letter = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  while (end < text.size() && letter(static_cast<unsigned char>(text[end]))) ++end;
  Variable found{end - dollar, text.substr(start, end - start)};
  if (braces && (end == text.size() || text[end] != '}')) return {};
  if (braces) ++found.length;
  return found.name.empty() ? Variable{} : found;
}

std::string advice_on_variables(const std::string& name) {
  std::string replaced;
  for (std::size_t i = 0; i < name.size();) {
    const Variable variable = name[i] == '$' ? variable_at(name, i) : Variable{};
    if (variable.length == 0) {
      replaced += name[i++];
      continue;
    }
    const char* const value = std::getenv(variable.name.c_str());
    if (value == nullptr)
      return "variables are replaced by a shell alone, and there is none of the name " + variable.name +
             "; write the whole path";
    replaced += value;
    i += variable.length;
  }
  return replaced == name ? "" : "variables are replaced by a shell alone; write " + replaced;
}

/// The extension that most of a folder's HDF5 files have, by their names; "" where there are none.
std::string usual_extension(const std::string& folder) {
  constexpr std::array known{".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".mat"};
  std::array<int, known.size()> counts{};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    for (std::size_t i = 0; i < known.size(); ++i) counts[i] += entry.path().extension() == known[i];
  const auto most = std::ranges::max_element(counts);
  return *most == 0 ? "" : known[static_cast<std::size_t>(most - counts.begin())];
}

bool holds(const std::string& folder, std::initializer_list<const char*> names) {
  std::error_code error;
  return std::ranges::any_of(names, [&](const char* name) { return fs::exists(fs::path(folder) / name, error); });
}

/// A format that is told by some bytes near the beginning of its files.
struct Format {
  std::string_view bytes;
  std::size_t at = 0;
  const char* name = nullptr;
  std::string (*remedy)(const std::string& file) = nullptr;
};

std::string python(const std::string& modules, const std::string& work) {
  return "; `python3 -c \"import h5py, " + modules + "; " + work + "\"` stores it as one";
}

/// A name in Python's quotes, inside of a shell's double ones.
std::string python_text(const std::string& name) {
  std::string text = "'";
  for (const char c : name)
    text += ((std::string_view("'\\\"$`").find(static_cast<char>(c)) != std::string_view::npos) ? "\\" : "") +
            std::string(1, c);
  return text + "'";
}

std::string by_numpy(const std::string& file) {
  const std::string to = python_text(fs::path(file).replace_extension(".h5").string()), from = python_text(file);
  if (ends_with(file, ".npy")) return python("numpy", "h5py.File(" + to + ", 'w')['x'] = numpy.load(" + from + ")");
  return python("numpy", "f = h5py.File(" + to + ", 'w'); f.update(numpy.load(" + from + "))");
}

std::string of_zip(const std::string& file) {
  if (ends_with(file, ".npz")) return by_numpy(file);
  if (ends_with(file, ".pt") || ends_with(file, ".pth"))
    return "; if it is one of PyTorch's, write its arrays with h5py: h5py.File('x.h5', 'w')['x'] = x.numpy()";
  return "; unpack it with `unzip " + word(file) + "`, and name what was in it";
}

/// Packed by a program that unpacks it beside itself.
template <int Program>
std::string unpacked(const std::string& file) {
  constexpr const char* programs[] = {"gunzip -k", "bunzip2 -k", "unxz -k", "unzstd", "tar -xf"};
  const std::string name = Program < 4 && fs::path(file).stem().extension() == ".tar" ? "tar -xf" : programs[Program];
  return "; unpack it with `" + name + " " + word(file) + "`, and name what that makes";
}

const std::vector<Format>& formats() {
  using namespace std::string_view_literals;
  const auto netcdf = [](const std::string& file) {
    return "; `nccopy -k nc4 " + word(file) + " " + with_extension(file, ".nc4") + "` makes one of it";
  };
  const auto hdf4 = [](const std::string& file) {
    return "; `h4toh5 " + word(file) + " " + with_extension(file, ".h5") + "` makes one of it";
  };
  const auto matlab = [](const std::string&) {
    return std::string(
        "; in MATLAB, save(..., '-v7.3') writes one; in Python, scipy.io.loadmat reads it and h5py writes one");
  };
  const auto grib = [](const std::string& file) {
    return "; `cdo -f nc4 copy " + word(file) + " " + with_extension(file, ".nc") + "` makes one of it";
  };
  const auto zip = of_zip;
  const auto lfs = [](const std::string&) { return std::string("; `git lfs pull` gets the file itself"); };
  const auto page = [](const std::string&) {
    return std::string("; a download that needed a login or another address has left it: get the file again");
  };
  const auto any = [](const std::string&) { return std::string("; store its arrays with h5py, or convert it"); };
  static const std::vector<Format> all{{"CDF\x01"sv, 0, "a netCDF-3 file", netcdf},
                                       {"CDF\x02"sv, 0, "a netCDF-3 file", netcdf},
                                       {"CDF\x05"sv, 0, "a netCDF-3 file", netcdf},
                                       {"\x0e\x03\x13\x01"sv, 0, "an HDF4 file", hdf4},
                                       {"MATLAB 5.0 MAT-file"sv, 0, "a MATLAB file of before version 7.3", matlab},
                                       {"\x93NUMPY"sv, 0, "a file of NumPy", by_numpy},
                                       {"PK\x03\x04"sv, 0, "a ZIP archive", zip},
                                       {"\x1f\x8b"sv, 0, "compressed", unpacked<0>},
                                       {"BZh"sv, 0, "compressed", unpacked<1>},
                                       {"\xfd\x37zXZ\0"sv, 0, "compressed", unpacked<2>},
                                       {"\x28\xb5\x2f\xfd"sv, 0, "compressed", unpacked<3>},
                                       {"ustar"sv, 257, "a tar archive", unpacked<4>},
                                       {"GRIB"sv, 0, "a GRIB file", grib},
                                       {"SIMPLE  ="sv, 0, "a FITS file", any},
                                       {"PAR1"sv, 0, "a Parquet file", any},
                                       {"II*\0"sv, 0, "a TIFF image", any},
                                       {"MM\0*"sv, 0, "a TIFF image", any},
                                       {"\x89PNG"sv, 0, "a PNG image", any},
                                       {"version https://git-lfs"sv, 0, "a pointer of Git LFS", lfs},
                                       {"<!DOCTYPE"sv, 0, "a web page", page},
                                       {"<html"sv, 0, "a web page", page}};
  return all;
}

std::string beginning(const std::string& file) {
  std::string bytes(512, '\0');
  const InputFile input(file);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(::pread(input.number(), bytes.data(), bytes.size(), 0), 0)));
  return bytes;
}

}  // namespace

std::string advice_on_name(const std::string& name) {
  const std::size_t colon = name.find("://");
  if (colon != std::string::npos && colon > 0) {
    const std::string scheme = name.substr(0, colon);
    const auto letter = [](unsigned char c) {
      return std::isalnum(c) || (std::string_view("+-.").find(static_cast<char>(c)) != std::string_view::npos);
    };
    if (std::ranges::all_of(scheme, letter)) return advice_on_address(name, scheme);
  }
  if (name.starts_with("~")) {
    const char* const home = std::getenv("HOME");
    const bool own = name.size() == 1 || name[1] == '/';
    return "~ is the home folder in a shell alone; write " +
           (own && home != nullptr ? home + name.substr(1) : std::string("the whole path"));
  }
  return advice_on_variables(name);
}

std::string advice_on_folder(const std::string& folder) {
  if (holds(folder, {".zgroup", ".zarray", "zarr.json", ".zmetadata"}))
    return "is a Zarr folder, not HDF5; store its arrays in an HDF5 file, such as, in Python, "
           "h5py.File('x.h5', 'w')['x'] = zarr.open(" +
           python_text(folder) + ")['x'][:]";
  const std::string extension = usual_extension(folder);
  if (extension.empty())
    return "is a folder, and no file in it has a usual name of HDF5 files; name files, or a pattern";
  return "is a folder; name its files with a pattern, such as " + (fs::path(folder) / ("*" + extension)).string();
}

std::string advice_on_format(const std::string& file) try {
  const std::string bytes = beginning(file);
  for (const Format& format : formats())
    if (bytes.size() >= format.at && std::string_view(bytes).substr(format.at).starts_with(format.bytes))
      return std::string("is ") + format.name + ", not HDF5" + format.remedy(file);
  return "";
} catch (const DataError&) {
  return "";
}

}  // namespace mrmf
