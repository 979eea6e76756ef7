#pragma once
#include <cstddef>

namespace mrmf::emulated {

/// What the environment asks for; read at every use, so that a test may change it.
int device_count();           ///< MRMF_EMULATED_GPUS, default 1
int driver_version();         ///< MRMF_EMULATED_DRIVER, default 13000
std::size_t device_memory();  ///< MRMF_EMULATED_MEMORY in bytes per device, default 2 GiB
bool wrong_engine();          ///< MRMF_EMULATED_WRONG_ENGINE=1: cuDNN's first engines compute something else
bool all_engines_wrong();     ///< MRMF_EMULATED_WRONG_ENGINE=2: every engine does

}  // namespace mrmf::emulated
