// How deep texts are nested, before a parser that recurses sees them.
#include "io/files/input_file.hpp"

#include <doctest/doctest.h>

#include "src/config/config.hpp"
#include "tests/support/data_files.hpp"

using namespace mrmf;
using test::message;

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

TEST_CASE("nesting: letters that are not ASCII are for quotes and comments") {
  const auto refused = [](const std::string& text, const std::string& line) {
    const std::string said = message<ConfigError>([&] { parse_config(text, "c.toml", {}); });
    return said.starts_with("c.toml:" + line + ": a character that is not ASCII");
  };
  CHECK(refused("\xCC\x9A fuss", "1"));  // a combining mark
  CHECK(
      refused("[training]\nseed =\xC2\xA0"
              "3\n",
              "2"));                                                   // a no-break space
  CHECK(refused("[run]\nfolder = \xE2\x80\x9Cx\xE2\x80\x9D\n", "2"));  // typographic quotes
  CHECK(refused("[run]\nfolder = [8:8\"x\xC3\xA9\"]\n", "2"));         // no string begins within a number
  CHECK(refused("[run]\nfolder = \"\"\"a \\\n \xC3\xA9\"\"\"\n", "3"));
  for (const char* text : {"[run]\nfolder = \"gr\xC3\xB6\xC3\x9F"
                           "e\" # \xC3\xA9\n",
                           "[run]\nfolder = '\xC3\xA9'\n", "\xEF\xBB\xBF[run]\nfolder = \"x\"\n",
                           "[run]\nfolder = \"\"\"\\\n a\\\\\xC3\xA9\"\"\"\n"})
    CHECK(message<ConfigError>([&] { parse_config(text, "c.toml", {}); }).find("ASCII") == std::string::npos);
}
