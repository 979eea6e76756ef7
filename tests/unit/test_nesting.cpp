// How deep texts are nested, before a parser that recurses sees them.
#include "src/nesting.hpp"

#include <doctest/doctest.h>

#include "src/config.hpp"

using namespace mrmf;

TEST_CASE("nesting: brackets and dotted keys count, those in strings and comments do not") {
  CHECK(toml_nesting("") == 0);
  CHECK(toml_nesting("a = 1\n[b]\nc = [[1], [2, [3]]]\n") == 3);
  CHECK(toml_nesting("a = { b = { c = 1 } }") == 2);
  CHECK(toml_nesting("a.b.c.d = 1\n") == 3);
  CHECK(toml_nesting("a = [1.5, 2.5, 3.5, 4.5]") == 1);  // dots of numbers
  CHECK(toml_nesting("a = \"[[[[\" # [[[[[\nb = '[[[['\n") == 0);
  CHECK(toml_nesting("a = \"\\\"[[[\" \n b = [[1]]") == 2);  // an escaped quote
  CHECK(toml_nesting("a = '\\' \n b = [[1]]") == 2);         // literal strings have no escapes
  CHECK(toml_nesting("a = \"\"\"[[\n[[ \" [[\n\"\"\"\nb = [1]") == 1);
  CHECK(toml_nesting("a = '''[[\n'' [[\n'''\nb = [1]") == 1);
  CHECK(toml_nesting("a = \"\" \nb = [[1]]") == 2);  // an empty string opens none over several lines
  // A string that does not end ends the parse; what comes on the next line counts, to be sure.
  CHECK(toml_nesting("a = \"x\n[[[1]]]") == 3);
  CHECK(toml_nesting("]]]]]\n[[1]]") == 2);
}

TEST_CASE("nesting: JSON") {
  CHECK(json_nesting("{\"a\": [1, {\"b\": []}]}") == 4);
  CHECK(json_nesting("\"[[[\\\"[[[\"") == 0);
  CHECK(json_nesting("\"[[") == 0);
  CHECK_THROWS_AS(require_shallow_json(std::string(33, '['), "x"), DataError);
  CHECK_NOTHROW(require_shallow_json(std::string(32, '['), "x"));
}

TEST_CASE("nesting: a configuration that would end the parser's stack is refused before") {
  const std::string deep = "a = " + std::string(100000, '[');
  CHECK_THROWS_WITH(parse_config(deep, "c.toml", {}),
                    "c.toml: lists, tables or dotted keys are nested more than 32 deep; no key wants that");
  CHECK_THROWS_AS(parse_config("", "c.toml", {"training.batch=" + std::string(100000, '[')}), ConfigError);
  CHECK_THROWS_AS(parse_config(std::string(std::size_t{1} << 21, ' '), "c.toml", {}), ConfigError);
}
