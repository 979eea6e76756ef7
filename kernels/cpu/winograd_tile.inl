// Tiles of Winograd's algorithm along one axis: of F(4,3), four outputs and six inputs, by the points 0, 1, -1, 2, -2
// and infinity; and of F(2,3), two outputs and four inputs. Included inside an anonymous namespace, behind vectors.inl.

// The six transforms of a tile's inputs, V a vector or a single float.
template <class V>
inline void transform_six(const V (&d)[6], V (&to)[6]) {
  const V even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1], far_even = d[4] - d[2], far_odd = 2 * (d[3] - d[1]);
  to[0] = 4 * d[0] - 5 * d[2] + d[4];
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = far_even + far_odd;
  to[4] = far_even - far_odd;
  to[5] = 4 * d[1] - 5 * d[3] + d[5];
}

// A tile's outputs: p has the products at the finite points, `last` is that at infinity.
inline __attribute__((always_inline)) void outputs_of_tile(const Vector* p, const Vector& last, Vector* y) {
  const Vector even = p[1] + p[2], odd = p[1] - p[2], far_even = p[3] + p[4], far_odd = p[3] - p[4];
  y[0] = p[0] + even + far_even;
  y[1] = odd + 2 * far_odd;
  y[2] = even + 4 * far_even;
  y[3] = odd + 8 * far_odd + last;
}

// The six transforms of three taps.
inline void transform_taps(const Vector w[3], Vector to[6]) {
  const Vector outer = w[0] + w[2], fine = w[0] / 24 + w[2] / 6;
  to[0] = w[0] / 4;
  to[1] = -(outer + w[1]) / 6;
  to[2] = -(outer - w[1]) / 6;
  to[3] = fine + w[1] / 12;
  to[4] = fine - w[1] / 12;
  to[5] = w[2];
}

// The transform of a tile's gradients.
inline void transform_outputs(const Vector d[4], Vector to[6]) {
  const Vector even = d[0] + d[2], odd = d[1] + d[3], wide_even = d[0] + 4 * d[2], wide_odd = 2 * d[1] + 8 * d[3];
  to[0] = d[0];
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = wide_even + wide_odd;
  to[4] = wide_even - wide_odd;
  to[5] = d[3];
}

// The gradient of three taps from that of their transforms.
inline void column_taps(const Vector q[6], Vector taps[3]) {
  const Vector coarse = (q[1] + q[2]) / 6, fine = (q[3] + q[4]) / 24;
  taps[0] = q[0] / 4 - coarse + fine;
  taps[1] = (q[2] - q[1]) / 6 + (q[3] - q[4]) / 12;
  taps[2] = 4 * fine - coarse + q[5];
}

// The two as the second axis of a tile of two axes: each transform is one of vectors.
struct TwoRows {
  static constexpr long high = 2, across = 4;
  template <class V>
  static void inputs(const V (&d)[4], V (&to)[4]) {
    to[0] = d[0] - d[2], to[1] = d[1] + d[2], to[2] = d[2] - d[1], to[3] = d[1] - d[3];
  }
  static void outputs(const Vector (&p)[4], Vector (&y)[2]) {
    y[0] = p[0] + p[1] + p[2];
    y[1] = p[1] - p[2] - p[3];
  }
  static void taps(const Vector (&w)[3], Vector (&to)[4]) {
    const Vector outer = (w[0] + w[2]) / 2, middle = w[1] / 2;
    to[0] = w[0], to[1] = outer + middle, to[2] = outer - middle, to[3] = w[2];
  }
  static void gradients(const Vector (&d)[2], Vector (&to)[4]) {
    to[0] = d[0], to[1] = d[0] + d[1], to[2] = d[0] - d[1], to[3] = -d[1];
  }
  static void taps_of(const Vector (&q)[4], Vector (&taps)[3]) {
    const Vector even = (q[1] + q[2]) / 2;
    taps[0] = q[0] + even, taps[1] = (q[1] - q[2]) / 2, taps[2] = even + q[3];
  }
};
struct FourRows {
  static constexpr long high = 4, across = 6;
  template <class V>
  static void inputs(const V (&d)[6], V (&to)[6]) {
    transform_six(d, to);
  }
  static void outputs(const Vector (&p)[6], Vector (&y)[4]) { outputs_of_tile(p, p[5], y); }
  static void taps(const Vector (&w)[3], Vector (&to)[6]) { transform_taps(w, to); }
  static void gradients(const Vector (&d)[4], Vector (&to)[6]) { transform_outputs(d, to); }
  static void taps_of(const Vector (&q)[6], Vector (&taps)[3]) { column_taps(q, taps); }
};
