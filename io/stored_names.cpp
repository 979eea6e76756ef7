#include "io/stored_names.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <sstream>
#include <string_view>

#include "io/hdf5_library.hpp"
#include "io/row_source.hpp"

namespace mrmf {
namespace {

using Names = std::vector<std::string>;

// The value that stands for each class.
std::vector<long long> class_numbers(const LabelForm& form, std::size_t count) {
  std::vector<long long> numbers(count);
  for (std::size_t c = 0; c < count; ++c) {
    numbers[c] = static_cast<long long>(c);
    if (c >= form.values.size()) continue;
    const std::string& text = form.values[c];
    std::from_chars(text.data(), text.data() + text.size(), numbers[c]);
  }
  return numbers;
}

// A name for each of the numbers; empty where one has none.
Names names_of_numbers(const std::map<long long, std::string>& known, const std::vector<long long>& numbers) {
  Names names;
  for (const long long number : numbers) {
    const auto found = known.find(number);
    if (found == known.end() || found->second.empty()) return {};
    names.push_back(found->second);
  }
  return names;
}

std::map<long long, std::string> enumerated(hid_t dataset) {
  std::map<long long, std::string> known;
  const h5::Type type(H5Dget_type(dataset));
  if (!type || H5Tget_class(type.get()) != H5T_ENUM) return known;
  const int members = H5Tget_nmembers(type.get());
  for (int m = 0; m < members; ++m) {
    char* const name = H5Tget_member_name(type.get(), static_cast<unsigned>(m));
    const std::unique_ptr<char, herr_t (*)(void*)> owned(name, H5free_memory);
    std::vector<std::byte> value(std::max<std::size_t>(H5Tget_size(type.get()), sizeof(long long)));
    if (name == nullptr || H5Tget_member_value(type.get(), static_cast<unsigned>(m), value.data()) < 0) return {};
    const h5::Type base(H5Tget_super(type.get()));
    if (H5Tconvert(base.get(), H5T_NATIVE_LLONG, 1, value.data(), nullptr, H5P_DEFAULT) < 0) return {};
    long long number = 0;
    std::copy_n(value.begin(), sizeof number, reinterpret_cast<std::byte*>(&number));
    known[number] = name;
  }
  // What h5py writes for true and false says nothing.
  if (known.size() == 2 && known[0] == "FALSE" && known[1] == "TRUE") return {};
  return known;
}

h5::Attribute attribute(hid_t object, const char* name) {
  return h5::Attribute(H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : H5I_INVALID_HID);
}

// CF: "water land ice", and the values that have these meanings.
std::map<long long, std::string> flags(hid_t dataset) {
  std::map<long long, std::string> known;
  const h5::Attribute meanings = attribute(dataset, "flag_meanings"), values = attribute(dataset, "flag_values");
  if (!meanings) return known;
  std::istringstream text(h5::text_of(meanings));
  Names words;
  for (std::string word; text >> word;) words.push_back(word);
  std::vector<long long> numbers;
  if (values) {
    const h5::Space space(H5Aget_space(values.get()));
    if (H5Sget_simple_extent_npoints(space.get()) != static_cast<hssize_t>(words.size())) return known;
    numbers.resize(words.size());
    if (H5Aread(values.get(), H5T_NATIVE_LLONG, numbers.data()) < 0) return known;
  }
  for (std::size_t i = 0; i < words.size(); ++i) known[values ? numbers[i] : static_cast<long long>(i)] = words[i];
  return known;
}

// A list of as many texts as are wanted, or one text with commas between them.
Names listed(hid_t dataset, std::size_t count) {
  for (const char* name : {"class_names", "label_names", "names", "classes", "columns", "labels"}) {
    const h5::Attribute list = attribute(dataset, name);
    if (!list) continue;
    const auto words = h5::words_of(list, name);
    if (!words) continue;
    if (words->words.size() == count && (count > 1 || !words->words.front().empty())) return words->words;
    if (words->words.size() != 1) continue;
    Names parts;
    std::istringstream text(words->words.front());
    for (std::string part; std::getline(text, part, ',');) {
      const std::size_t first = part.find_first_not_of(' '), last = part.find_last_not_of(' ');
      parts.push_back(first == std::string::npos ? "" : part.substr(first, last - first + 1));
    }
    if (parts.size() == count && std::ranges::none_of(parts, &std::string::empty)) return parts;
  }
  return {};
}

// The bytes of the UTF-8 character that begins here; 0: none does.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool outside = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : length;
}

// A run's configuration is UTF-8. What is not was written in Latin-1, whose numbers are Unicode's.
std::string as_utf8(const std::string& text) {
  bool valid = true;
  for (std::size_t at = 0, length = 0; valid && at < text.size(); at += length) {
    length = utf8_length(std::string_view(text).substr(at));
    valid = length > 0;
  }
  if (valid) return text;
  std::string made;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80)
      made += c;
    else
      made += {static_cast<char>(0xC0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3F))};
  }
  return made;
}

Names find_names(const DatasetSpec& spec, std::size_t count) {
  const Names labels = spec.label_names();
  if (labels.size() == count && count > 1) return labels;
  if (labels.size() != 1 || spec.rows != RowForm::axis || !RowName::parse(labels.front()).attribute.empty()) return {};
  const h5::Lock lock;
  h5::silence();
  std::string reason;
  const h5::File file = h5::open_to_read(spec.files.front(), h5::file_access(), reason);
  if (!file) return {};
  const h5::Dataset dataset(H5Dopen2(file.get(), labels.front().c_str(), H5P_DEFAULT));
  if (!dataset) return {};
  if (spec.form.kind == LabelKind::classes) {
    const std::vector<long long> numbers = class_numbers(spec.form, count);
    for (const auto& known : {enumerated(dataset.get()), flags(dataset.get())})
      if (Names names = names_of_numbers(known, numbers); !names.empty()) return names;
  }
  return listed(dataset.get(), count);
}

}  // namespace

Names stored_names(const DatasetSpec& spec, std::size_t count) {
  Names names = find_names(spec, count);
  for (std::string& name : names) name = as_utf8(name);
  return names;
}

}  // namespace mrmf
