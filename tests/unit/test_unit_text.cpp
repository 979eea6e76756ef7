// Which texts of units and scales mean the same, and what is said of two that do not.
#include "io/values/packing_units.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace mrmf;

TEST_CASE("units and scales in one text: what means the same") {
  CHECK(units_text("V", "") == "V");
  CHECK(units_text("", "unitSI = 2") == "(unitSI = 2)");
  CHECK(units_text("m (above sea)", "SCALE FACTOR = 2") == "m (above sea) (SCALE FACTOR = 2)");
  CHECK(same_units("K", " k "));
  CHECK_FALSE(same_units("mW", "MW"));
  CHECK_FALSE(same_units("", "K"));
  CHECK_FALSE(same_units("", "(unitSI = 1)"));  // unknown is not known to be the same
  CHECK(same_units("K (unitSI = 2)", "k (unitSI = 2)"));
  CHECK_FALSE(same_units("(unitSI = 1)", "(unitSI = 1000)"));
  CHECK_FALSE(same_units("K", "K (ScaleFactor = 0.5, Offset = 1)"));
  CHECK(same_units("K", "K (ScaleFactor = 1, Offset = 0)"));
  CHECK_FALSE(same_units("K", "K (ScaleFactor = 1, Offset = 1)"));
  CHECK(same_units("(unitSI = 2)", "V (unitSI = 2)"));
  CHECK_FALSE(same_units("m (above sea)", "m (below sea)"));
}

TEST_CASE("units and scales in one text: records of earlier versions have no scales") {
  CHECK(fit_units("K", "k (unitSI = 2)"));
  CHECK_FALSE(fit_units("K", "degC (unitSI = 2)"));
  CHECK_FALSE(fit_units("K (unitSI = 2)", "K"));
  CHECK_FALSE(fit_units("K (unitSI = 2)", "K (unitSI = 3)"));
}

TEST_CASE("units and scales in one text: what is said of two that differ") {
  const UnitsDifference units = units_difference("K (unitSI = 2)", "degC");
  CHECK(units.here == "units of K");
  CHECK(units.there == "degC");
  CHECK(units.remedy.empty());
  const UnitsDifference scales = units_difference("V (unitSI = 2)", "V (unitSI = 3)");
  CHECK(scales.here == "a scale that is not applied, unitSI = 2");
  CHECK(scales.there == "unitSI = 3");
  CHECK(scales.remedy == "store what these numbers mean");
  const UnitsDifference none = units_difference("V", "V (unitSI = 3)");
  CHECK(none.here == "no scale");
  CHECK(none.there == "a scale that is not applied, unitSI = 3");
  CHECK(units_difference("V (unitSI = 3)", "V").there == "none");
}
