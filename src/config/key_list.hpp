// All keys of the configuration as data: for `mrmf presets --keys` and for the shells' completion.
#pragma once

#include <string>
#include <vector>

namespace mrmf {

/// A key as people are told of it.
struct KeyDescription {
  std::string list;                ///< the list of tables that has it, such as "model.layers"; "" for most
  std::string path;                ///< "training.batch"; within its list, for a key of one
  std::vector<std::string> kinds;  ///< the layer kinds that have it; empty: all, or it is no layer's
  std::string expected;            ///< type and range in words
  std::vector<std::string> words;  ///< the texts that it takes, if only a few
  std::string standard;            ///< its default as TOML; "" when there is none
  std::string meaning;
};

/// In the order of writing and describing: first those of no list.
std::vector<KeyDescription> key_list();

/// The same as one JSON object: {"keys": [...]}.
std::string keys_json();

}  // namespace mrmf
