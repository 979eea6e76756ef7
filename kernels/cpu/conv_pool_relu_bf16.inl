// Forward's products in bf16 (included in conv_pool_relu.inl, inside its anonymous namespace). An instruction
// multiplies pairs of neighbouring inputs by pairs of weights and adds both products to a float32 sum: twice as many
// products as a multiply-add of float32 has. Inputs and weights are rounded to the nearest bf16 before.
typedef unsigned short Input;
typedef Input Pair __attribute__((vector_size(4), aligned(2), may_alias));

// The sample in bf16, in f.scratch.
inline const Input* input_of(const Geometry& g, const Forward& f) {
  auto* const to = reinterpret_cast<Input*>(f.scratch);
  const long count = g.in_lines * g.line;
  long i = 0;
  for (; i + lanes <= count; i += lanes) fused_round(f.x + i, to + i);
  float end[lanes] = {};
  for (long rest = i; rest < count; ++rest) end[rest - i] = f.x[rest];
  fused_round(end, to + i);
  return to;
}

// Floats, each of which holds a pair of weights.
inline long packed_field(const Geometry& g) { return g.kernel_lines * ((g.run + 1) / 2); }

// A run's weights in pairs; the last of an odd run has a zero.
void pack_weights(const Geometry& g, const float* w, float* packed) {
  for (long first = 0, block = 0; first < vectors(g.out_channels); first += block) {
    block = next_block(vectors(g.out_channels) - first, max_block);
    for (long line = 0; line < g.kernel_lines; ++line)
      for (long i = 0; i < g.run; i += 2)
        for (long vector = 0; vector < block; ++vector, packed += lanes) {
          float one[lanes] = {}, other[lanes] = {};
          for (long lane = 0; lane < lanes; ++lane) {
            const long o = (first + vector) * lanes + lane, at = o * g.field + line * g.run + i;
            if (o >= g.out_channels) continue;
            one[lane] = w[at];
            if (i + 1 < g.run) other[lane] = w[at + 1];
          }
          Input rounded[2][lanes];
          fused_round(one, rounded[0]);
          fused_round(other, rounded[1]);
          for (long lane = 0; lane < lanes; ++lane)
            reinterpret_cast<Pair*>(packed)[lane] = Pair{rounded[0][lane], rounded[1][lane]};
        }
  }
}

template <long Block, long Positions>
inline __attribute__((always_inline)) const float* add_pairs(const Pair (&x)[Positions], const float* packed,
                                                             Vector (*sum)[Block]) {
  for (long n = 0; n < Block; ++n, packed += lanes) {
    const Vector w = *reinterpret_cast<const Vector*>(packed);
    for (long p = 0; p < Positions; ++p) sum[p][n] = fused_products(sum[p][n], x[p], w);
  }
  return packed;
}

template <long Block, long Positions>
inline __attribute__((always_inline)) const float* add_products(const Geometry& g, const Input* const* x,
                                                                const float* packed, Vector (*sum)[Block]) {
  long i = 0;
  for (; i + 2 <= g.run; i += 2) {
    Pair pairs[Positions];
    for (long p = 0; p < Positions; ++p) pairs[p] = *reinterpret_cast<const Pair*>(x[p] + i);
    packed = add_pairs<Block, Positions>(pairs, packed, sum);
  }
  if (i < g.run) {  // what lies behind the run may be NaN
    Pair pairs[Positions];
    for (long p = 0; p < Positions; ++p) pairs[p] = Pair{x[p][i], 0};
    packed = add_pairs<Block, Positions>(pairs, packed, sum);
  }
  return packed;
}
