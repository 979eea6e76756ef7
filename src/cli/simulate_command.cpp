// `mrmf simulate`.
#include <fmt/format.h>

#include <iostream>

#include "src/cli/commands.hpp"
#include "src/run/report.hpp"
#include "src/simulators/cosmology/simulate.hpp"
#include "src/simulators/neuron/simulate.hpp"

namespace mrmf {

void simulate_neuron_command(NeuronSimulation settings, Comm& world) {
  check(settings);
  settings.threads = choose_threads(settings.threads, world);
  const bool live = world.root() && stdout_is_terminal();
  const NeuronReport report = simulate_neuron(settings, world, [&](Index done, Index samples) {
    if (live) std::cout << fmt::format("\rsimulating: {} of {} samples", done, samples) << std::flush;
  });
  if (!world.root()) return;
  std::cout << fmt::format("{}{}: {} samples of {} cells in {:.1f} s, {:.0f} samples/s; {:.0f} % of them spike\n",
                           live ? "\r\x1b[K" : "", settings.file, report.samples, settings.cells, report.seconds,
                           report.samples_per_second, 100 * report.spiking_share);
}

void simulate_cosmology_command(CosmologySimulation settings, Comm& world) {
  check(settings);
  if (settings.ranks_per_cube == 1) settings.threads = choose_threads(settings.threads, world);
  const bool live = world.root() && stdout_is_terminal();
  const CosmologyReport report = simulate_cosmology(settings, world, [&](Index done, Index samples) {
    if (live) std::cout << fmt::format("\rsimulating: {} of {} cubes", done, samples) << std::flush;
  });
  if (!world.root()) return;
  std::cout << fmt::format("{}{}: {} cubes of {}^3 voxels in {} files in {:.1f} s, {:.3g} cubes/s\n",
                           live ? "\r\x1b[K" : "", settings.folder, report.samples, settings.size, report.files,
                           report.seconds, report.cubes_per_second);
}

}  // namespace mrmf
