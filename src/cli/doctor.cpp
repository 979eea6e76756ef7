// `mrmf doctor`: reports what mrmf finds on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "generated/version.hpp"
#include "io/hdf5/file.hpp"
#include "kernels/backend.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "mpi/comm.hpp"
#include "mpi/environment.hpp"
#include "src/cli/commands.hpp"
#include "src/config/config.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {
namespace {

struct DoctorOptions {
  bool json = false;
  RunConfig run;  // device: what to look for
};

// A GPU that is there or asked for and cannot be used is what a doctor should tell.
std::unique_ptr<Backend> backend_found(const RunConfig& run, Comm& world, std::string& no_gpu) {
  try {
    return make_backend(run, world);
  } catch (const ConfigError& error) {
    no_gpu = error.what();
  } catch (const FaultError& error) {
    no_gpu = error.what();
  }
  RunConfig cpu;
  cpu.device = Device::cpu;
  return make_backend(cpu, world);
}

// As an object, not as text in a text; nothing for the host.
nlohmann::ordered_json device_properties(const Backend& backend) {
  if (backend.name() != "cuda") return {};
  return nlohmann::ordered_json::parse(cuda_device_properties(), nullptr, false);
}

void print_facts(const DoctorOptions& options, Comm& world) {
  std::string no_gpu;
  const std::unique_ptr<Backend> backend = backend_found(options.run, world, no_gpu);
  const int threads = choose_threads(0, world);
  if (!world.root()) return;
  const Machine machine = this_machine();
  if (options.json) {
    std::cout << nlohmann::ordered_json{{"mrmf", kVersion},
                                        {"git", kGitHash},
                                        {"processor", machine.processor},
                                        {"cores", machine.cores},
                                        {"memory_gib", machine.memory_gib},
                                        {"backend", backend->description()},
                                        {"bf16_products", cpu::has_bf16_products()},
                                        {"gpu_error",
                                         no_gpu.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(no_gpu)},
                                        {"gpu", device_properties(*backend)},
                                        {"mpi", MpiEnvironment::version()},
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
            << fmt::format("products   float32{}\n",
                           cpu::has_bf16_products() ? ", and with run.precision = \"bf16\" bf16" : "")
            << (no_gpu.empty() ? "" : fmt::format("GPU        cannot be used: {}\n", no_gpu))
            << fmt::format("MPI        {}\n", MpiEnvironment::version())
            << fmt::format("HDF5       {}\n", hdf5_version()) << fmt::format("ranks      {}\n", world.size())
            << fmt::format("threads    {} on rank 0\n", threads) << fmt::format("plots      {}\n", kPython);
}

}  // namespace

void add_doctor(Subcommands& commands) {
  CLI::App* doctor =
      commands.app.add_subcommand("doctor", "what mrmf finds here: libraries, processor, memory, ranks, threads");
  auto options = std::make_shared<DoctorOptions>();
  add_json(*doctor, options->json, "print the same as one JSON object");
  add_choice(*doctor, "--device", options->run.device, choices<Device>(),
             "what to look for; cuda also says why there is none");
  add_example(*doctor, "mrmf doctor");
  commands.run(*doctor, [options, &world = commands.world] { print_facts(*options, world); });
}

}  // namespace mrmf
