# Writes version.cpp with the version and the git hash of the sources, rewritten only when they change, and version.hpp,
# which never does: so a commit compiles one small file.
include(${CMAKE_CURRENT_LIST_DIR}/git_version.cmake)
mrmf_version(VERSION ${SOURCE})
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE HASH OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE FAILED ERROR_QUIET)
if(FAILED)
  set(HASH "unknown")
else()
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no OUTPUT_VARIABLE CHANGED
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(CHANGED)
    set(HASH "${HASH}+changes")
  endif()
endif()
file(CONFIGURE OUTPUT ${FOLDER}/version.hpp CONTENT
"// Written by src/system/version.cmake.
#pragma once
namespace mrmf {
extern const char *const kVersion, *const kGitHash, *const kSourceFolder, *const kPython;
}
")
file(CONFIGURE OUTPUT ${FOLDER}/version.cpp CONTENT
"// Written by src/system/version.cmake.
#include \"generated/version.hpp\"
namespace mrmf {
const char* const kVersion = \"${VERSION}\";
const char* const kGitHash = \"${HASH}\";
const char* const kSourceFolder = \"${SOURCE}\";
const char* const kPython = \"${PYTHON}\";
}
")
