// A CUDA module that another mrmf came with.
extern "C" const char* mrmf_cuda_interface() { return "another"; }
extern "C" int mrmf_cuda_device_count() { return 1; }
