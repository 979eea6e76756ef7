// What files call the numbers of labels, and by which values and words labels say their class.
#include "io/rows/class_values.hpp"
#include "io/values/class_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

#include "io/files/text.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

using Names = std::vector<std::string>;

// The number that stands for a class; none where a word does.
std::optional<Index> number_of_class(const LabelForm& form, std::size_t c) {
  if (form.values.empty()) return static_cast<Index>(c);
  const std::optional<double> number = c < form.values.size() ? class_number(form.values[c]) : std::nullopt;
  return number && *number == std::floor(*number) ? std::optional(static_cast<Index>(*number)) : std::nullopt;
}

const std::map<Index, std::string> kTruth{{0, "FALSE"}, {1, "TRUE"}};

std::map<Index, std::string> enumerated(hid_t type) {
  std::map<Index, std::string> known;
  if (H5Tget_class(type) != H5T_ENUM) return known;
  const h5::Type base(H5Tget_super(type));
  const int members = H5Tget_nmembers(type);
  for (int m = 0; m < members; ++m) {
    char* const name = H5Tget_member_name(type, static_cast<unsigned>(m));
    const std::unique_ptr<char, herr_t (*)(void*)> owned(name, H5free_memory);
    std::vector<std::byte> value(std::max<std::size_t>(H5Tget_size(type), sizeof(long long)));
    if (name == nullptr || H5Tget_member_value(type, static_cast<unsigned>(m), value.data()) < 0) return {};
    if (H5Tconvert(base.get(), H5T_NATIVE_LLONG, 1, value.data(), nullptr, H5P_DEFAULT) < 0) return {};
    long long number = 0;
    std::copy_n(value.begin(), sizeof number, reinterpret_cast<std::byte*>(&number));
    known[number] = name;
  }
  return known;
}

h5::Attribute attribute(hid_t object, const char* name) {
  return h5::Attribute(H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : H5I_INVALID_HID);
}

// CF: "water land ice", and the values that have these meanings.
std::map<Index, std::string> flags(hid_t dataset) {
  std::map<Index, std::string> known;
  const h5::Attribute meanings = attribute(dataset, "flag_meanings"), values = attribute(dataset, "flag_values");
  // The bits of masks are set together, so no number has a meaning of its own.
  if (!meanings || H5Aexists(dataset, "flag_masks") > 0) return known;
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
  for (std::size_t i = 0; i < words.size(); ++i) known[values ? numbers[i] : static_cast<Index>(i)] = words[i];
  return known;
}

std::vector<Names> lists(hid_t dataset) {
  std::vector<Names> all;
  for (const char* name : {"class_names", "label_names", "names", "classes", "columns", "labels"})
    if (const h5::Attribute list = attribute(dataset, name))
      if (auto words = h5::words_of(list, name); words && !words->words.empty()) all.push_back(std::move(words->words));
  return all;
}

// One text with commas between the names.
Names names_in(const std::string& list) {
  Names parts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ',');) {
    const std::size_t first = part.find_first_not_of(' '), last = part.find_last_not_of(' ');
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last - first + 1));
  }
  return parts;
}

// A list of as many texts as are wanted; 0: as there are, if more than one.
Names list_of(const std::vector<Names>& lists, std::size_t count) {
  const auto fits = [&](const Names& names) {
    return (count == 0 ? names.size() > 1 : names.size() == count) && std::ranges::none_of(names, &std::string::empty);
  };
  for (const Names& list : lists) {
    if (fits(list)) return list;
    if (list.size() != 1) continue;
    if (Names parts = names_in(list.front()); fits(parts)) return parts;
  }
  return {};
}

// The names of the longest list, as list_of() parts it.
std::size_t longest_list(const std::vector<Names>& lists) {
  std::size_t most = 0;
  for (const Names& list : lists) most = std::max(most, list.size() == 1 ? names_in(list.front()).size() : list.size());
  return most;
}

}  // namespace

NumberNames h5::number_names(hid_t object, hid_t type) try {
  NumberNames names{.values = enumerated(type)};
  names.truth = names.values == kTruth;
  if (names.truth) names.values.clear();  // such names say nothing
  names.enumeration = !names.values.empty();
  if (H5Iget_type(object) != H5I_DATASET) return names;
  if (!names.enumeration) names.values = flags(object);
  names.lists = lists(object);
  return names;
} catch (const DataError&) {  // an attribute is damaged: the numbers have no names then
  return {};
}

std::map<Index, std::string> NumberNames::type_values() const {
  if (truth) return kTruth;
  return enumeration ? values : std::map<Index, std::string>{};
}

LabelNames LabelNames::from(const NumberNames& names, const std::string& where, const LabelForm& form, Index outputs) {
  LabelNames all;
  const bool classes = form.kind == LabelKind::classes;
  if (form.named || (classes && !form.values.empty() && !class_number(form.values.front()))) return all;
  const auto add = [&](Index number, const std::string& name) {
    if (!name.empty() && !(classes && form.ignore == number))
      all.of[number] = {readable_text(name), readable_text(where)};
  };
  all.outputs = !classes;
  if (classes)
    for (const auto& [number, name] : names.values) add(number, name);
  all.complete = classes && names.enumeration;
  if (!all.of.empty()) return all;
  const Index count = !classes ? outputs : form.values.empty() ? form.classes : std::ssize(form.values);
  const Names list = list_of(names.lists, static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < list.size(); ++i)
    if (const std::optional<Index> number = classes ? number_of_class(form, i) : static_cast<Index>(i))
      add(*number, list[i]);
  all.listed = !all.of.empty();
  if (all.listed || count <= 0) return all;
  const std::size_t listed = longest_list(names.lists);
  if (listed > 1 && static_cast<Index>(listed) != count)
    all.unused = fmt::format("{} lists {} names, and there are {} {}", readable_text(where), listed, count,
                             classes ? "classes" : "outputs");
  return all;
}

void LabelNames::add(const LabelNames& more) {
  listed = of.empty() ? more.listed : listed && (more.listed || more.of.empty());
  outputs = more.outputs;
  complete = complete && more.complete;
  if (unused.empty()) unused = more.unused;
  of.insert(more.of.begin(), more.of.end());
}

std::vector<std::string> LabelNames::in_order(const LabelForm& form, Index count) const {
  if (listed && std::ssize(of) != count) return {};
  std::vector<std::string> names;
  for (Index i = 0; i < count; ++i) {
    const std::optional<Index> number = outputs ? i : number_of_class(form, static_cast<std::size_t>(i));
    const auto found = number ? of.find(*number) : of.end();
    if (found == of.end()) return {};
    names.push_back(found->second.text);
  }
  return names;
}

std::vector<std::string> LabelNames::texts() const {
  std::vector<std::string> all;
  for (const auto& [number, name] : of) all.push_back(std::to_string(number) + ": " + name.text);
  return all;
}

LabelNames LabelNames::from_texts(const std::vector<std::string>& texts, const std::string& where) {
  LabelNames names;
  for (const std::string& text : texts) {
    const char* const end = text.data() + text.size();
    Index number = 0;
    const auto [after, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || end - after < 3 || std::string_view(after, 2) != ": ")
      throw DataError("\"" + text + "\" is no number and name such as \"2: owl\"");
    names.of[number] = {{after + 2, end}, where};
  }
  return names;
}

namespace {

// Without what spellings of one name differ in: capitals, and what stands between the letters of words.
std::string plain_spelling(const std::string& name) {
  const auto letter = [&](std::size_t i) {
    const auto c = static_cast<unsigned char>(name[i]);
    return std::isalpha(c) != 0 || c >= 0x80;
  };
  std::string plain;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool between = i > 0 && i + 1 < name.size() && letter(i - 1) && letter(i + 1);
    if (between && (name[i] == ' ' || name[i] == '-' || name[i] == '_')) continue;
    plain += (name[i] >= 'A' && name[i] <= 'Z') ? static_cast<char>(name[i] - 'A' + 'a') : name[i];
  }
  return plain;
}

// Whether a number's two names are one: of names that tell two numbers apart by their spelling, it counts.
bool are_one_name(const LabelNames& known, const LabelNames& more, Index number) {
  const std::string &one = known.of.at(number).text, &other = more.of.at(number).text;
  if (one == other) return true;
  const std::string plain = plain_spelling(one);
  if (plain != plain_spelling(other)) return false;
  const auto is_other = [&](const auto& name) {
    return name.first != number && plain_spelling(name.second.text) == plain;
  };
  return std::ranges::none_of(known.of, is_other) && std::ranges::none_of(more.of, is_other);
}

}  // namespace

std::string contradiction(const LabelNames& known, const LabelNames& more) {
  for (const auto& [number, name] : more.of) {
    const std::string calls = name.where + " calls " + (more.outputs ? "output " : "");
    const auto same = known.of.find(number);
    if (same != known.of.end() && are_one_name(known, more, number)) continue;
    if (same != known.of.end())
      return calls + std::to_string(number) + " '" + name.text + "', and " + same->second.where + " '" +
             same->second.text + "'";
    const auto other = std::ranges::find_if(known.of, [&](const auto& one) { return one.second.text == name.text; });
    if (other != known.of.end() && !more.of.contains(other->first))
      return calls + std::to_string(number) + " '" + name.text + "', and " + other->second.where + " " +
             std::to_string(other->first);
  }
  return {};
}

std::string rename_text(const LabelNames& names) {
  return names.outputs ? "store the outputs in one order, or, where the names mean the same, give them in "
                         "data.names.labels"
                       : "store each class under one number, or, where the names mean the same, give them in "
                         "data.names.classes";
}

namespace {

bool say_the_same(const LabelNames& one, const LabelNames& other) {
  return one.listed == other.listed && one.complete == other.complete && one.outputs == other.outputs &&
         one.unused.empty() == other.unused.empty() &&
         std::ranges::equal(one.of, other.of, [](const auto& a, const auto& b) {
           return a.first == b.first && a.second.text == b.second.text;
         });
}

// Lines of a text, for the other ranks: names and paths have no line ends in them.
void write_names(std::ostream& to, Index file, const LabelNames& names) {
  to << file << ' ' << names.outputs << ' ' << names.listed << ' ' << names.complete << ' ' << names.of.size() << '\n'
     << names.unused << '\n';
  for (const auto& [number, name] : names.of) to << number << '\n' << name.text << '\n' << name.where << '\n';
}

std::pair<Index, LabelNames> read_names(std::istream& from) {
  std::pair<Index, LabelNames> read;
  std::size_t count = 0;
  std::string line;
  from >> read.first >> read.second.outputs >> read.second.listed >> read.second.complete >> count;
  std::getline(from, line);
  std::getline(from, read.second.unused);
  for (; count > 0; --count) {
    Index number = 0;
    from >> number;
    LabelNames::Name& name = read.second.of[number];
    std::getline(from, line);
    std::getline(from, name.text);
    std::getline(from, name.where);
  }
  from >> std::ws;
  return read;
}

}  // namespace

void NamesSeen::add(Index file, const LabelNames& names) {
  if (std::ranges::none_of(different_, [&](const auto& one) { return say_the_same(one.second, names); }))
    different_.emplace_back(file, names);
}

LabelNames NamesSeen::agreed(Comm& comm) const {
  const bool here = std::ranges::any_of(
      different_, [](const auto& one) { return !one.second.of.empty() || !one.second.unused.empty(); });
  if (!comm.any(here)) return {};
  std::vector<std::pair<Index, LabelNames>> all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::ostringstream own;
    for (const auto& [file, names] : different_)
      if (rank == comm.rank()) write_names(own, file, names);
    std::string text = own.str();
    comm.broadcast(text, rank);
    for (std::istringstream from(text); from.peek() != std::istringstream::traits_type::eof();)
      all.push_back(read_names(from));
  }
  std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
  LabelNames names = all.front().second;
  for (const auto& [file, more] : all) {
    if (const std::string text = contradiction(names, more); !text.empty())
      throw DataError(text + "; " + rename_text(more));
    names.add(more);
  }
  return names;
}

std::optional<double> class_number(const std::string& value) {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return error == std::errc{} && end == value.data() + value.size() && std::isfinite(number) ? std::optional(number)
                                                                                             : std::nullopt;
}

std::optional<std::size_t> one_hot_index(ConstSpan row) {
  constexpr float kRounding = 1e-4F;
  const auto is = [](float value, float wanted) { return std::abs(value - wanted) <= kRounding; };
  const auto one = std::ranges::find_if(row, [&](float v) { return !is(v, 0); });
  if (one == row.end() || !is(*one, 1) || std::any_of(one + 1, row.end(), [&](float v) { return !is(v, 0); }))
    return {};
  return static_cast<std::size_t>(one - row.begin());
}

std::string characters_text(const RowSource& labels) {
  constexpr Index some = 64;
  const std::vector<Index>& shape = labels.shape();
  if (!labels.holds_words() || shape.size() != 2 || shape[0] < 1 || shape[1] < 2) return "";
  const std::vector<std::string> words = labels.words(0, std::min(some, shape[0]));
  if (std::ranges::any_of(words, [](const std::string& word) { return word.size() > 1; })) return "";
  return labels.where() + " has " + std::to_string(shape[1]) +
         " texts of one character in each row, as netCDF may keep a word; store each word as one text, such as "
         "netCDF4.chartostring makes of them";
}

ClassValues::ClassValues(const LabelForm& form) : form_(form) {
  if (form.ignore) ignore_ = static_cast<double>(*form.ignore);
  for (std::size_t c = 0; c < form.values.size(); ++c) {
    const auto number = static_cast<float>(c);
    words_.emplace(form.values[c], number);
    const std::optional<double> value = class_number(form.values[c]);
    if (!value) continue;
    for (const ElementType type : kKinds)
      if (const auto stored = as_stored(*value, type))
        values_[kind(type)].emplace(static_cast<double>(*stored), number);
  }
}

std::optional<float> ClassValues::of(const std::string& word) const {
  const auto found = words_.find(word);
  if (found != words_.end()) return found->second;
  const std::optional<double> number = form_.values.empty() ? std::nullopt : class_number(word);
  return number ? of(*number, ElementType::float64) : std::nullopt;
}

std::optional<std::pair<std::string, std::string>> ClassValues::same_in(ElementType type) const {
  std::unordered_map<double, std::string> seen;
  for (const std::string& value : form_.values)
    if (const std::optional<double> number = class_number(value))
      if (const auto stored = as_stored(*number, is_float(type) ? type : ElementType::float64))
        if (const auto [known, fresh] = seen.emplace(static_cast<double>(*stored), value); !fresh)
          return std::pair(known->second, value);
  return {};
}

std::optional<float> ClassValues::of_one_hot(ConstSpan row) const {
  if (ignore_ && std::ranges::all_of(row, [&](float v) { return double{v} == *ignore_; })) return kIgnoredLabel;
  const std::optional<std::size_t> index = one_hot_index(row);
  return index ? std::optional(static_cast<float>(*index)) : std::nullopt;
}

std::string ClassValues::expected() const {
  if (form_.values.empty()) return "the classes are 0 to " + std::to_string(form_.classes - 1);
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t c = 0; c < std::min(most, form_.values.size()); ++c) text += (c > 0 ? ", " : "") + form_.values[c];
  return "training.class_values are " + text + (form_.values.size() > most ? ", ..." : "");
}

}  // namespace mrmf
