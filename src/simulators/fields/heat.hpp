// Heat that spreads and drifts: u_t = D laplace(u) - v . grad(u) on the periodic unit square, from a random field.
//
// Averaging pixels keeps what tells D and v: most of the field's power is in waves of many pixels, and these move and
// fade as all others do.
#pragma once

#include "src/simulators/fields/fields.hpp"

namespace mrmf::fields {

struct HeatFlow {
  double diffusivity;             ///< squares per unit of time
  double velocity_x, velocity_y;  ///< sides per unit of time, along the image's first and second axis
};

/// The modes `time` later: each fades and turns by itself, so this is exact. `later` may be `modes`.
void evolve(int n, const HeatFlow& flow, double time, const ModeGrid& modes, ModeGrid& later);

/// Channels: u at the three times, with measurement noise. Labels: log10 D, v_x, v_y.
class Heat final : public FieldProblem {
 public:
  explicit Heat(int size);
  int channels() const override;
  std::array<Parameter, kLabels> parameters() const override;
  nlohmann::ordered_json describe() const override;
  Labels make(std::uint64_t key, PlaneMemory& memory, std::span<float> image) const override;

 private:
  int size_;
  PlaneFft fft_;
  PowerLaw initial_;
};

}  // namespace mrmf::fields
