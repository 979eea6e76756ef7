# Writes cuda_interface.hpp with a hash of all headers through which the program and its CUDA module see each other, and of
# their compiler; rewritten only when it changes.
file(GLOB HEADERS ${SOURCE}/kernels/*.hpp)
list(SORT HEADERS)
set(TEXT "${COMPILER}")
foreach(HEADER IN LISTS HEADERS ITEMS ${SOURCE}/kernels/cuda/module.hpp)
  file(SHA256 ${HEADER} HASH)
  string(APPEND TEXT " ${HASH}")
endforeach()
string(SHA256 HASH "${TEXT}")
string(SUBSTRING ${HASH} 0 16 HASH)
file(CONFIGURE OUTPUT ${TARGET} CONTENT
"// Written by kernels/cuda/interface.cmake.
#pragma once
inline constexpr const char* kCudaInterface = \"${HASH}\";
")
