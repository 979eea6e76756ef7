// Names of classes and of outputs: what the numbers of labels are called, as their files say, which must agree.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/rows/split.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// What the numbers of labels are called, as their files say, which must agree.

class Comm;
struct LabelForm;

/// What one array says of its own numbers.
struct NumberNames {
  std::map<Index, std::string> values{};  ///< names of an enumeration's values, or of flag_values (CF)
  bool enumeration = false;               ///< the type has no other values than these
  bool truth = false;  ///< an enumeration of FALSE and TRUE, as h5py writes truth values; `values` have no names then
  /// Texts of the attributes class_names, label_names, names, classes, columns and labels, as many as there are: a list
  /// of them has names for all classes, or outputs, in their order.
  std::vector<std::vector<std::string>> lists{};
  bool operator==(const NumberNames&) const = default;
  bool any() const { return !values.empty() || !lists.empty(); }
  /// The values of the enumeration that is the array's type; none: it is another type.
  std::map<Index, std::string> type_values() const;
};

/// What the numbers of classes, or the outputs of labels that are numbers, are called in some arrays, which agree.
struct LabelNames {
  struct Name {
    std::string text, where;  ///< where: "<path>: data set '<name>'" of the first array that says so
    bool operator==(const Name&) const = default;
  };
  std::map<Index, Name> of{};  ///< by the number in the files, or, from 0 on, the output
  bool outputs = false;        ///< the names are those of outputs
  bool listed = false;         ///< as a list, which names all classes or outputs, or means something else
  bool complete = false;       ///< all arrays are enumerations: a label of another number is none
  std::string unused{};        ///< "<path>: data set '<name>' lists 2 names, and there are 3 classes": no names then
  bool operator==(const LabelNames&) const = default;

  /// What `names` say of labels of this form; `outputs` of them, if they are no classes.
  static LabelNames from(const NumberNames& names, const std::string& where, const LabelForm& form, Index outputs);
  /// Takes names that another array has, too. What contradicts those that are known stays out: see contradiction().
  void add(const LabelNames& more);
  /// Names of the classes of a form, or of so many outputs; empty where one has none.
  std::vector<std::string> in_order(const LabelForm& form, Index count) const;

  /// As a configuration keeps them: "2: owl".
  std::vector<std::string> texts() const;
  /// DataError: a text that is none of these. `where` is for messages.
  static LabelNames from_texts(const std::vector<std::string>& texts, const std::string& where);
};

/// The first number that has two names, or name of two numbers: "b.h5: data set 'y' calls 1 owl, and a.h5: data set 'y'
/// dog"; empty: there is none. Numbers that only one of them names contradict nothing, nor do a number's names that
/// differ in capitals, or in blanks, hyphens and underscores between letters, unless other numbers' names do:
/// "Tawny Owl" is tawny_owl.
std::string contradiction(const LabelNames& known, const LabelNames& more);
/// What to do about it.
std::string rename_text(const LabelNames& names);

/// The names of labels in this rank's files.
class NamesSeen {
 public:
  /// Those of one array of a file, by its index in the list of all. Files come in ascending order.
  void add(Index file, const LabelNames& names);
  /// What all files of all ranks say together. DataError on every rank where two contradict each other: it names the
  /// first in the list that contradicts one before it. Collective.
  LabelNames agreed(Comm& comm) const;

 private:
  std::vector<std::pair<Index, LabelNames>> different_;  // with the first file that has them
};

}  // namespace mrmf
