// The hash of an arena: of all of its bytes, whatever the pieces in which they are read, and of a seed.
#include <doctest/doctest.h>

#include <set>

#include "src/training/data_and_spatial_parallel.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {

TEST_CASE("arena hash: known for no values; every value and the seed count; all backends agree") {
  const auto cpu = make_cpu_backend(1);
  CHECK(arena_hash(*cpu, {}) == 0x2d06800538d394c2);  // XXH3 of nothing
  constexpr Index count = (Index{2} << 20) + 3;       // two whole pieces and a rest
  std::set<std::uint64_t> seen;
  std::optional<std::uint64_t> first;
  for (const auto& backend : backends()) {
    INFO(backend->name());
    Arena values = backend->allocate(count);
    std::vector<float> host(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i % 1000);
    backend->write(host, values.span());
    const std::uint64_t hash = arena_hash(*backend, values.span());
    if (!first) first = hash;
    CHECK(hash == *first);
    if (seen.insert(hash).second) seen.insert(arena_hash(*backend, values.span(), 7));
    for (const std::size_t at : {std::size_t{0}, (std::size_t{1} << 20) - 1, std::size_t{1} << 20, host.size() - 1}) {
      std::vector<float> other = host;
      other[at] += 0.5F;
      backend->write(other, values.span());
      seen.insert(arena_hash(*backend, values.span()));
    }
    seen.insert(arena_hash(*backend, values.span().first(static_cast<std::size_t>(count - 1))));
  }
  CHECK(seen.size() == 7);
}

}  // namespace mrmf::test
