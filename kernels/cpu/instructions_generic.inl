// What the vector kernels need beyond GCC's vector extensions, for what every processor of the architecture has: SSE2,
// or on ARM Neon. The files for other instruction sets have the same functions, and their number of lanes and of
// vector registers. Conversions between bytes and ints are among them, because g++ 12 makes those of its vector
// extensions lane by lane.
#define VECTOR_LANES 4
#ifdef __aarch64__
#define FUSED_REGISTERS 32
#else
#define FUSED_REGISTERS 16
#endif

namespace mrmf::cpu {
namespace {
typedef float FloatLanes __attribute__((vector_size(4 * VECTOR_LANES)));
typedef int IntLanes __attribute__((vector_size(4 * VECTOR_LANES)));

// Lanes: those where a mask is set, and how many they are.
typedef IntLanes Lanes;
inline Lanes lanes_where(IntLanes mask) { return mask; }
inline int size_of(Lanes chosen) { return -(chosen[0] + chosen[1] + chosen[2] + chosen[3]); }
// Those of `value`, one behind the other; of the lanes' numbers, plus `first`. Both may write a whole vector.
inline void store_lanes(Lanes chosen, FloatLanes value, float* to) {
  for (int lane = 0, count = 0; lane < VECTOR_LANES; count -= chosen[lane++]) to[count] = value[lane];
}
inline void store_numbers(Lanes chosen, int first, int* to) {
  for (int lane = 0, count = 0; lane < VECTOR_LANES; count -= chosen[lane++]) to[count] = first + lane;
}

// Each lane's choice of one of four floats.
inline FloatLanes select_of_four(const float* four, IntLanes choice) {
  return FloatLanes{four[choice[0]], four[choice[1]], four[choice[2]], four[choice[3]]};
}

// So many floats in registers at most, of which one instruction chooses one for each lane; 0: there is none. `count` of
// them are chosen from; a vector is read in any case, and a second where count is more than that.
constexpr long table_floats = 0;
struct Table {};
inline Table load_table(const float* /*from*/, long /*count*/) { return {}; }
inline FloatLanes select_of_table(const Table& /*table*/, IntLanes /*choice*/) { return FloatLanes{}; }

// A byte for each lane.
inline IntLanes load_bytes(const unsigned char* from) { return IntLanes{from[0], from[1], from[2], from[3]}; }
inline void store_bytes(unsigned char* to, IntLanes ints) {
  for (int lane = 0; lane < VECTOR_LANES; ++lane) to[lane] = static_cast<unsigned char>(ints[lane]);
}

// The first `count` floats, and zeros; count is less than the number of lanes.
inline FloatLanes load_some(const float* from, long count) {
  FloatLanes value{};
  for (long lane = 0; lane < count; ++lane) value[lane] = from[lane];
  return value;
}
inline void store_some(float* to, long count, FloatLanes value) {
  for (long lane = 0; lane < count; ++lane) to[lane] = value[lane];
}

// The sums of all lanes of a, b, c and d.
inline FloatLanes sums_of_four(FloatLanes a, FloatLanes b, FloatLanes c, FloatLanes d) {
  FloatLanes sums{};
  for (int lane = 0; lane < VECTOR_LANES; ++lane) sums += FloatLanes{a[lane], b[lane], c[lane], d[lane]};
  return sums;
}
}  // namespace
}  // namespace mrmf::cpu
