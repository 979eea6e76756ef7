# What `make install` (cmake --install) puts where; docs/guide/installing.md says it to users. The library is static: the
# program and yours then need no path of it, and its code is compiled once, without the cost of position independence.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(MRMF_PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/mrmf)
set(MRMF_MODULE_FOLDER ${CMAKE_INSTALL_LIBDIR}/mrmf)  # of the CUDA module

# All that is installed, and none of the tests.
add_custom_target(product DEPENDS mrmf)
if(TARGET mrmf_cuda)
  add_dependencies(product mrmf_cuda)
endif()

# The program looks for the CUDA module where it looks for libraries (src/system/backend_choice.cpp).
file(RELATIVE_PATH MRMF_MODULE_FROM_PROGRAM ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/mrmf)
set_target_properties(mrmf PROPERTIES INSTALL_RPATH "$ORIGIN/${MRMF_MODULE_FROM_PROGRAM}" INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS mrmf RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET mrmf_cuda)
  set_target_properties(mrmf_cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS mrmf_cuda LIBRARY DESTINATION ${MRMF_MODULE_FOLDER})
endif()

set_target_properties(mrmf_core PROPERTIES OUTPUT_NAME mrmf EXPORT_NAME mrmf)
target_compile_features(mrmf_core INTERFACE cxx_std_20)
# The second folder is what the headers' own #include lines begin in.
target_include_directories(mrmf_core INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/mrmf>)
install(TARGETS mrmf_core EXPORT mrmf ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT mrmf NAMESPACE mrmf:: FILE mrmf-targets.cmake DESTINATION ${MRMF_PACKAGE_FOLDER})
install(FILES src/mrmf.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mrmf)
install(DIRECTORY kernels layers mpi io src DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mrmf FILES_MATCHING PATTERN "*.hpp"
  PATTERN "mrmf.hpp" EXCLUDE PATTERN "cpu" EXCLUDE PATTERN "cuda" EXCLUDE PATTERN "onednn" EXCLUDE PATTERN "cli" EXCLUDE
  PATTERN "nccl_*" EXCLUDE PATTERN "record_json.hpp" EXCLUDE)
install(FILES kernels/cuda/module.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mrmf/kernels/cuda)
install(FILES kernels/cpu/arena.hpp kernels/cpu/kernel_choice.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mrmf/kernels/cpu)

# What mrmf plot runs.
file(GLOB MRMF_SCRIPTS CONFIGURE_DEPENDS jobs/plots/*.py)
install(FILES ${MRMF_SCRIPTS} DESTINATION ${CMAKE_INSTALL_DATADIR}/mrmf/plots)
# What opens an exported model in PyTorch.
install(FILES jobs/load_safetensors.py DESTINATION ${CMAKE_INSTALL_DATADIR}/mrmf)

# The package's file names each library that is no target of a package of its own, and where it was as a hint.
set(MRMF_FIND_LIBRARIES "")
foreach(kind HDF5_C_LIBRARIES DNNL_LIBRARY XXHASH_LIBRARY ONNX_PROTO_LIBRARY PROTOBUF_LIBRARY
    FFTW_MPI_LIBRARY FFTW_LIBRARY)
  list(GET ${kind} 0 path)
  get_filename_component(folder ${path} DIRECTORY)
  get_filename_component(name ${path} NAME_WE)
  string(REGEX REPLACE "^lib" "" name ${name})
  string(APPEND MRMF_FIND_LIBRARIES "mrmf_find_library(${name} ${folder})\n")
endforeach()
configure_package_config_file(jobs/packaging/install/mrmf-config.cmake.in ${CMAKE_BINARY_DIR}/generated/mrmf-config.cmake
  INSTALL_DESTINATION ${MRMF_PACKAGE_FOLDER} PATH_VARS MRMF_MODULE_FOLDER)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/mrmf-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/mrmf-config.cmake ${CMAKE_BINARY_DIR}/generated/mrmf-config-version.cmake
  DESTINATION ${MRMF_PACKAGE_FOLDER})

# The program writes its manual and its completion. On some login nodes no MPI program runs: they are then left out.
install(CODE "
  set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  function(mrmf_written file)
    get_filename_component(folder \"\${prefix}/\${file}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"\${prefix}/${CMAKE_INSTALL_BINDIR}/mrmf\" \${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE failed)
    if(failed)
      message(WARNING \"\${file} is left out: the program does not run here\")
    else()
      file(WRITE \"\${prefix}/\${file}\" \"\${text}\")
      message(STATUS \"Installing: \${prefix}/\${file}\")
    endif()
  endfunction()
  mrmf_written(${CMAKE_INSTALL_MANDIR}/man1/mrmf.1 manual)
  mrmf_written(${CMAKE_INSTALL_DATADIR}/bash-completion/completions/mrmf completion bash)
")
