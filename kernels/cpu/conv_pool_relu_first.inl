// The weight gradient of a first layer (included in conv_pool_relu.inl, inside its anonymous namespace): no data
// gradient is wanted and the row is short, so lists of entries would cost more than the work. Instead every lane is an
// output channel, and the input that its winner met is picked by a shuffle from the (at most four) candidates.

constexpr long max_first_row = 12;  // its accumulators fit 16 registers

bool is_first_layer(const Geometry& g, const Backward& f) {
  return f.dx == nullptr && g.pool <= 4 && g.row <= max_first_row;
}

// candidates[window][i][p] = the input that row element i meets at position p of the window.
void list_candidates(const Geometry& g, const Backward& f, const Scratch& s, long begin, long end) {
  typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
  const long second = g.pool > 1 ? g.in_channels : 0, third = g.pool > 2 ? 2 * g.in_channels : 0,
             fourth = g.pool > 3 ? 3 * g.in_channels : 0;
  float* to = s.candidates;
  for (long window = begin; window < end; ++window) {
    const float* x = f.x + window * g.pool * g.in_channels;
    for (long i = 0; i < g.row; ++i, to += 4)
      *reinterpret_cast<Four*>(to) = Four{x[i], x[second + i], x[third + i], x[fourth + i]};
  }
}

// Channels [first, first + lanes) of one window: dy where ReLU was active, and the winners.
struct WindowGradient {
  Vector gradient;
  Mask winner;
};
inline WindowGradient load_window(const float* y, const float* dy, const unsigned char* winner) {
  return {load(y) <= 0 ? Vector{} : load(dy),
          __builtin_convertvector(*reinterpret_cast<const BytesAnywhere*>(winner), Mask)};
}
// The same where a whole vector would reach past the end of the row.
inline WindowGradient load_window_end(const float* y, const float* dy, const unsigned char* winner, long count) {
  WindowGradient w{};
  for (long lane = 0; lane < count; ++lane) {
    w.gradient[lane] = y[lane] <= 0 ? 0.0F : dy[lane];
    w.winner[lane] = winner[lane];
  }
  return w;
}

template <long Row>
void first_weight_gradient(const Geometry& g, const Backward& f, const Scratch& s, long begin, long end, long first) {
  Vector sum[Row] = {}, bias{};
  const long count = g.out_channels - first < lanes ? g.out_channels - first : lanes;
  const float* candidates = s.candidates;
  for (long window = begin; window < end; ++window, candidates += Row * 4) {
    const long at = window * g.out_channels + first;
    const bool whole = at + lanes <= g.windows * g.out_channels;  // else it would read past the sample
    const WindowGradient w = whole ? load_window(f.y + at, f.dy + at, f.winner + at)
                                   : load_window_end(f.y + at, f.dy + at, f.winner + at, count);
    bias += w.gradient;
    for (long i = 0; i < Row; ++i) sum[i] += w.gradient * fused_select(candidates + 4 * i, w.winner);
  }
  for (long lane = 0; lane < count; ++lane) {
    s.db[first + lane] += bias[lane];
    for (long i = 0; i < Row; ++i) s.dw[(first + lane) * g.padded_row + i] += sum[i][lane];
  }
}

void backward_first(const Geometry& g, const Backward& f, const Scratch& s) {
  for (long begin = 0; begin < g.windows; begin += g.chunk) {
    const long end = begin + g.chunk < g.windows ? begin + g.chunk : g.windows;
    list_candidates(g, f, s, begin, end);
    for (long first = 0; first < g.out_channels; first += lanes)
      with_constant<max_first_row>(
          g.row, [&](auto row) { first_weight_gradient<decltype(row)::value>(g, f, s, begin, end, first); });
  }
}
