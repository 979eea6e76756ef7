// The matrix products of a locally connected layer, written with GCC's vector extensions and included once per
// instruction set. The including file includes its instructions_*.inl before. Everything here has internal linkage.
//
// Every position has weights of its own, (features, depth), which are used once for all rows, and read where they lie.
// Registers hold a tile of the result. With many rows a tile takes each load for several multiply-adds; with few, each
// pass goes through a few features' weights from their first float to their last, so that memory sets the pace.
//
//   outputs   rows x features, summed in vectors along the depth and then over their lanes
//   inputs    rows x depth, vectors along the depth, a sum over features
//   weights   features x depth, the same, a sum over rows
namespace mrmf::cpu::local {
namespace {

#include "kernels/cpu/vectors.inl"

constexpr bool many_registers = FUSED_REGISTERS >= 32;
// Accumulators of a tile: 4 x 3 of 16 registers, 6 x 4 of 32, and one of the operands.
constexpr long most_features = 4, most_rows = many_registers ? 6 : 3;  // outputs
constexpr long most_height = many_registers ? 6 : 4;                   // rows of `inputs`, features of `weights`
constexpr long most_width = many_registers ? 4 : 3;                    // vectors of these
typedef float Four __attribute__((vector_size(16)));
typedef float FourAnywhere __attribute__((vector_size(16), aligned(4), may_alias));

// Calls body(first, Constant<size>) for blocks of at most Most, as even as they can be.
template <long Most, class Body>
inline void for_blocks(long count, const Body& body) {
  for (long first = 0, size = 0; first < count; first += size) {
    size = next_block(count - first, Most);
    with_constant<Most>(size, [&](auto n) { body(first, n); });
  }
}

// Asks for what next has of features [first, end), floats [from, to).
template <class AnyProduct>
inline void fetch_next(const AnyProduct& p, long first, long end, long from, long to) {
  constexpr long line = 16;
  for (long f = first; f < end; ++f)
    for (long d = from; d < to; d += line) __builtin_prefetch(p.next + f * p.next_pitch + d, 0, 2);
}

template <long Features, long Rows>
inline void outputs_tile(const Product& p, const float* w, const float* x, float* y) {
  Vector sum[Features][Rows] = {};
  const auto add = [&](long d, const auto& read) {
    Vector in[Rows];
    for (long r = 0; r < Rows; ++r) in[r] = read(x + r * p.x_pitch + d);
    for (long f = 0; f < Features; ++f) {
      const Vector v = read(w + f * p.w_pitch + d);
      for (long r = 0; r < Rows; ++r) sum[f][r] += v * in[r];
    }
  };
  const long whole = p.depth / lanes * lanes, rest = p.depth - whole;
  for (long d = 0; d < whole; d += lanes) add(d, [](const float* from) { return load(from); });
  if (rest > 0) add(whole, [rest](const float* from) { return load_some(from, rest); });
  for (long r = 0; r < Rows; ++r) {
    Vector of[4] = {};
    for (long f = 0; f < Features; ++f) of[f] = sum[f][r];
    const Four sums = sums_of_four(of[0], of[1], of[2], of[3]);
    float* const to = y + r * p.y_pitch;
    if constexpr (Features == 4)
      *reinterpret_cast<FourAnywhere*>(to) += sums;
    else
      for (long f = 0; f < Features; ++f) to[f] += sums[f];
  }
}

// A few features' weights stay in the first cache while all rows pass by.
void outputs(const Product& p, const float* w, const float* x, float* y) {
  constexpr long cached = 5120;  // floats
  const long fit = cached / p.depth / most_features * most_features, group = fit < most_features ? most_features : fit;
  for (long first = 0; first < p.features; first += group) {
    const long end = first + group < p.features ? first + group : p.features, of_group = end - first;
    for_blocks<most_rows>(p.rows, [&](long r, auto rows) {
      if (p.next != nullptr)
        fetch_next(p, first + of_group * r / p.rows, first + of_group * (r + rows.value) / p.rows, 0, p.depth);
      for_blocks<most_features>(of_group, [&](long f, auto features) {
        outputs_tile<features.value, rows.value>(p, w + (first + f) * p.w_pitch, x + r * p.x_pitch,
                                                 y + r * p.y_pitch + first + f);
      });
    });
  }
}

/// Vectors along the depth, `width` of them, of which the last may have only `last` floats.
struct Vectors {
  long first, last;
};
// Calls body(piece, Constant<width>) for all of the depth.
template <class Body>
inline void for_vectors(long depth, const Body& body) {
  for_blocks<most_width>(vectors(depth), [&](long first, auto width) {
    const long behind = depth - (first + width.value - 1) * lanes;
    body(Vectors{first * lanes, behind < lanes ? behind : lanes}, width);
  });
}
/// How the last vector is read and stored: like the others; read whole, stored in part; both in part.
enum class Last { whole, stored_in_part, in_part };
template <Last Of>
struct LastConstant {
  static constexpr Last value = Of;
};
// Calls body(LastConstant).
template <class Body>
inline void with_last(const Vectors& piece, bool readable, const Body& body) {
  if (piece.last == lanes) return body(LastConstant<Last::whole>{});
  if (readable) return body(LastConstant<Last::stored_in_part>{});
  body(LastConstant<Last::in_part>{});
}
template <long Width, bool Whole>
inline void load_piece(const float* from, long last, Vector (&to)[Width]) {
  for (long v = 0; v < Width; ++v)
    to[v] = Whole || v + 1 < Width ? load(from + v * lanes) : load_some(from + v * lanes, last);
}
template <long Width, bool Whole>
inline void store_piece(const Vector (&from)[Width], long last, float* to) {
  for (long v = 0; v < Width; ++v)
    Whole || v + 1 < Width ? store(to + v * lanes, from[v]) : store_some(to + v * lanes, last, from[v]);
}

// dx += dy w for a few rows and vectors, of `features` features.
template <long Rows, long Width, Last last>
inline void inputs_tile(const Product& p, long features, long floats, const float* w, const float* dy, float* dx) {
  constexpr bool whole = last == Last::whole;
  Vector sum[Rows][Width];
  for (long r = 0; r < Rows; ++r) load_piece<Width, whole>(dx + r * p.x_pitch, floats, sum[r]);
  for (long f = 0; f < features; ++f) {
    Vector weight[Width];
    load_piece<Width, last != Last::in_part>(w + f * p.w_pitch, floats, weight);  // masked loads are slow
    for (long r = 0; r < Rows; ++r) {
      const Vector gradient = broadcast(dy[r * p.y_pitch + f]);
      for (long v = 0; v < Width; ++v) sum[r][v] += gradient * weight[v];
    }
  }
  for (long r = 0; r < Rows; ++r) store_piece<Width, whole>(sum[r], floats, dx + r * p.x_pitch);
}

void inputs(const Product& p, const float* w, const float* dy, float* dx) {
  const long at_once = p.rows < most_height ? 7 : p.features;  // streams of weights
  for (long first = 0; first < p.features; first += at_once) {
    const long features = first + at_once < p.features ? at_once : p.features - first;
    for_vectors(p.depth, [&](const Vectors& piece, auto width) {
      if (p.next != nullptr) fetch_next(p, first, first + features, piece.first, piece.first + width.value * lanes);
      with_last(piece, p.readable, [&](auto last) {
        for_blocks<most_height>(p.rows, [&](long r, auto rows) {
          inputs_tile<rows.value, width.value, last.value>(p, features, piece.last, w + first * p.w_pitch + piece.first,
                                                           dy + r * p.y_pitch + first,
                                                           dx + r * p.x_pitch + piece.first);
        });
      });
    });
  }
}

template <long Features, long Width, bool Whole>
inline void weights_tile(const Product& p, const Target& target, long last, const float* x, const float* dy,
                         float* dw) {
  Vector sum[Features][Width] = {};
  for (long r = 0; r < p.rows; ++r) {
    Vector in[Width];
    for (long v = 0; v < Width; ++v) in[v] = load(x + r * p.x_pitch + v * lanes);
    for (long f = 0; f < Features; ++f) {
      const Vector gradient = broadcast(dy[r * p.y_pitch + f]);
      for (long v = 0; v < Width; ++v) sum[f][v] += gradient * in[v];
    }
  }
  for (long f = 0; f < Features; ++f) {
    Vector there[Width] = {};
    if (target.add) load_piece<Width, Whole>(dw + f * p.w_pitch, last, there);
    for (long v = 0; v < Width; ++v) there[v] += sum[f][v] * target.scale;
    store_piece<Width, Whole>(there, last, dw + f * p.w_pitch);
  }
}

// The gradient of weights from few rows, where memory sets the pace: feature by feature, in whole aligned vectors. What
// the loop needs is copied first, since stores of vectors may alias all that lies in memory.
template <long Rows, bool Add>
inline void few_rows_weights(const Product& p, float scale, const float* x, const float* dy, float* dw) {
  const long depth = p.depth, pitch = p.x_pitch;
  const Vector factor = broadcast(scale);
  for (long f = 0; f < p.features; ++f) {
    float* const to = dw + f * p.w_pitch;
    Vector gradient[Rows];
    for (long r = 0; r < Rows; ++r) gradient[r] = broadcast(dy[r * p.y_pitch + f]);
    const auto sum = [&](long d, Vector there) {
      Vector value = gradient[0] * load(x + d);
      for (long r = 1; r < Rows; ++r) value += gradient[r] * load(x + r * pitch + d);
      return value * factor + there;
    };
    const auto some = [&](long d, long count) {
      store_some(to + d, count, sum(d, Add ? load_some(to + d, count) : Vector{}));
    };
    const long behind = static_cast<long>(reinterpret_cast<unsigned long>(to) / sizeof(float) % lanes);
    long d = behind > 0 && lanes - behind < depth ? lanes - behind : 0;
    if (d > 0) some(0, d);
    for (; d + lanes <= depth; d += lanes) store(to + d, sum(d, Add ? load(to + d) : Vector{}));
    if (d < depth) some(d, depth - d);
  }
}

void weights(const Product& p, const Target& target, const float* x, const float* dy, float* dw) {
  for (long f = 0; f < p.features && p.rows == 0 && !target.add; ++f)
    for (long d = 0; d < p.depth; ++d) dw[f * p.w_pitch + d] = 0;
  if (p.rows == 0) return;
  if (p.rows < most_height)
    return with_constant<most_height - 1>(p.rows, [&](auto rows) {
      if (target.add)
        few_rows_weights<rows.value, true>(p, target.scale, x, dy, dw);
      else
        few_rows_weights<rows.value, false>(p, target.scale, x, dy, dw);
    });
  for_vectors(p.depth, [&](const Vectors& piece, auto width) {
    if (p.next != nullptr) fetch_next(p, 0, p.features, piece.first, piece.first + width.value * lanes);
    for_blocks<most_height>(p.features, [&](long f, auto features) {
      float* const to = dw + f * p.w_pitch + piece.first;
      if (piece.last == lanes)
        weights_tile<features.value, width.value, true>(p, target, lanes, x + piece.first, dy + f, to);
      else
        weights_tile<features.value, width.value, false>(p, target, piece.last, x + piece.first, dy + f, to);
    });
  });
}

// A run's last vector reaches into the next one's target, which is written after it, or into what is behind the last.
void copy(const Runs& runs, const float* x, float* to) {
  for (long r = 0; r < runs.rows; ++r, x += runs.x_pitch, to += runs.to_pitch) {
    float* target = to;
    for (long k = 0; k < runs.count; ++k, target += runs.floats) {
      const float* const from = x + runs.begins[k];
      long i = 0;
      for (; i + lanes <= runs.floats; i += lanes) store(target + i, load(from + i));
      if (i < runs.floats) store(target + i, load_some(from + i, runs.floats - i));
    }
  }
}

// Products of a locally connected layer with vectors along the batch, for batches of many rows: every load is of whole
// vectors that lie together, and no sum goes over the lanes of a vector.
//
// Rows lie in panels: a panel has, for each value of a row, that value of some rows side by side. Its width is
// `panel_rows`; the last panel's is what rows are left, in whole vectors. What the lanes behind the last row hold is
// never read into another lane.

constexpr long panel_vectors = 2, panel_rows = panel_vectors * lanes;
constexpr long panel_accumulators = 12;  // accumulators of a tile: its features or values, times the panel's vectors
constexpr long panel_chunk = 128;        // values whose panel and weights stay in the first cache

// Calls body(the panel's first row, Constant<its vectors>).
template <class Body>
inline void for_panels(long rows, const Body& body) {
  for (long first = 0; first < rows; first += panel_rows) {
    const long left = vectors(rows - first);
    with_constant<panel_vectors>(left < panel_vectors ? left : panel_vectors, [&](auto width) { body(first, width); });
  }
}

// y += w x of some features and values.
template <long Features, long Width>
inline void panel_outputs_tile(long depth, long w_pitch, const float* w, const float* x, float* y) {
  constexpr long width = Width * lanes;
  Vector sum[Features][Width];
  for (long f = 0; f < Features; ++f)
    for (long v = 0; v < Width; ++v) sum[f][v] = load(y + f * width + v * lanes);
  for (long d = 0; d < depth; ++d) {
    Vector in[Width];
    for (long v = 0; v < Width; ++v) in[v] = load(x + d * width + v * lanes);
    for (long f = 0; f < Features; ++f) {
      const Vector weight = broadcast(w[f * w_pitch + d]);
      for (long v = 0; v < Width; ++v) sum[f][v] += weight * in[v];
    }
  }
  for (long f = 0; f < Features; ++f)
    for (long v = 0; v < Width; ++v) store(y + f * width + v * lanes, sum[f][v]);
}

// dx += dy w of some values.
template <long Values, long Width>
inline void panel_inputs_tile(long features, long w_pitch, const float* w, const float* dy, float* dx) {
  constexpr long width = Width * lanes;
  Vector sum[Values][Width];
  for (long d = 0; d < Values; ++d)
    for (long v = 0; v < Width; ++v) sum[d][v] = load(dx + d * width + v * lanes);
  for (long f = 0; f < features; ++f) {
    Vector gradient[Width];
    for (long v = 0; v < Width; ++v) gradient[v] = load(dy + f * width + v * lanes);
    for (long d = 0; d < Values; ++d) {
      const Vector weight = broadcast(w[f * w_pitch + d]);
      for (long v = 0; v < Width; ++v) sum[d][v] += weight * gradient[v];
    }
  }
  for (long d = 0; d < Values; ++d)
    for (long v = 0; v < Width; ++v) store(dx + d * width + v * lanes, sum[d][v]);
}

void panel_outputs(const PanelProduct& p, const float* w, const float* x, float* y) {
  for (long d = 0; d < p.depth; d += panel_chunk) {
    const long chunk = p.depth - d < panel_chunk ? p.depth - d : panel_chunk;
    for_panels(p.rows, [&](long first, auto width) {
      const float* const in = x + first * p.x_length + (p.x_first + d) * width.value * lanes;
      for_blocks<panel_accumulators / width.value>(p.features, [&](long f, auto features) {
        if (p.next != nullptr && first == 0) fetch_next(p, f, f + features.value, d, d + chunk);
        panel_outputs_tile<features.value, width.value>(chunk, p.w_pitch, w + f * p.w_pitch + d, in,
                                                        y + first * p.features + f * width.value * lanes);
      });
    });
  }
}

void panel_inputs(const PanelProduct& p, const float* w, const float* dy, float* dx) {
  for (long d = 0; d < p.depth; d += panel_chunk) {
    const long chunk = p.depth - d < panel_chunk ? p.depth - d : panel_chunk;
    if (p.next != nullptr) fetch_next(p, 0, p.features, d, d + chunk);
    for_panels(p.rows, [&](long first, auto width) {
      float* const to = dx + first * p.x_length + (p.x_first + d) * width.value * lanes;
      for_blocks<panel_accumulators / width.value>(chunk, [&](long i, auto values) {
        panel_inputs_tile<values.value, width.value>(p.features, p.w_pitch, w + d + i, dy + first * p.features,
                                                     to + i * width.value * lanes);
      });
    });
  }
}

// Four values of four rows from one layout into the other.
inline void transpose_four(Four (&v)[4]) {
  const Four a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5), b = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
  const Four c = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5), d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  v[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  v[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  v[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  v[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
inline Four load_four(const float* from) { return *reinterpret_cast<const FourAnywhere*>(from); }
inline void store_four(float* to, Four v) { *reinterpret_cast<FourAnywhere*>(to) = v; }

// Calls four(row's first value, in the panel) for four rows and values, and one(the same) for each that is left.
template <class FourByFour, class One>
inline void for_transposed(const PanelRun& run, const FourByFour& four, const One& one) {
  const long whole = run.floats / 4 * 4;
  for_panels(run.rows, [&](long first, auto vectors_of_panel) {
    const long width = vectors_of_panel.value * lanes, left = run.rows - first, count = left < width ? left : width;
    const long begin = first * run.floats, rows = count / 4 * 4;
    for (long r = 0; r < rows; r += 4) {
      for (long d = 0; d < whole; d += 4) four((first + r) * run.x_pitch + d, begin + d * width + r, width);
      for (long d = whole; d < run.floats; ++d)
        for (long i = 0; i < 4; ++i) one((first + r + i) * run.x_pitch + d, begin + d * width + r + i);
    }
    for (long r = rows; r < count; ++r)
      for (long d = 0; d < run.floats; ++d) one((first + r) * run.x_pitch + d, begin + d * width + r);
  });
}

void to_panels(const PanelRun& run, const float* x, float* panels) {
  for_transposed(
      run,
      [&](long from, long to, long width) {
        Four v[4];
        for (long i = 0; i < 4; ++i) v[i] = load_four(x + from + i * run.x_pitch);
        transpose_four(v);
        for (long i = 0; i < 4; ++i) store_four(panels + to + i * width, v[i]);
      },
      [&](long from, long to) { panels[to] = x[from]; });
}

template <bool Add>
void from_panels(const PanelRun& run, const float* panels, float* x) {
  for_transposed(
      run,
      [&](long to, long from, long width) {
        Four v[4];
        for (long i = 0; i < 4; ++i) v[i] = load_four(panels + from + i * width);
        transpose_four(v);
        for (long i = 0; i < 4; ++i) {
          float* const row = x + to + i * run.x_pitch;
          store_four(row, Add ? load_four(row) + v[i] : v[i]);
        }
      },
      [&](long to, long from) { x[to] = Add ? x[to] + panels[from] : panels[from]; });
}

constexpr Kernels kernels{lanes,
                          outputs,
                          inputs,
                          weights,
                          copy,
                          panel_outputs,
                          panel_inputs,
                          to_panels,
                          from_panels<false>,
                          from_panels<true>};

}  // namespace

}  // namespace mrmf::cpu::local
