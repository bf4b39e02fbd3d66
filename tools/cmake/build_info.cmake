# Writes tandem_build_info.h into the build folder: what `tandem version` and `tandem doctor` say of this build.

set(TANDEM_REVISION "release ${PROJECT_VERSION}")  # where there is no git, or no history
if(EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND git rev-parse --short=12 HEAD
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(TANDEM_REVISION ${revision})
  endif()
  # A commit appends to this log: the next build then configures anew, and the revision is never stale.
  if(EXISTS ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
      ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
  endif()
endif()

set(TANDEM_SANITIZERS no)
if(TANDEM_SANITIZE)
  set(TANDEM_SANITIZERS ${TANDEM_SANITIZE})
endif()
set(TANDEM_COMPILER "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/tandem_build_info.h.in
  ${PROJECT_BINARY_DIR}/generated/tandem_build_info.h @ONLY)

# tandem_summary(): the last lines of a configure.
function(tandem_summary)
  message(STATUS "tandem ${PROJECT_VERSION} (${TANDEM_REVISION})")
  message(STATUS "  compiler    ${TANDEM_COMPILER}, ${CMAKE_BUILD_TYPE}")
  message(STATUS "  sanitizers  ${TANDEM_SANITIZERS}")
  message(STATUS "  CUDA        ${TANDEM_CUDA_VERSION}: ${TANDEM_CUDA_REASON}")
  message(STATUS "  NCCL        ${TANDEM_NCCL_VERSION}: ${TANDEM_NCCL_REASON}")
  message(STATUS "  cuDNN       ${TANDEM_CUDNN_VERSION}: ${TANDEM_CUDNN_REASON}")
  message(STATUS "  MPI         ${TANDEM_MPI_REASON}")
  message(STATUS "  tests       ${TANDEM_TESTS_FOUND}")
  message(STATUS "  fuzzers ${TANDEM_FUZZ}, warnings as errors ${TANDEM_WERROR}")
endfunction()
