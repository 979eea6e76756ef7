// The layers on a CPU with run.precision = "bf16", against the reference in float32. Factors are rounded to bf16, which
// has 8 bits of significance; memory and sums are float32.
//
// Where the processor has no products in bf16 all is float32, and these cases hold all the more; the last one says
// which it is. The fused kernel's are emulated by unit_sixteen_lanes.
#include <doctest/doctest.h>

#include "kernels/cpu/instruction_set.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"
#include "tests/unit/support/layer_memory.hpp"

namespace mrmf::test {
namespace {

void check_tables(const std::vector<LayerCases>& tables, const LayerCheck& check) {
  const auto backend = make_cpu_backend(2, Precision::bf16);
  for (const LayerCases& cases : tables)
    for (const LayerCase& layer_case : cases) check_layer(*backend, layer_case, check);
}

LayerCheck check_of(int bits, Inputs inputs, const Agreement& agreement) {
  return {.agreement = agreement, .bits = bits, .inputs = inputs, .slopes = false};
}

}  // namespace

TEST_CASE("CPU in bf16: products of numbers of 8 bits are as exact as in float32") {
  check_tables({conv_cases(), conv_transpose_cases(), dense_cases()}, check_of(8, Inputs::fractions, {}));
}

// A maximum that a rounding decides moves a whole gradient; with whole numbers below 2^8 there is no rounding. In
// float32 Winograd's kernels round whole numbers, too, and these have equal maxima.
TEST_CASE("CPU in bf16: fused convolutions are exact on small whole numbers") {
  const Inputs inputs = cpu::has_bf16_products() ? Inputs::whole : Inputs::fractions;
  check_tables({conv_pool_relu_cases()}, check_of(24, inputs, {}));
}

// Both factors are off by 2^-9 at most, and by 2^-9 / sqrt(3) in the mean square.
TEST_CASE("CPU in bf16: factors are rounded once") {
  constexpr double rounding = 0x1p-8;
  check_tables({conv_cases(), dense_cases()},
               check_of(24, Inputs::fractions, {.y = rounding, .dx = rounding, .params = rounding}));
}

TEST_CASE("CPU in bf16: a backend says whether it rounds, and does so or not") {
  const auto bf16 = make_cpu_backend(2, Precision::bf16), float32 = make_cpu_backend(2);
  const bool rounds = cpu::has_bf16_products();
  INFO(bf16->description());
  CHECK((bf16->description().find(", products in bf16, threads: 2") != std::string::npos) == rounds);
  CHECK((bf16->description().find(", all in float32 (no products in bf16 here), threads") != std::string::npos) ==
        !rounds);
  const LayerCase fused = conv_pool_relu_cases().front();
  const auto layer = make_case(*bf16, fused), exact = make_case(*float32, fused);
  LayerMemory got(*layer, fused.in, fused.in.n), want(*exact, fused.in, fused.in.n);
  want.fill(*exact, 1);
  got.copy_inputs(want);
  const StepContext step{.training = true, .seed = 5, .updates_done = 3, .ids = {}, .team_sum = nullptr};
  got.forward(*layer, step);
  want.forward(*exact, step);
  const double distance = relative_distance(got.y.span(), want.y.span());
  CHECK(distance < 0x1p-8);
  CHECK((distance > 1e-4) == rounds);
}

}  // namespace mrmf::test
