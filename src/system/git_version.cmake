# mrmf_version(<variable> <folder>): the version of the sources in a folder. In a clone, the newest tag v1.2.3 before the
# commit says it: "1.2.3", or "1.2.3-4-gabcdef" four commits later. Where there is no such tag, and in an archive without
# git, the file VERSION says it.
function(mrmf_version result folder)
  file(STRINGS ${folder}/VERSION version LIMIT_COUNT 1)
  if(EXISTS ${folder}/.git)  # not a folder of somebody else's repository
    execute_process(COMMAND git -C ${folder} describe --tags --match "v[0-9]*.[0-9]*.[0-9]*"
      OUTPUT_VARIABLE tag OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed AND tag MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+.*)$")
      set(version "${CMAKE_MATCH_1}")
    endif()
  endif()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()
