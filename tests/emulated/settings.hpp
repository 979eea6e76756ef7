#pragma once
#include <cstddef>

namespace mrmf::emulated {

/// What the environment asks for; read at every use, so that a test may change it.
int device_count();           ///< MRMF_EMULATED_GPUS, default 1
int driver_version();         ///< MRMF_EMULATED_DRIVER, default 13000
int capability();             ///< MRMF_EMULATED_CAPABILITY, default 90 for 9.0
bool device_busy();           ///< MRMF_EMULATED_BUSY=1: another process has the device for itself
int cublaslt_version();       ///< MRMF_EMULATED_CUBLASLT, default the headers'
int nccl_version();           ///< MRMF_EMULATED_NCCL, default the headers'
std::size_t device_memory();  ///< MRMF_EMULATED_MEMORY in bytes per device, default 2 GiB
bool wrong_engine();          ///< MRMF_EMULATED_WRONG_ENGINE=1: cuDNN's first engines compute something else
bool all_engines_wrong();     ///< MRMF_EMULATED_WRONG_ENGINE=2: every engine does
int faulting_engine();        ///< MRMF_EMULATED_FAULTING_ENGINE: running this one breaks the device; default none
int crashing_engine();        ///< MRMF_EMULATED_CRASHING_ENGINE: running this one ends the process; default none
int unrecorded_engine();      ///< MRMF_EMULATED_UNRECORDED_ENGINE: this one cannot be recorded; default none
int fast_engine();            ///< MRMF_EMULATED_FAST_ENGINE: this one takes a tenth of the others' time; default none
int algorithm_count();        ///< MRMF_EMULATED_ALGORITHMS: cuBLASLt's for a product, default 2
int fast_algorithm();      ///< MRMF_EMULATED_FAST_ALGORITHM: this one takes a tenth of the others' time; default none
int refused_algorithms();  ///< MRMF_EMULATED_REFUSED_ALGORITHMS: so many of the first fail when run; default none
bool wrong_bias();         ///< MRMF_EMULATED_WRONG_BIAS=1: engines that add a bias compute something else
/// MRMF_EMULATED_ZERO_RECORDED_GRADIENTS=1: cuDNN's dw is zero in captured steps, that is behind other captured work
bool zero_recorded_gradients();
bool open_memory();        ///< MRMF_EMULATED_OPEN_MEMORY=1: the host may touch device memory, which is faster
bool stuck_collectives();  ///< MRMF_EMULATED_STUCK=1: a collective continues after its communicator was aborted
/// MRMF_EMULATED_TRACE: a file to which "engine N pass P input ADDRESS captured 0|1" is added for every execution of a
/// plan, and "algorithm N" for every product; default none
const char* trace_file();
/// MRMF_EMULATED_KERNELS: a file for the table that tests/gpu/kernel_trace.cpp makes of a real device; default none
const char* kernels_file();

}  // namespace mrmf::emulated
