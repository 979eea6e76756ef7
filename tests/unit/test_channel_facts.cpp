// Facts of channels: what is read, how often files are opened for it, and what comes out.
#include "src/data/statistics.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "mpi/comm.hpp"

using namespace mrmf;

TEST_CASE("channel facts: files are opened for the first sample and for all, however many blocks are summed") {
  constexpr Index kSamples = 5000;  // in 1024 blocks
  std::vector<Range> opened;
  std::vector<Index> read;
  std::vector<float> values(4);  // two positions of two channels
  const Numbers numbers{"numbers", kSamples, 2, [&](Range owned) -> NumberReader {
                          opened.push_back(owned);
                          return [&, owned](Index row) -> ConstSpan {
                            CHECK((row >= owned.first && row < owned.first + owned.count));
                            read.push_back(row);
                            const auto x = static_cast<float>(row);
                            values = {x, 1000 - x, x + 0.5F, 1000 - x};
                            return values;
                          };
                        }};
  Comm comm = Comm::self();
  const ChannelFacts facts = channel_facts(numbers, false, comm);
  CHECK(opened == std::vector<Range>{{0, 1}, {0, kSamples}});
  REQUIRE(std::ssize(read) == 1 + kSamples);
  for (Index row = 0; row < kSamples; ++row) CHECK(read[static_cast<std::size_t>(1 + row)] == row);
  CHECK(facts.least == std::vector<double>{0, 1000 - (kSamples - 1)});
  CHECK(facts.most == std::vector<double>{kSamples - 0.5, 1000});
  CHECK(facts.mean[0] == doctest::Approx((kSamples - 1) / 2.0 + 0.25));
  CHECK(facts.mean[1] == doctest::Approx(1000 - (kSamples - 1) / 2.0));
  CHECK(facts.deviation[1] == doctest::Approx(std::sqrt((kSamples * kSamples - 1) / 12.0)));
}

TEST_CASE("channel facts: numbers that are missing throughout a block, or a channel, take part in nothing") {
  constexpr Index kSamples = 64;  // a block each
  std::vector<float> values(2);
  const Numbers numbers{"numbers", kSamples, 2, [&](Range) -> NumberReader {
                          return [&](Index row) -> ConstSpan {
                            const float nothing = std::nanf("");
                            values = {row == 3 ? nothing : 280.0F + static_cast<float>(row), nothing};
                            return values;
                          };
                        }};
  Comm comm = Comm::self();
  const ChannelFacts facts = channel_facts(numbers, false, comm);
  CHECK(facts.least[0] == 280);
  CHECK(facts.most[0] == 280 + kSamples - 1);
  CHECK(facts.count == std::vector<double>{kSamples - 1, 0});
  CHECK(std::isnan(facts.least[1]));
  CHECK(facts.least_of_all() == 280);
  CHECK(facts.most_of_all() == 280 + kSamples - 1);
}
