// Where the CUDA module is not tested, cases of nothing else are skipped.
#pragma once

#include <doctest/doctest.h>

#include "tests/unit/support/backends.hpp"

namespace mrmf::test {

inline const auto without_cuda = doctest::skip(!tests_cuda());

}  // namespace mrmf::test
