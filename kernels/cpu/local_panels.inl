// Products of a locally connected layer with vectors along the batch, for batches of many rows: every load is of whole
// vectors that lie together, and no sum goes over the lanes of a vector. Included by locally_connected.inl, inside its
// anonymous namespace.
//
// Rows lie in panels: a panel has, for each value of a row, that value of some rows side by side. Its width is
// `panel_rows`; the last panel's is what rows are left, in whole vectors. What the lanes behind the last row hold is
// never read into another lane.

constexpr long panel_vectors = 2, panel_rows = panel_vectors * lanes;
constexpr long panel_accumulators = 12;  // of a tile: its features or values, times the panel's vectors
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
