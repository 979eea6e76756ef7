// The layers in tf32 and bf16 on CUDA, against the reference in float32.
//
// Inputs with as many bits as the type has (11 of significance in tf32, 8 in bf16) go into products and into stored
// activations without rounding, and products and sums are float32: what is left is one rounding of a stored result,
// which is at most 2^-8 of each element in bf16 and none in tf32. A wrong term among a few hundred is 1e-2.
#include <doctest/doctest.h>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"
#include "tests/unit/support/without_cuda.hpp"

namespace mrmf::test {
namespace {

void check_tables(Precision precision, const std::vector<LayerCases>& tables, const LayerCheck& check) {
  const auto backend = cuda_backend(precision);
  for (const LayerCases& cases : tables)
    for (const LayerCase& layer_case : cases) check_layer(*backend, layer_case, check);
}

std::vector<LayerCases> single_layers() {
  return {conv_cases(),     conv_transpose_cases(), locally_connected_cases(), pool_cases(),
          contrast_cases(), upsample_cases(),       batch_norm_cases(),        group_norm_cases(),
          dense_cases(),    elementwise_cases(),    norm_relu_pool_cases()};
}

LayerCheck low(int bits, const Agreement& agreement) {
  return {.agreement = agreement, .bits = bits, .inputs = Inputs::fractions, .slopes = false};
}

/// Tensor cores cut off what a sum of eight products has below its last bit, where others round: over K products that
/// is K / 8 * 0.5 * 2^-24 of the sum on the average. A weight's gradient adds up to 1900 products (rows x positions).
constexpr Agreement exact_products{.params = 2e-5};

/// Of each kind of convolution (axes, stride, padding, odd channels) some, for a check that has little time.
LayerCases some_of(const LayerCases& cases, std::size_t every) {
  LayerCases some;
  for (std::size_t i = 0; i < cases.size(); i += every) some.push_back(cases[i]);
  return some;
}

LayerCheck whole() { return {.agreement = {}, .bits = 24, .inputs = Inputs::whole, .slopes = false}; }

}  // namespace

TEST_CASE("cuda: a dozen convolutions in tf32 and bf16" * without_cuda) {
  constexpr double rounding = 0x1p-8;
  const LayerCases some = some_of(conv_cases(), 4), transposed = some_of(conv_transpose_cases(), 4);
  check_tables(Precision::tf32, {some, transposed}, low(11, exact_products));
  check_tables(Precision::bf16, {some, transposed}, low(8, {.y = rounding, .dx = rounding, .params = rounding}));
}

TEST_CASE("cuda: tf32 multiplies numbers of 10 bits of mantissa exactly" * without_cuda) {
  check_tables(Precision::tf32, single_layers(), low(11, exact_products));
}

TEST_CASE("cuda: bf16 rounds what it stores, and nothing else" * without_cuda) {
  constexpr double rounding = 0x1p-8;
  std::vector<LayerCases> others = single_layers();
  others.erase(others.begin(), others.begin() + 2);
  // A convolution's weight gradient is stored once, too; tanh's dx comes from its stored, rounded output.
  check_tables(Precision::bf16, {conv_cases(), conv_transpose_cases()},
               low(8, {.y = rounding, .dx = rounding, .params = rounding}));
  check_tables(Precision::bf16, others, low(8, {.y = rounding, .dx = 2 * rounding}));
}

// A maximum that a rounding decides moves a whole gradient; with whole numbers below 2^8 there is no rounding.
TEST_CASE("cuda: products are exact on small whole numbers in tf32 and bf16" * without_cuda) {
  for (const Precision precision : {Precision::tf32, Precision::bf16})
    check_tables(precision, {conv_pool_relu_cases(), conv_cases(), conv_transpose_cases(), dense_cases()}, whole());
}

// Factors are rounded (2^-11 of each at most in tf32, 2^-8 in bf16) or, by tensor cores left to themselves, cut off
// (2^-10). In tf32 a product is off by at most 2^-9, and a sum of terms of random signs by no more than its terms. In
// bf16 there are three roundings of 2^-8 at most and 2^-8 / sqrt(3) in the mean square, those of both factors and of
// the result: 2^-8 together, and half as much again for results of few elements.
TEST_CASE("cuda: any factors are rounded to the precision's mantissa" * without_cuda) {
  const std::vector<LayerCases> products{conv_cases(), conv_transpose_cases(), dense_cases()};
  constexpr double tf32 = 0x1p-9, bf16 = 1.5 * 0x1p-8;
  check_tables(Precision::tf32, products, low(24, {.y = tf32, .dx = tf32, .params = tf32}));
  check_tables(Precision::bf16, products, low(24, {.y = bf16, .dx = bf16, .params = bf16}));
}

}  // namespace mrmf::test
