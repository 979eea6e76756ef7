#include "io/files/file_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

/// What glob() found.
class Matches {
 public:
  explicit Matches(const std::string& pattern) { glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found_); }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
  ~Matches() { globfree(&found_); }
  std::vector<std::string> names() const { return {found_.gl_pathv, found_.gl_pathv + found_.gl_pathc}; }

 private:
  glob_t found_{};
};

constexpr std::int64_t kFewestFolded = 16;  // shorter lists are easier to read when they are written out
constexpr std::int64_t kMostNames = std::int64_t{1} << 24;
constexpr std::size_t kMostDigits = 18;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<std::int64_t> number_of(std::string_view digits) {
  if (digits.empty() || digits.size() > kMostDigits || !std::ranges::all_of(digits, is_digit)) return {};
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::string with_zeros(std::int64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits > text.size() ? digits - text.size() : 0, '0') + text;
}

/// "before{first..last}behind": names that count up, with at least as many digits as the first has.
struct NumberedNames {
  std::string before, behind;
  std::int64_t first = 0, last = 0;
  std::size_t digits = 0;

  std::string text() const {
    return before + "{" + with_zeros(first, digits) + ".." + with_zeros(last, digits) + "}" + behind;
  }
  std::string name(std::int64_t number) const { return before + with_zeros(number, digits) + behind; }
  std::int64_t count() const { return last - first + 1; }
};

/// What text() wrote; none where that is another name.
std::optional<NumberedNames> numbered(const std::string& name) {
  const std::size_t open = name.find('{'), dots = name.find("..", open), close = name.find('}', open);
  if (open == std::string::npos || dots == std::string::npos || close == std::string::npos || dots > close) return {};
  const std::string_view all = name, first = all.substr(open + 1, dots - open - 1),
                         last = all.substr(dots + 2, close - dots - 2);
  const auto from = number_of(first), to = number_of(last);
  std::error_code none;
  if (!from || !to) return {};
  // {8..12}, as in a shell
  const bool more_digits = first.size() < last.size() && with_zeros(*from, 1) == first && with_zeros(*to, 1) == last;
  if ((first.size() != last.size() && !more_digits) || *to < *from || *to - *from >= kMostNames ||
      std::filesystem::exists(name, none))
    return {};
  return NumberedNames{name.substr(0, open), name.substr(close + 1), *from, *to, first.size()};
}

/// The two names as a range, where the second is the next one after the first.
std::optional<NumberedNames> counting(const std::string& one, const std::string& next) {
  if (one.size() != next.size() || one.find_first_of("{}") != std::string::npos) return {};
  const auto differ = static_cast<std::size_t>(std::ranges::mismatch(one, next).in1 - one.begin());
  if (differ == one.size() || !is_digit(one[differ])) return {};
  std::size_t begin = differ, end = differ;
  while (begin > 0 && is_digit(one[begin - 1])) --begin;
  while (end < one.size() && is_digit(one[end])) ++end;
  const auto number = number_of(std::string_view(one).substr(begin, end - begin));
  if (!number) return {};
  NumberedNames names{one.substr(0, begin), one.substr(end), *number, *number + 1, end - begin};
  if (names.name(names.last) != next) return {};
  return names;
}

/// Whether numbered() reads the range with one number more. {00..100} would tell of two lengths and mean a third.
bool can_grow(const NumberedNames& range) {
  return with_zeros(range.last + 1, range.digits).size() == range.digits ||
         with_zeros(range.first, 1).size() == range.digits;
}

}  // namespace

bool is_pattern(const std::string& name) {
  std::error_code none;
  return name.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(name, none);
}

std::vector<std::string> expand_patterns(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  std::set<std::string> there;
  for (const std::string& name : names) {
    if (const std::optional<NumberedNames> range = numbered(name)) {
      for (std::int64_t number = range->first; number <= range->last; ++number) {
        files.push_back(range->name(number));
        there.insert(files.back());
      }
      continue;
    }
    std::vector<std::string> found = is_pattern(name) ? Matches(name).names() : std::vector<std::string>{};
    const bool named = found.empty();
    if (named) found = {name};
    std::ranges::sort(found);  // by bytes, not by the language of the user
    for (const std::string& file : found)
      if (there.insert(file).second || named) files.push_back(file);
  }
  return files;
}

std::vector<std::string> fold_numbers(const std::vector<std::string>& names) {
  std::vector<std::string> folded;
  for (std::size_t i = 0; i < names.size();) {
    std::optional<NumberedNames> range = i + 1 < names.size() ? counting(names[i], names[i + 1]) : std::nullopt;
    while (range && i + static_cast<std::size_t>(range->count()) < names.size() && range->count() < kMostNames &&
           names[i + static_cast<std::size_t>(range->count())] == range->name(range->last + 1) && can_grow(*range))
      ++range->last;
    if (range && range->count() >= kFewestFolded) {
      folded.push_back(range->text());
      i += static_cast<std::size_t>(range->count());
    } else {
      folded.push_back(names[i++]);
    }
  }
  return folded;
}

std::string advice_on_access(const std::string& name) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(name.substr(0, name.find_first_of("*?["))).parent_path();
  std::error_code error;
  while (folder.has_relative_path() && !fs::is_directory(folder, error)) folder = folder.parent_path();
  if (folder.empty()) folder = ".";
  const int wanted = is_pattern(name) ? R_OK | X_OK : X_OK;
  if (::faccessat(AT_FDCWD, folder.c_str(), wanted, AT_EACCESS) == 0 || errno != EACCES) return {};
  return "this user may not look into the folder " + folder.string() + "; ask its owner for access";
}

std::string no_match_text(const std::string& pattern) {
  std::string advice = advice_on_name(pattern);
  if (advice.empty()) advice = advice_on_access(pattern);
  return "no file matches " + pattern +
         (advice.empty() ? "; correct the pattern, or the folder to start from" : ": " + advice);
}

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

std::string advice_on_output(const std::string& name) {
  if (name.find("://") != std::string::npos) return "outputs go to folders of this machine, not to addresses; name one";
  return advice_on_name(name);
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
