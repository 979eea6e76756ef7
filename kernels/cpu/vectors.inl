// Vectors of one instruction set, for the hand-written kernels. Included inside an anonymous namespace; the including
// file defines VECTOR_LANES, the floats in a vector.

constexpr long lanes = VECTOR_LANES;
typedef float Vector __attribute__((vector_size(sizeof(float) * lanes)));
typedef float VectorAnywhere __attribute__((vector_size(sizeof(float) * lanes), aligned(4), may_alias));

inline Vector load(const float* p) { return *reinterpret_cast<const VectorAnywhere*>(p); }
inline void store(float* p, Vector v) { *reinterpret_cast<VectorAnywhere*>(p) = v; }
// Past the caches, for whole lines of 64 bytes that nobody reads soon. p is aligned to a vector. What was written so
// is there for other threads after fence().
inline void stream(float* p, Vector v) {
#ifdef __clang__
  __builtin_nontemporal_store(v, reinterpret_cast<Vector*>(p));
#elif VECTOR_LANES == 16 && defined __AVX512F__
  __builtin_ia32_movntps512(p, v);
#elif VECTOR_LANES == 8
  __builtin_ia32_movntps256(p, v);
#elif VECTOR_LANES == 4 && defined __x86_64__
  __builtin_ia32_movntps(p, v);
#else  // ARM with g++; tests/unit/support/sixteen_lanes.cpp
  store(p, v);
#endif
}
// Whether a line needs several vectors. A processor keeps few lines that are not whole: the vectors of each are to be
// written past the caches one after the other.
constexpr bool lines_of_vectors = lanes < 16;
inline void fence() {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}
inline Vector broadcast(float f) { return f - Vector{}; }

constexpr long vectors(long floats) { return (floats + lanes - 1) / lanes; }
// Splits `count` vectors evenly into blocks of at most `most`: the size of the next block.
constexpr long next_block(long count, long most) {
  const long blocks = (count + most - 1) / most;
  return (count + blocks - 1) / blocks;
}

// The sizes of all blocks, for loops that run often: next_block() divides.
struct EvenBlocks {
  long count, size, longer;  // the first `longer` are longer by one
  EvenBlocks(long all, long most)
      : count((all + most - 1) / most), size(all / (count < 1 ? 1 : count)), longer(all - count * size) {}
  long operator[](long i) const { return i < longer ? size + 1 : size; }
};

// Calls body(Constant<n>) for a run-time n in 1..Most.
template <long N>
struct Constant {
  static constexpr long value = N;
};
template <long Most, class Body>
inline void with_constant(long n, const Body& body) {
  if constexpr (Most > 1) {
    if (n < Most) return with_constant<Most - 1>(n, body);
  }
  body(Constant<Most>{});
}
