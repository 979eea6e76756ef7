// `mrmf doctor`: reports what mrmf finds on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "generated/version.hpp"
#include "io/hdf5_file.hpp"
#include "kernels/backend.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/config/config.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host.hpp"

namespace mrmf {
namespace {

void print_facts(bool json, Comm& world) {
  std::unique_ptr<Backend> backend;
  std::string no_gpu;
  try {
    backend = make_backend(RunConfig{}, world);
  } catch (const ConfigError& error) {  // a GPU is there but cannot be used, which a doctor should tell
    no_gpu = error.what();
    RunConfig cpu;
    cpu.device = Device::cpu;
    backend = make_backend(cpu, world);
  }
  const int threads = choose_threads(0, world);
  if (!world.root()) return;
  const Machine machine = this_machine();
  if (json) {
    std::cout << nlohmann::ordered_json{{"mrmf", kVersion},
                                        {"git", kGitHash},
                                        {"processor", machine.processor},
                                        {"cores", machine.cores},
                                        {"memory_gib", machine.memory_gib},
                                        {"backend", backend->description()},
                                        {"gpu_error",
                                         no_gpu.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(no_gpu)},
                                        {"mpi", MpiSession::version()},
                                        {"hdf5", hdf5_version()},
                                        {"ranks", world.size()},
                                        {"threads", threads},
                                        {"python", kPython}}
                     .dump(2)
              << "\n";
    return;
  }
  std::cout << fmt::format("mrmf       {} ({})\n", kVersion, kGitHash)
            << fmt::format("processor  {}, {} core{} usable\n", machine.processor, machine.cores,
                           machine.cores == 1 ? "" : "s")
            << fmt::format("memory     {:.1f} GiB\n", machine.memory_gib)
            << fmt::format("backend    {}\n", backend->description())
            << (no_gpu.empty() ? "" : fmt::format("GPU        cannot be used: {}\n", no_gpu))
            << fmt::format("MPI        {}\n", MpiSession::version()) << fmt::format("HDF5       {}\n", hdf5_version())
            << fmt::format("ranks      {}\n", world.size()) << fmt::format("threads    {} on rank 0\n", threads)
            << fmt::format("plots      {}\n", kPython);
}

}  // namespace

void add_doctor(Subcommands& commands) {
  CLI::App* doctor =
      commands.app.add_subcommand("doctor", "what mrmf finds here: libraries, processor, memory, ranks, threads");
  auto json = std::make_shared<bool>();
  add_json(*doctor, *json, "print the same as one JSON object");
  add_example(*doctor, "mrmf doctor");
  commands.run(*doctor, [json, &world = commands.world] { print_facts(*json, world); });
}

}  // namespace mrmf
