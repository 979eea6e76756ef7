# The CUDA module libmrmf_cuda.so, which the program opens when it is asked for a GPU, and what it needs: nvcc, cuDNN and
# NCCL. Where one of them is missing, one line says so and the rest is built without it.
# Sets MRMF_HAVE_CUDNN (CUDA's headers and cuDNN are there) and MRMF_HAVE_CUDA (everything is, and the module is built).
option(MRMF_CUDA "Build the CUDA module if nvcc, cuDNN and NCCL are found" ON)
set(MRMF_HAVE_CUDNN OFF)
set(MRMF_HAVE_CUDA OFF)

function(mrmf_without_cuda reason)
  message(STATUS "CUDA module left out: ${reason}")
endfunction()

if(NOT MRMF_CUDA)
  mrmf_without_cuda("MRMF_CUDA is OFF")
  return()
endif()
# The usual place of the toolkit is searched also where it is not on PATH.
find_program(MRMF_NVCC nvcc HINTS ${CUDAToolkit_ROOT}/bin ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
if(NOT MRMF_NVCC)
  mrmf_without_cuda("nvcc is not found (set PATH or CUDAToolkit_ROOT)")
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${MRMF_NVCC})
endif()
# sm_80 (A100), sm_90 (H100, H200) and PTX of the latter for newer devices.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
endif()
if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
enable_language(CUDA)
# CMake 3.25 does not know the flag of nvcc's C++20.
foreach(kind STANDARD EXTENSION)
  if(NOT DEFINED CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
  endif()
endforeach()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)

# An imported library from its header and file name, beside the toolkit or where CMAKE_PREFIX_PATH says.
function(mrmf_find_beside_cuda name header)
  find_path(MRMF_${name}_INCLUDE ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(MRMF_${name}_LIBRARY NAMES ${ARGN} HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(MRMF_${name}_INCLUDE AND MRMF_${name}_LIBRARY)
    add_library(mrmf_${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(mrmf_${name} PROPERTIES IMPORTED_LOCATION ${MRMF_${name}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${MRMF_${name}_INCLUDE})
  endif()
endfunction()
mrmf_find_beside_cuda(cudnn cudnn.h cudnn libcudnn.so.9)
mrmf_find_beside_cuda(nccl nccl.h nccl libnccl.so.2)
if(NOT TARGET mrmf_cudnn)
  mrmf_without_cuda("cuDNN 9 is not found beside CUDA ${CUDAToolkit_VERSION} (add its folder to CMAKE_PREFIX_PATH)")
  return()
endif()
set(MRMF_HAVE_CUDNN ON)

# cuDNN plans alone: what the tests without a GPU need, and part of the module.
add_library(mrmf_cudnn_plans OBJECT kernels/cuda/runtime.cpp kernels/cuda/cudnn.cpp kernels/cuda/conv_graph.cpp
  kernels/cuda/conv_plan.cpp)
mrmf_unity(mrmf_cudnn_plans)
set_target_properties(mrmf_cudnn_plans PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_link_libraries(mrmf_cudnn_plans PUBLIC mrmf_options mrmf_cudnn CUDA::cudart_static nlohmann_json::nlohmann_json)

if(NOT TARGET mrmf_nccl)
  mrmf_without_cuda("NCCL 2 is not found beside CUDA ${CUDAToolkit_VERSION} (add its folder to CMAKE_PREFIX_PATH)")
  return()
endif()
set(MRMF_HAVE_CUDA ON)

# The module has its own copies of the plain kernel files, so that it needs nothing of the program that opens it.
file(GLOB MRMF_CUDA_SOURCES CONFIGURE_DEPENDS kernels/*.cpp kernels/cuda/*.cpp kernels/cuda/*.cu mpi/nccl*.cpp)
get_target_property(MRMF_CUDNN_PLAN_SOURCES mrmf_cudnn_plans SOURCES)
list(TRANSFORM MRMF_CUDNN_PLAN_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/)
list(REMOVE_ITEM MRMF_CUDA_SOURCES ${MRMF_CUDNN_PLAN_SOURCES})
add_library(mrmf_cuda MODULE ${MRMF_CUDA_SOURCES})
mrmf_unity(mrmf_cuda)
target_link_libraries(mrmf_cuda PRIVATE mrmf_cudnn_plans mrmf_options mrmf_nccl mrmf_cudnn CUDA::cudart_static CUDA::cublasLt
  MPI::MPI_CXX fmt::fmt nlohmann_json::nlohmann_json)
target_compile_definitions(mrmf_cuda PRIVATE OMPI_SKIP_MPICXX)
target_include_directories(mrmf_cuda PRIVATE ${CMAKE_BINARY_DIR})
add_dependencies(mrmf_cuda mrmf_cuda_interface)
target_link_options(mrmf_cuda PRIVATE LINKER:--no-undefined)
# std::array and other constexpr functions are used in kernels.
target_compile_options(mrmf_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
# PTX stays readable in the module, for the test that no kernel's body is gone (tests/cuda/kernel_bodies.py).
target_compile_options(mrmf_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--no-compress>")
# g++ sees what nvcc makes of a source, with line directives that -Wpedantic would report.
target_compile_options(mrmf_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-restrict>")
if(MRMF_WERROR)
  target_compile_options(mrmf_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
endif()
message(STATUS "CUDA module: CUDA ${CUDAToolkit_VERSION}, ${MRMF_cudnn_LIBRARY}, ${MRMF_nccl_LIBRARY}")
