// Fine stripes on a smooth random background, with noise.
//
// Averaging pixels must lose what tells the parameters, stripes of 2.2 to 3.4 pixels. Averages of 2 x 2 pixels keep 14
// to 63 % of their contrast, 45 % on average, which is a fifth of their power; averages of 4 x 4 pixels 12 % on
// average. And stripes shorter than two of the new pixels appear with another wavelength and orientation there. So a
// network on averages has little to learn from, and what it learns is not of use on the pixels.
#pragma once

#include "src/simulators/fields/fields.hpp"

namespace mrmf::fields {

struct Stripes {
  double wavelength;   ///< pixels
  double orientation;  ///< orientation of the wave vector, from the image's first axis to its second; radians, 0 to pi
  double phase;        ///< radians
  double contrast;     ///< amplitude
};

/// Adds a plane wave to a field of n x n pixels.
void add_stripes(int n, const Stripes& stripes, RealGrid& field);

/// The share of stripes' contrast that averages of 2 x 2 pixels keep.
double stripes_kept(const Stripes& stripes);

/// One channel. Labels: wavelength, cos and sin of twice the orientation, which has no direction.
class Texture final : public FieldProblem {
 public:
  explicit Texture(int size);
  int channels() const override { return 1; }
  std::array<Parameter, kLabels> parameters() const override;
  nlohmann::ordered_json describe() const override;
  Labels make(std::uint64_t key, PlaneMemory& memory, std::span<float> image) const override;

 private:
  int size_;
  PlaneFft fft_;
  PowerLaw background_;
};

}  // namespace mrmf::fields
