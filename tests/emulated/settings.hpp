#pragma once
#include <cstddef>

namespace mrmf::emulated {

/// What the environment asks for; read at every use, so that a test may change it.
int device_count();              ///< MRMF_EMULATED_GPUS, default 1
int driver_version();            ///< MRMF_EMULATED_DRIVER, default 13000
int capability();                ///< MRMF_EMULATED_CAPABILITY, default 90 for 9.0
int cublaslt_version();          ///< MRMF_EMULATED_CUBLASLT, default the headers'
int nccl_version();              ///< MRMF_EMULATED_NCCL, default the headers'
std::size_t device_memory();     ///< MRMF_EMULATED_MEMORY in bytes per device, default 2 GiB
bool wrong_engine();             ///< MRMF_EMULATED_WRONG_ENGINE=1: cuDNN's first engines compute something else
bool all_engines_wrong();        ///< MRMF_EMULATED_WRONG_ENGINE=2: every engine does
int faulting_engine();           ///< MRMF_EMULATED_FAULTING_ENGINE: running this one breaks the device; default none
bool zero_recorded_gradients();  ///< MRMF_EMULATED_ZERO_RECORDED_GRADIENTS=1: cuDNN's dw is zero in recorded work
bool stuck_collectives();        ///< MRMF_EMULATED_STUCK=1: a collective goes on after its communicator was aborted
/// MRMF_EMULATED_TRACE: a file to which "engine N pass P input ADDRESS captured 0|1" is added for every execution;
/// default none
const char* trace_file();

}  // namespace mrmf::emulated
