// Codes of values against slow counters: loops of kernels/cpu/sum_codes.hpp, and sums of
// src/training/gradient_compression.hpp over emulated ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/sum_codes.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/random.hpp"
#include "src/training/gradient_compression.hpp"

namespace mrmf::test {
namespace {

/// Normal values of very different sizes, some of them zero.
std::vector<float> heavy_values(std::size_t count, std::uint64_t key, double zeros = 0.1) {
  Rng rng(key);
  std::vector<float> values(count);
  for (float& value : values) {
    const double size = std::exp(1.5 * rng.normal());
    value = rng.uniform() < zeros ? 0.0F : static_cast<float>(size * rng.normal());
  }
  return values;
}

const std::vector<std::size_t> kLengths{1, 2, 7, 8, 9, 15, 16, 63, 64, 65, 127, 255, 256, 1000, 1023, 1024, 5001};

int sign(double x) { return (x > 0 ? 1 : 0) - (x < 0 ? 1 : 0); }

/// Tensors with gaps between them in an arena, and values of some ranks.
struct Arenas {
  std::vector<std::size_t> lengths;
  std::size_t size = 0;
  PackedTensors tensors;
  std::vector<std::vector<float>> values;  // by rank

  Arenas(std::vector<std::size_t> of, std::size_t ranks, std::uint64_t key) : lengths(std::move(of)) {
    for (std::size_t t = 0; t < lengths.size(); ++t) {
      tensors.add(size, lengths[t], t);
      size += (lengths[t] + 15) / 16 * 16 + 16;
    }
    for (std::size_t r = 0; r < ranks; ++r) values.push_back(heavy_values(size, mix(key, r)));
  }
  template <class Body>
  void for_each(const Body& body) const {
    for (const PackedTensors::Part& part : tensors.parts())
      for (std::size_t i = 0; i < part.count; ++i) body(part.at + i, part.tensor);
  }
};

struct Emulated {
  Communication scheme;
  Arenas& arenas;
  std::vector<std::uint32_t> rows;
  std::vector<std::vector<float>> factors{};
  std::vector<std::vector<float>> residuals{};      // by worker
  std::vector<std::vector<float>> sum_residuals{};  // by rank
  std::uint64_t tie_key = 7;
  bool full_levels = false;

  SumSettings sums() const { return {.communication = scheme, .full_levels = full_levels}; }
  int most() const { return most_level(sums(), static_cast<int>(arenas.values.size())); }

  /// What each rank has in the end, where every rank has so many workers.
  std::vector<std::vector<float>> sum(std::size_t workers_per_rank = 1) {
    const std::size_t workers = arenas.values.size(), ranks = workers / workers_per_rank;
    std::vector<std::vector<float>> results(ranks, std::vector<float>(arenas.size, 99.0F));
    std::vector<std::unique_ptr<SumCoding>> codings;
    std::vector<SumCoding*> views;
    const CodingSettings settings{scheme, most(), tie_key};
    for (std::size_t r = 0; r < ranks; ++r) {
      std::vector<WorkerValues> own;
      for (std::size_t w = r * workers_per_rank; w < (r + 1) * workers_per_rank; ++w) {
        own.push_back({arenas.values[w], {}, factors.empty() ? nullptr : factors[w].data(), rows[w]});
        if (!residuals.empty()) own.back().residual = residuals[w];
      }
      if (!residuals.empty() && sum_residuals.size() <= r) sum_residuals.emplace_back(arenas.size);
      codings.push_back(make_sum_coding(settings, arenas.tensors, std::move(own), results[r],
                                        residuals.empty() ? Span{} : Span{sum_residuals[r]}));
      views.push_back(codings.back().get());
    }
    sum_here(views, arenas.tensors.count(), static_cast<int>(workers_per_rank));
    return results;
  }
  /// Factors by the tensors' means.
  void set_factors() {
    const double level = most() / cut_off(sums());
    for (const std::vector<float>& values : arenas.values) {
      std::vector<float>& own = factors.emplace_back();
      for (std::size_t t = 0; t < arenas.lengths.size(); ++t) {
        double sizes = 0;
        for (const PackedTensors::Part& part : arenas.tensors.parts())
          for (std::size_t i = 0; part.tensor == t && i < part.count; ++i) sizes += std::abs(values[part.at + i]);
        own.push_back(sizes > 0 ? static_cast<float>(level * static_cast<double>(arenas.lengths[t]) / sizes) : 0);
      }
    }
  }
};

std::size_t wrong(const Arenas& arenas, const std::vector<float>& got, const std::vector<float>& wanted) {
  std::size_t wrong = 0;
  std::vector<bool> known(arenas.size);
  arenas.for_each([&](std::size_t at, std::size_t) {
    known[at] = true;
    wrong += got[at] == wanted[at] || (std::isnan(got[at]) && std::isnan(wanted[at])) ? 0U : 1U;
  });
  for (std::size_t at = 0; at < arenas.size; ++at) wrong += !known[at] && got[at] != 99.0F ? 1U : 0U;
  return wrong;
}

}  // namespace

TEST_CASE("sum codes: sums of sizes, logarithms, what is finite") {
  for (const std::size_t count : kLengths) {
    CAPTURE(count);
    std::vector<float> x = heavy_values(count, count);
    double sizes = 0, logarithms = 0;
    std::size_t some = 0;
    for (const float value : x) {
      sizes += std::abs(double{value});
      if (value != 0) logarithms += std::log2(std::abs(double{value})), ++some;
    }
    CHECK(cpu::sum_of_sizes(x.data(), count) == doctest::Approx(sizes).epsilon(1e-5));
    const cpu::SizeLogarithms found = cpu::size_logarithms(x.data(), count);
    CHECK(found.count == some);
    CHECK(std::abs(found.sum - logarithms) < 1e-4 * static_cast<double>(count) + 1e-4);
    CHECK(cpu::finite(x.data(), count));
    for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      x[count / 2] = odd;
      CHECK_FALSE(cpu::finite(x.data(), count));
      CHECK_FALSE(std::isfinite(cpu::sum_of_sizes(x.data(), count)));
    }
  }
}

TEST_CASE("sum codes: levels in bytes and in halves of bytes add up as a slow counter says") {
  for (const std::size_t count : kLengths)
    for (const int most : {1, 2, 7}) {
      CAPTURE(count);
      CAPTURE(most);
      std::vector<std::int32_t> sums(count), by_halves(count), wanted(count);
      for (std::uint64_t rank = 0; rank < 3; ++rank) {
        const std::vector<float> x = heavy_values(count, mix(count, rank));
        std::vector<std::int8_t> levels(count);
        cpu::to_levels(x.data(), count, 2.5F, most, levels.data());
        std::vector<std::uint8_t> halves(cpu::half_bytes(count));
        cpu::pack_halves(levels.data(), count, halves.data());
        cpu::add_levels(levels.data(), count, sums.data());
        cpu::add_halves(halves.data(), count, by_halves.data());
        const auto limit = static_cast<float>(most);
        for (std::size_t i = 0; i < count; ++i)
          wanted[i] += static_cast<int>(std::nearbyint(std::clamp(2.5F * x[i], -limit, limit)));
      }
      CHECK(sums == wanted);
      CHECK(by_halves == wanted);
    }
}

TEST_CASE("sum codes: signs as bits, with zeros and without") {
  for (const std::size_t count : kLengths)
    for (const double zeros : {0.0, 0.3}) {
      CAPTURE(count);
      const std::vector<float> x = heavy_values(count, count, zeros);
      std::vector<std::uint8_t> positive(cpu::bit_bytes(count)), nonzero(cpu::bit_bytes(count));
      bool any_zero = false;
      cpu::pack_signs(x.data(), count, positive.data(), nonzero.data(), any_zero);
      CHECK(any_zero == (std::ranges::find(x, 0.0F) != x.end()));
      std::vector<float> signs(count);
      cpu::unpack_signs(positive.data(), nonzero.data(), count, signs.data());
      std::vector<std::int32_t> votes(count, 10), blind(count), again(x.begin(), x.end());
      cpu::add_signs(positive.data(), nonzero.data(), count, 3, votes.data());
      cpu::add_signs(positive.data(), nullptr, count, 1, blind.data());
      std::size_t odd = 0;
      for (std::size_t i = 0; i < count; ++i) {
        odd += static_cast<int>(signs[i]) != sign(x[i]) || votes[i] != 10 + 3 * sign(x[i]) ? 1U : 0U;
        odd += blind[i] != (x[i] > 0 ? 1 : -1) ? 1U : 0U;
        again[i] = 5 * sign(x[i]);
      }
      CHECK(odd == 0);
      std::vector<std::uint8_t> same(positive.size()), too(nonzero.size());
      cpu::pack_signs(again.data(), count, same.data(), too.data(), any_zero);
      CHECK(same == positive);
      CHECK(too == nonzero);
    }
}

TEST_CASE("sum codes: bfloat16 and scaled integers round to the nearest, and keep what is not a number") {
  std::vector<float> x = heavy_values(1003, 4);
  x.push_back(std::nanf(""));
  x.push_back(-std::numeric_limits<float>::infinity());
  x.push_back(1.00390625F);  // in the middle: to even
  x.push_back(1.01171875F);
  std::vector<std::uint16_t> codes(x.size());
  std::vector<float> back(x.size());
  cpu::to_bf16(x.data(), x.size(), codes.data());
  cpu::from_bf16(codes.data(), x.size(), back.data());
  for (std::size_t i = 0; i < 1003; ++i) CHECK(std::abs(back[i] - x[i]) <= std::abs(x[i]) / 256);
  CHECK(std::isnan(back[1003]));
  CHECK(back[1004] == x[1004]);
  CHECK(back[1005] == 1.0F);
  CHECK(back[1006] == 1.015625F);

  std::vector<std::int8_t> integers(1003);
  const float scale = cpu::to_scaled(x.data(), 1003, integers.data());
  const float largest =
      *std::max_element(x.begin(), x.begin() + 1003, [](float a, float b) { return std::abs(a) < std::abs(b); });
  CHECK(scale == doctest::Approx(std::abs(largest) / 127));
  cpu::from_scaled(integers.data(), 1003, scale, back.data());
  for (std::size_t i = 0; i < 1003; ++i) CHECK(std::abs(back[i] - x[i]) <= 0.5001F * scale);
  CHECK(std::isnan(cpu::to_scaled(x.data(), 1004, integers.data())));
  std::vector<float> tiny(20, 1e-40F);  // whose scale has no finite inverse
  CHECK(cpu::to_scaled(tiny.data(), 20, integers.data()) == 0);
  cpu::from_scaled(integers.data(), 20, 0, tiny.data());
  CHECK(tiny == std::vector<float>(20));
  const std::vector<float> zeros(20);
  CHECK(cpu::to_scaled(zeros.data(), 20, integers.data()) == 0);
}

namespace {

// The largest sum of all ranks' levels, as a slow count finds it, whose signs the sum must have.
int check_levels(Emulated& emulated) {
  const Arenas& arenas = emulated.arenas;
  const std::size_t ranks = arenas.values.size();
  CAPTURE(to_string(emulated.scheme));
  CAPTURE(ranks);
  emulated.set_factors();
  const auto level = static_cast<float>(emulated.most());
  CHECK(level >= 1);
  std::vector<float> wanted(arenas.size, 99.0F);
  int largest = 0;
  arenas.for_each([&](std::size_t at, std::size_t tensor) {
    int sum = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      const float scaled = emulated.factors[r][tensor] * arenas.values[r][at];
      sum += static_cast<int>(std::nearbyint(std::clamp(scaled, -level, level)));
    }
    largest = std::max(largest, std::abs(sum));
    wanted[at] = static_cast<float>(sign(sum));
  });
  for (const std::vector<float>& result : emulated.sum()) CHECK(wrong(arenas, result, wanted) == 0);
  return largest;
}

}  // namespace

TEST_CASE("emulated ranks: sums of levels have the signs of a slow count, on any number of ranks") {
  for (const Communication scheme : {Communication::levels8, Communication::levels4})
    for (const std::size_t ranks : {1, 2, 3, 5, 8, 15, 63, 64, 127}) {
      if (static_cast<int>(ranks) > most_workers({scheme})) continue;
      Arenas arenas({1, 1031, 77, 2048, 5}, ranks, ranks);
      std::fill_n(arenas.values[0].begin(), 16, 0.0F);  // a tensor of zeros on a rank
      Emulated emulated{scheme, arenas, std::vector<std::uint32_t>(ranks, 1)};
      CHECK(check_levels(emulated) <= most_workers({scheme}));  // no counter carries
    }
  CHECK(most_level({Communication::levels8}, 128) == 0);
  CHECK(most_level({Communication::levels4}, 16) == 0);
}

TEST_CASE(
    "emulated ranks: full levels add up beyond what a byte holds, on more ranks, and have the right sign more often") {
  for (const Communication scheme : {Communication::levels8, Communication::levels4}) {
    int largest = 0;
    for (const std::size_t ranks : {1, 2, 16, 130, 300}) {
      Arenas arenas({1031, 77}, ranks, ranks);
      Emulated emulated{scheme, arenas, std::vector<std::uint32_t>(ranks, 1)};
      emulated.full_levels = true;
      CHECK(emulated.most() == (scheme == Communication::levels4 ? 7 : 127));
      largest = std::max(largest, check_levels(emulated));
    }
    CHECK(largest > 127);
  }
  const auto right = [](bool full) {
    Arenas arenas({20'000}, 32, 9);
    Emulated emulated{Communication::levels8, arenas, std::vector<std::uint32_t>(32, 1)};
    emulated.full_levels = full;
    emulated.set_factors();
    const std::vector<float> signs = emulated.sum().front();
    double count = 0;
    arenas.for_each([&](std::size_t at, std::size_t) {
      double sum = 0;
      for (std::size_t r = 0; r < 32; ++r) sum += double{emulated.factors[r][0]} * arenas.values[r][at];
      count += static_cast<int>(signs[at]) == sign(sum) ? 1 : 0;
    });
    return count / 20'000;
  };
  CHECK(right(true) > right(false) + 0.1);
  CHECK(right(true) > 0.9);
}

TEST_CASE("codes are the same on any number of threads, and however tensors are cut into sums") {
  using enum Communication;
  constexpr std::size_t kCount = 100'003, kCut = 40 * SumCoding::kBlock;
  for (const Communication scheme : {bf16, int8, levels8, levels4, vote}) {
    CAPTURE(to_string(scheme));
    Arenas arenas({kCount}, 4, 3);
    Emulated emulated{scheme, arenas, std::vector<std::uint32_t>(4, 2)};
    emulated.set_factors();
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 3}) {
      const cpu::ThreadScope scope(threads);
      results.push_back(emulated.sum(2).front());
    }
    CHECK(results[0] == results[1]);
    std::vector<float> cut(arenas.size, 99.0F);
    for (const auto& [first, end] : {std::pair{std::size_t{0}, kCut}, {kCut, kCount}}) {
      arenas.tensors = {};
      arenas.tensors.add(first, end - first, 0);
      const std::vector<float> part = emulated.sum(2).front();
      std::copy(part.begin() + static_cast<std::ptrdiff_t>(first), part.begin() + static_cast<std::ptrdiff_t>(end),
                cut.begin() + static_cast<std::ptrdiff_t>(first));
    }
    CHECK(cut == results[0]);
  }
}

TEST_CASE("codes: scales are the same on any number of threads") {
  const std::vector<float> x = heavy_values(100'003, 4);
  std::vector<double> sizes, logarithms;
  for (const int threads : {1, 2, 3}) {
    const cpu::ThreadScope scope(threads);
    sizes.push_back(cpu::sum_of_sizes(x.data(), x.size()));
    logarithms.push_back(cpu::size_logarithms(x.data(), x.size()).sum);
  }
  CHECK(sizes == std::vector<double>(3, sizes[0]));
  CHECK(logarithms == std::vector<double>(3, logarithms[0]));
}

TEST_CASE("codes: sums over many ranks are long enough for messages of 64 KB") {
  using enum Communication;
  for (const Communication scheme : {fp32, bf16, int8, levels8, levels4, vote})
    for (const int ranks : {2, 5, 128}) {
      const auto count = static_cast<double>(fewest_values(scheme, ranks));
      CHECK(code_bytes(scheme, count).there / ranks == doctest::Approx(65536).epsilon(1e-3));
    }
}

TEST_CASE("emulated ranks: votes are the majority of rows; ties are a bit of step and place; zeros stay") {
  for (const std::size_t ranks : {1, 2, 3, 4, 5, 16, 127})
    for (const double zeros : {0.0, 0.2}) {
      CAPTURE(ranks);
      Arenas arenas({1, 1031, 77, 2048, 5}, ranks, ranks);
      for (std::size_t r = 0; r < ranks; ++r) arenas.values[r] = heavy_values(arenas.size, mix(ranks, r, 5), zeros);
      for (std::vector<float>& values : arenas.values) std::fill_n(values.begin() + 32, 500, 0.0F);  // on all ranks
      Emulated emulated{Communication::vote, arenas, std::vector<std::uint32_t>(ranks, 4)};
      if (ranks > 2) emulated.rows[1] = 1;
      if (ranks > 3) emulated.rows[2] = 0;
      const std::vector<std::vector<float>> results = emulated.sum();
      std::size_t odd = 0, ties = 0, up = 0, moved = 0;
      arenas.for_each([&](std::size_t at, std::size_t) {
        int sum = 0, votes = 0;
        for (std::size_t r = 0; r < ranks; ++r) {
          const int one = sign(arenas.values[r][at]);
          sum += static_cast<int>(emulated.rows[r]) * one;
          votes += emulated.rows[r] > 0 ? std::abs(one) : 0;
        }
        const float got = results[0][at];
        if (sum != 0) odd += got != static_cast<float>(sign(sum)) ? 1U : 0U;
        if (sum == 0 && votes == 0) moved += got != 0 ? 1U : 0U;
        if (sum == 0 && votes > 0) ++ties, up += got > 0 ? 1U : 0U, odd += std::abs(got) != 1 ? 1U : 0U;
      });
      CHECK(odd == 0);
      CHECK(moved == 0);
      for (const std::vector<float>& result : results) CHECK(result == results[0]);
      if (ranks == 2) CHECK(std::abs(static_cast<double>(up) / static_cast<double>(ties) - 0.5) < 0.1);
      CHECK(emulated.sum() == results);  // after every restart
      emulated.tie_key = 8;
      if (ranks == 2) CHECK(emulated.sum() != results);  // of another step
    }
}

TEST_CASE("emulated ranks: the result does not depend on how many ranks hold the workers") {
  using enum Communication;
  for (const Communication scheme : {bf16, int8, levels8, levels4, vote}) {
    CAPTURE(to_string(scheme));
    Arenas arenas({3000, 1, 4097, 33}, 12, 3);
    Emulated emulated{scheme, arenas, std::vector<std::uint32_t>(12, 2)};
    emulated.set_factors();
    const std::vector<float> one = emulated.sum(12).front();
    for (const std::size_t workers : {1, 2, 3, 6})
      for (const std::vector<float>& result : emulated.sum(workers)) CHECK(result == one);
  }
}

TEST_CASE("emulated ranks: nor with error feedback, nor where another number of ranks goes on") {
  using enum Communication;
  for (const Communication scheme : {bf16, int8}) {
    CAPTURE(to_string(scheme));
    Arenas arenas({3000, 1, 4097, 33}, 12, 3);
    std::vector<std::vector<float>> wanted;
    for (const std::size_t workers : {12, 1, 3}) {
      Emulated emulated{scheme, arenas, std::vector<std::uint32_t>(12, 2)};
      emulated.residuals.assign(12, std::vector<float>(arenas.size));
      std::vector<std::vector<float>> results;
      for (int step = 0; step < 5; ++step) results.push_back(emulated.sum(workers).front());
      // Each rank has what its pieces left out, and together they have all of it.
      std::vector<float> whole(arenas.size);
      std::size_t twice = 0;
      for (const std::vector<float>& piece : emulated.sum_residuals)
        for (std::size_t i = 0; i < whole.size(); ++i) {
          twice += piece[i] != 0 && whole[i] != 0 ? 1U : 0U;
          whole[i] += piece[i];
        }
      CHECK(twice == 0);
      emulated.sum_residuals.assign(4, whole);
      for (int step = 0; step < 5; ++step) results.push_back(emulated.sum(3).front());
      if (wanted.empty()) wanted = results;
      CHECK(results == wanted);
    }
    CHECK(wanted[0] != wanted[1]);  // something was left out
  }
}

TEST_CASE("emulated ranks: a value that is not finite on one rank shows on all") {
  using enum Communication;
  for (const Communication scheme : {bf16, int8, levels8, levels4, vote}) {
    CAPTURE(to_string(scheme));
    Arenas arenas({3000, 1, 4097, 33}, 3, 3);
    Emulated emulated{scheme, arenas, std::vector<std::uint32_t>(3, 2)};
    emulated.set_factors();
    arenas.values[1][5] = std::nanf("");
    for (const std::vector<float>& result : emulated.sum()) CHECK(std::isnan(result[5]));
  }
}

TEST_CASE("emulated ranks: rounded sums are near, and error feedback makes them right in the mean") {
  using enum Communication;
  constexpr std::size_t ranks = 4;
  for (const Communication scheme : {bf16, int8})
    for (const bool feedback : {false, true}) {
      CAPTURE(to_string(scheme));
      CAPTURE(feedback);
      Arenas arenas({2000, 77}, ranks, 3);
      Emulated emulated{scheme, arenas, std::vector<std::uint32_t>(ranks, 1)};
      if (feedback) emulated.residuals.assign(ranks, std::vector<float>(arenas.size));
      constexpr int steps = 64;
      std::vector<double> total(arenas.size);
      for (int step = 0; step < steps; ++step) {
        const std::vector<float> result = emulated.sum().front();
        for (std::size_t i = 0; i < arenas.size; ++i) total[i] += result[i];
      }
      double error = 0, size = 0;
      arenas.for_each([&](std::size_t at, std::size_t) {
        double exact = 0;
        for (const std::vector<float>& values : arenas.values) exact += values[at];
        error += std::abs(total[at] / steps - exact);
        size += std::abs(exact);
      });
      const double relative = error / size;
      CHECK(relative < (scheme == bf16 ? 4e-3 : 0.1));
      if (feedback) CHECK(relative < (scheme == bf16 ? 2e-4 : 2e-3));  // else as large as a rounding
      if (!feedback) CHECK(relative > (scheme == bf16 ? 5e-4 : 5e-3));
    }
}

TEST_CASE("codes: bytes of a sum, as they are predicted") {
  using enum Communication;
  for (const Communication scheme : {bf16, int8, levels8, levels4, vote}) {
    CAPTURE(to_string(scheme));
    constexpr std::size_t count = 1 << 20;
    PackedTensors tensors;
    tensors.add(0, count, 0);
    std::vector<float> result(1);
    const auto coding = make_sum_coding({scheme, 1, 0}, tensors, {}, result);
    const CodeBytes bytes = code_bytes(scheme, count);
    const double votes = scheme == vote ? 2 : 1;  // room for zeros
    CHECK(static_cast<double>(coding->code_bytes(count)) == doctest::Approx(votes * bytes.there).epsilon(1e-3));
    CHECK(static_cast<double>(coding->result_bytes(count)) == doctest::Approx(votes * bytes.back).epsilon(1e-3));
  }
  CHECK(sum_bytes(fp32, 1000, 4) == doctest::Approx(6000));
  CHECK(sum_bytes(vote, 1000, 4) == doctest::Approx(187.5));
}

}  // namespace mrmf::test
