# Writes version.hpp with the version and the git hash of the sources; rewritten only when it changes.
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
file(CONFIGURE OUTPUT ${TARGET} CONTENT
"// Written by src/system/version.cmake.
#pragma once
inline constexpr const char* kVersion = \"${VERSION}\";
inline constexpr const char* kGitHash = \"${HASH}\";
inline constexpr const char* kSourceFolder = \"${SOURCE}\";
inline constexpr const char* kPython = \"${PYTHON}\";
")
