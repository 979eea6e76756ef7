// Marks functions that device code calls, too: nothing more than the words that nvcc needs and other compilers lack.
#pragma once

#ifdef __CUDACC__
#define MRMF_HD __host__ __device__
#else
#define MRMF_HD
#endif
