// What keys share: rules for their values, and the list to which each struct of settings adds its keys. A key is
// declared once, by a list_keys() below the struct that has its field. Reading, writing, checking and describing it
// follow from that (key_table.hpp).
#pragma once

#include <string>
#include <vector>

namespace mrmf {

/// The allowed values of a key, beyond its type. Numbers lie in [least, most] unless an end is open.
struct Rule {
  double least = -1e300, most = 1e300;
  bool open_least = false, open_most = false;
  std::vector<std::string> words;  ///< the allowed texts; of an enum in the order of its enumerators
};
Rule at_least(double least);
Rule within(double least, double most);
Rule above(double least);
Rule above_to(double least, double most);
Rule from_below(double least, double most);
Rule one_of(std::vector<std::string> words);

/// The largest batch. It does not overflow when multiplied by the bytes of the largest sample
/// (io/files/input_file.hpp), or summed over all ranks.
inline constexpr double kMostBatch = 1 << 22;
/// The largest number of steps between two events.
inline constexpr double kMostSteps = 1e9;

/// The words of an option in files and on command lines, in the order of its enumerators. An enum has none here if only
/// its key knows its words.
template <class E>
std::vector<std::string> words_of();

/// A key as src/config reads and writes it (key_table.hpp).
template <class S>
struct Key;

/// The keys of a struct S, in the order of writing and describing. Paths are within S's table. What its members do is
/// in key_table.cpp alone, so a header that declares keys costs those who include it little.
template <class S>
class KeyList {
 public:
  explicit KeyList(std::vector<Key<S>>& keys) : keys_(keys) {}

  /// A key of this field.
  template <class T>
  void add(const std::string& path, T S::*field, const Rule& rule, const std::string& meaning);
  /// A key of a field of a struct within S.
  template <class Inner, class T>
  void add(const std::string& path, Inner S::*inner, T Inner::*field, const Rule& rule, const std::string& meaning);
  /// All keys that `list` knows of a struct within S; their paths begin with `table`, such as "optimizer.".
  template <class Inner>
  void add_table(const std::string& table, Inner S::*inner, void (*list)(KeyList<Inner>&));
  /// A key that has a reading or a writing of its own.
  void add(Key<S> key);

 private:
  std::vector<Key<S>>& keys_;
};

/// What a key is called today, and what it was called by earlier versions. Paths are within a section.
struct FormerKey {
  const char *was, *is;
};
/// The same of a word that a key takes.
struct FormerValue {
  const char *key, *was, *is;  ///< the key's name of today
};

}  // namespace mrmf
