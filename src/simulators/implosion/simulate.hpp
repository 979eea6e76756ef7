// `mrmf simulate implosion`: five numbers of a drive, and the fifteen scalars and four images of the hot spot that it
// makes (hot_spot.hpp): a stand-in for simulations of inertial confinement fusion, to train surrogates and inverse
// models on. A sample depends on the seed, the size and its number alone, so the file's bytes do not depend on ranks or
// threads.
#pragma once

#include <cstdint>
#include <string>

#include "io/files/output_file.hpp"
#include "src/simulators/split_file.hpp"

namespace mrmf {

struct ImplosionSimulation : PlaneSimulation {};

/// ConfigError when the settings are impossible.
void check(const ImplosionSimulation& settings);

/// Collective. Writes `settings.file`, whole or not at all; errors as OutputFile's:
///   train_inputs, val_..., test_...   (n, 5)                in [-1, 1], uniform
///   train_scalars, val_..., test_...  (n, 15)               in the units that meta.JSON names
///   train_images, val_..., test_...   (n, size, size, 4)    emission in four bands, from the side
///   meta.JSON                         (1,)                  what inputs and scalars are, seed, ...
/// Sample i is row i of all splits, which follow one another.
SimulationReport simulate_implosion(const ImplosionSimulation& settings, Comm& comm,
                                    const ProgressFunction& progress = {});

}  // namespace mrmf
