// Shared source of cable_generic.cpp and cable_avx2.cpp; internal linkage throughout. Products and sums are not
// contracted, so that every instruction set gives the same bits.
#include "src/simulators/neuron/cable_kernel.hpp"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors never cross a function that is not inlined
#pragma GCC optimize("fp-contract=off")

namespace mrmf::neuron {
namespace {

#define MRMF_INLINE __attribute__((always_inline)) inline

using F8 = float __attribute__((vector_size(32)));
using I8 = int __attribute__((vector_size(32)));

// Constants of the physics, as in cell.hpp, in the form that the loop wants.
constexpr float kNernst = 13.234069557339458F, kLogOutside = 0.69314718056F, kRest = 1e-4F;
constexpr float kSkSlope = 4.8F, kLogSkHalf = -7.7517253F;

MRMF_INLINE F8 load(const float* p) { return *reinterpret_cast<const F8*>(__builtin_assume_aligned(p, 32)); }
MRMF_INLINE void store(float* p, const F8& x) { *reinterpret_cast<F8*>(__builtin_assume_aligned(p, 32)) = x; }
MRMF_INLINE F8 splat(float x) { return F8{x, x, x, x, x, x, x, x}; }
MRMF_INLINE F8 larger(const F8& a, const F8& b) { return a > b ? a : b; }
MRMF_INLINE F8 smaller(const F8& a, const F8& b) { return a < b ? a : b; }
MRMF_INLINE F8 lerp(const float* row, const F8& share) {
  const F8 a = load(row);
  return a + share * (load(row + 4 * kSamples) - a);
}

// exp and log to about one unit in the last place (the polynomials of S. Moshier's Cephes library).
MRMF_INLINE F8 exponential(const F8& value) {
  F8 x = smaller(larger(value, splat(-87.0F)), splat(88.0F));
  const F8 scaled = x * 1.44269504088896341F;
  const I8 n = __builtin_convertvector(scaled + (scaled > 0.0F ? splat(0.5F) : splat(-0.5F)), I8);
  const F8 nf = __builtin_convertvector(n, F8);
  x = (x - nf * 0.693359375F) + nf * 2.12194440e-4F;
  F8 p = splat(1.9875691500e-4F);
  p = p * x + 1.3981999507e-3F;
  p = p * x + 8.3334519073e-3F;
  p = p * x + 4.1665795894e-2F;
  p = p * x + 1.6666665459e-1F;
  p = p * x + 5.0000001201e-1F;
  const F8 y = p * (x * x) + x + 1.0F;
  return y * reinterpret_cast<F8>((n + 127) << 23);
}

MRMF_INLINE F8 logarithm(const F8& x) {
  const I8 bits = reinterpret_cast<I8>(x);
  F8 e = __builtin_convertvector((bits >> 23) - 126, F8);
  F8 r = reinterpret_cast<F8>((bits & 0x007FFFFF) | 0x3F000000);
  const I8 low = r < 0.707106781186547524F;
  e = low ? e - 1.0F : e;
  r = low ? r + r - 1.0F : r - 1.0F;
  const F8 z = r * r;
  F8 p = splat(7.0376836292e-2F);
  p = p * r - 1.1514610310e-1F;
  p = p * r + 1.1676998740e-1F;
  p = p * r - 1.2420140846e-1F;
  p = p * r + 1.4249322787e-1F;
  p = p * r - 1.6668057665e-1F;
  p = p * r + 2.0000714765e-1F;
  p = p * r - 2.4999993993e-1F;
  p = p * r + 3.3333331174e-1F;
  const F8 y = r * z * p - e * 2.12194440e-4F - 0.5F * z;
  return (r + y) + e * 0.693359375F;
}

MRMF_INLINE void transpose(F8 (&a)[8]) {
  F8 b[8], c[8];
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      c[i + 2 * j] = __builtin_shufflevector(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      c[i + 2 * j + 1] = __builtin_shufflevector(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    a[i] = __builtin_shufflevector(c[i], c[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    a[i + 4] = __builtin_shufflevector(c[i], c[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// m^exponent with the exponents of cell.hpp.
template <bool kCalcium>
MRMF_INLINE F8 power(const F8& m) {
  constexpr int kMiddle = kCalcium ? -1 : 0;
  const I8 squared = {-1, -1, -1, kMiddle, kMiddle, kMiddle, 0, 0};
  const I8 cubed = {-1, 0, -1, 0, 0, 0, 0, 0}, fourth = {0, -1, 0, 0, 0, 0, 0, 0};
  const F8 m2 = m * m;
  return (squared ? m2 : m) * (cubed ? m : fourth ? m2 : splat(1.0F));
}

// Advances the gates of one block to the potential of its compartment (kStart: takes them as they are) and adds its
// conductances to the compartment's sums.
template <bool kCalcium, bool kStart>
MRMF_INLINE void advance_block(const CableKernel& k, const TableGeometry& table, int b) {
  const KernelBlock& block = k.block[b];
  const int c = block.compartment * kSamples;
  const F8 v = smaller(larger(load(k.voltage + c), splat(table.lowest)), splat(table.highest));
  const F8 x = (v - table.lowest) * table.per_millivolt;
  const I8 index = __builtin_convertvector(x, I8);
  const F8 share = x - __builtin_convertvector(index, F8);
  const float* conductance = k.conductance + block.conductances * (kSamples * kSamples);
  F8 g[kSamples];
  for (int s = 0; s < kSamples; ++s) {
    const float* row = block.table + index[s] * (4 * kSamples);
    const F8 w = splat(share[s]);
    const int at = (b * kSamples + s) * kSamples;
    F8 m = lerp(row, w), h = lerp(row + 2 * kSamples, w);
    if (!kStart) {
      const F8 m0 = load(k.m + at), h0 = load(k.h + at);
      m = m0 + lerp(row + kSamples, w) * (m - m0);
      h = h0 + lerp(row + 3 * kSamples, w) * (h - h0);
    }
    store(k.m + at, m);
    store(k.h + at, h);
    g[s] = load(conductance + s * kSamples) * power<kCalcium>(m) * h;
  }
  transpose(g);
  if (!kCalcium) g[3] = g[3] * block.ih_factor;
  const F8 sum = ((g[0] + g[1]) + (g[2] + g[3])) + ((g[4] + g[5]) + (g[6] + g[7]));
  const float* e = block.reversal;
  const F8 drive = ((g[0] * e[0] + g[1] * e[1]) + (g[2] * e[2] + g[3] * e[3])) +
                   ((g[4] * e[4] + g[5] * e[5]) + (g[6] * e[6] + g[7] * e[7]));
  store(k.sum + c, load(k.sum + c) + sum);
  store(k.drive + c, load(k.drive + c) + drive);
  if (kCalcium) store(k.calcium_sum + c, g[3] + g[5]);
}

// Adds SK and the calcium channels' drive, after the concentration is known.
template <bool kStart>
MRMF_INLINE void advance_calcium(const CableKernel& k, int i) {
  const int c = i * kSamples;
  F8 inside = load(k.calcium + c);
  if (!kStart) {
    const F8 steady = kRest - k.calcium_gain[i] * load(k.calcium_current + c);
    inside = inside + k.calcium_factor[i] * (steady - inside);
    inside = larger(inside, splat(1e-9F));
    store(k.calcium + c, inside);
  }
  const F8 log_inside = logarithm(inside);
  const F8 steady = 1.0F / (1.0F + exponential(kSkSlope * (kLogSkHalf - log_inside)));
  const F8 z0 = load(k.sk_open + c);
  const F8 z = kStart ? steady : z0 + k.sk_factor * (steady - z0);
  store(k.sk_open + c, z);
  const F8 reversal = kNernst * (kLogOutside - log_inside);
  store(k.calcium_reversal + c, reversal);
  const F8 sk = load(k.sk + c) * z;
  store(k.sum + c, load(k.sum + c) + sk);
  store(k.drive + c, load(k.drive + c) + sk * k.block[i].reversal[1] + load(k.calcium_sum + c) * reversal);
}

template <bool kStart>
MRMF_INLINE void advance_membrane(const CableKernel& k, const TableGeometry& table) {
  for (int i = 0; i < k.compartments; ++i) {
    store(k.sum + i * kSamples, load(k.leak + i * kSamples));
    store(k.drive + i * kSamples, load(k.leak_drive + i * kSamples));
  }
  for (int b = 0; b < k.blocks; ++b) {
    if (k.block[b].calcium)
      advance_block<true, kStart>(k, table, b);
    else
      advance_block<false, kStart>(k, table, b);
  }
  for (int i = 0; i < k.compartments; ++i)
    if (k.block[i].calcium) advance_calcium<kStart>(k, i);
}

// One backward Euler step of the cable equation: elimination from the tips to the root and back (Hines, 1984).
MRMF_INLINE void advance_voltage(const CableKernel& k, float current) {
  for (int i = 0; i < k.compartments; ++i) {
    const int c = i * kSamples;
    const F8 v = load(k.voltage + c), sum = load(k.sum + c);
    store(k.diagonal + c, sum + k.fixed_diagonal[i]);
    store(k.right + c, load(k.drive + c) - sum * v);
    if (k.block[i].calcium) store(k.calcium_current + c, load(k.calcium_sum + c) * (v - load(k.calcium_reversal + c)));
  }
  for (int i = k.compartments - 1; i > 0; --i) {
    const int c = i * kSamples, p = k.parent[i] * kSamples;
    const F8 difference = load(k.voltage + p) - load(k.voltage + c);
    const F8 right = load(k.right + c) + k.to_parent[i] * difference;
    const F8 inverse = 1.0F / load(k.diagonal + c);
    const F8 factor = k.from_child[i] * inverse;
    store(k.right + c, right);
    store(k.diagonal + c, inverse);
    store(k.diagonal + p, load(k.diagonal + p) - factor * k.to_parent[i]);
    store(k.right + p, load(k.right + p) + (factor * right - k.from_child[i] * difference));
  }
  store(k.right, (load(k.right) + current) / load(k.diagonal));
  store(k.voltage, load(k.voltage) + load(k.right));
  for (int i = 1; i < k.compartments; ++i) {
    const int c = i * kSamples, p = k.parent[i] * kSamples;
    const F8 change = (load(k.right + c) + k.to_parent[i] * load(k.right + p)) * load(k.diagonal + c);
    store(k.right + c, change);
    store(k.voltage + c, load(k.voltage + c) + change);
  }
}

MRMF_INLINE void run(const CableKernel& k, const TableGeometry& table) {
  advance_membrane<true>(k, table);
  F8 peak = load(k.voltage + k.probes[0] * kSamples);
  const float weight = 1.0F / static_cast<float>(k.steps_per_bin);
  float* bin = k.bins;
  for (int step = 0; step < k.steps;) {
    F8 mean[3] = {splat(0), splat(0), splat(0)};
    for (int i = 0; i < k.steps_per_bin; ++i, ++step) {
      for (int p = 0; p < 3; ++p) mean[p] = mean[p] + load(k.voltage + k.probes[p] * kSamples);
      advance_voltage(k, k.current[step]);
      peak = larger(peak, load(k.voltage + k.probes[0] * kSamples));
      advance_membrane<false>(k, table);
    }
    for (int p = 0; p < 3; ++p, bin += kSamples) store(bin, mean[p] * weight);
  }
  store(k.peak, peak);
}

#undef MRMF_INLINE

}  // namespace
}  // namespace mrmf::neuron
