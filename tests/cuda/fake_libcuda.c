// A driver library without a driver, for tests alone: cuDNN compiles a plan with NVRTC and then asks the driver to load
// the kernel; this one says it did. Every other function of the driver fails (fake_libcuda_symbols.sh). Nothing can run.
#include <stddef.h>

typedef void* Handle;

enum { success = 0 };
static char object;  // what every handle points to

static int give(Handle* handle) {
  *handle = &object;
  return success;
}

int cuLibraryLoadData(Handle* library, const void* code, Handle a, Handle b, unsigned n, Handle c, Handle d,
                      unsigned m) {
  (void)code, (void)a, (void)b, (void)n, (void)c, (void)d, (void)m;
  return give(library);
}
int cuLibraryUnload(Handle library) { return (void)library, success; }
int cuLibraryGetKernel(Handle* kernel, Handle library, const char* name) {
  return (void)library, (void)name, give(kernel);
}
int cuLibraryGetKernelCount(unsigned* count, Handle library) { return (void)library, *count = 1, success; }
int cuLibraryGetModule(Handle* module, Handle library) { return (void)library, give(module); }
int cuLibraryGetGlobal(Handle* pointer, size_t* bytes, Handle library, const char* name) {
  return (void)library, (void)name, *bytes = 8, give(pointer);
}
int cuKernelGetFunction(Handle* function, Handle kernel) { return (void)kernel, give(function); }
int cuModuleLoadData(Handle* module, const void* code) { return (void)code, give(module); }
int cuModuleLoadDataEx(Handle* module, const void* code, unsigned n, Handle options, Handle values) {
  return (void)code, (void)n, (void)options, (void)values, give(module);
}
int cuModuleUnload(Handle module) { return (void)module, success; }
int cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  return (void)module, (void)name, give(function);
}
int cuModuleGetLoadingMode(int* mode) { return *mode = 1, success; }

// CUfunction_attribute: threads per block, registers, PTX and binary version, dynamic shared memory.
static int attribute_value(int attribute) {
  switch (attribute) {
    case 0: return 1024;
    case 4: return 128;
    case 5:
    case 6: return 80;
    case 8: return 166912;
    default: return 0;
  }
}
int cuKernelGetAttribute(int* value, int attribute, Handle kernel, int device) {
  return (void)kernel, (void)device, *value = attribute_value(attribute), success;
}
int cuFuncGetAttribute(int* value, int attribute, Handle function) {
  return (void)function, *value = attribute_value(attribute), success;
}
int cuKernelSetAttribute(int attribute, int value, Handle kernel, int device) {
  return (void)attribute, (void)value, (void)kernel, (void)device, success;
}
int cuFuncSetAttribute(Handle function, int attribute, int value) {
  return (void)function, (void)attribute, (void)value, success;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Handle function, int threads, size_t shared) {
  return (void)function, (void)threads, (void)shared, *blocks = 1, success;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Handle function, int threads, size_t shared,
                                                         unsigned flags) {
  return (void)function, (void)threads, (void)shared, (void)flags, *blocks = 1, success;
}
int cuOccupancyMaxActiveClusters(int* clusters, Handle function, const void* config) {
  return (void)function, (void)config, *clusters = 32, success;
}

int cuDriverGetVersion(int* version) { return *version = 13000, success; }
int cuGetErrorString(int error, const char** text) { return (void)error, *text = "no driver, a stand-in", success; }
int cuGetErrorName(int error, const char** text) { return cuGetErrorString(error, text); }
