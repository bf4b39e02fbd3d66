# cmake --install build/release --prefix X: the command with its manual and completions, and the library for find_package(tandem).
# The executor stays inside: what it links (CUDA's archives, oneDNN, OpenMP) is that of the machine where it was built.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# What a program outside may include: the headers that are written for it, and what those include (tests/install checks that
# none is missing). None of them includes Boost, nlohmann/json or fmt.
set(tandem_public_headers
  core/base/error.h
  core/base/ids.h
  core/base/table.h
  core/base/units.h
  core/files/read.h
  core/import/models.h
  core/lower/lower.h
  core/memory/memory.h
  core/memory/of_slices.h
  core/memory/storage.h
  core/model/catalog.h
  core/model/calibration.h
  core/model/cluster.h
  core/model/model.h
  core/model/plan.h
  core/model/slice_lengths.h
  core/model/transformer_shape.h
  core/notation/notation.h
  core/program/cost.h
  core/program/program.h
  core/program/timeline.h
  core/schedule/op.h
  core/schedule/op_kind.h
  core/schedule/passes.h
  core/schedule/placement.h
  core/schedule/reading.h
  core/schedule/recompute.h
  core/schedule/schedule.h
  core/schedule/slicing.h
  core/schedule/user_schedule.h
  core/schedule/version_rule.h
  core/text/files.h
  core/text/text_sink.h
  core/verify/verify.h
  planner/cluster/priced_plan.h
  planner/search/candidates.h
  planner/search/search.h
  simulator/cost/stage_costs.h
  simulator/simulate.h
  simulator/simulation_result.h
  traces/chrome/chrome_trace.h
  traces/chrome/trace_check.h
  traces/chrome/trace_source.h
  traces/picture.h
)

set(libraries core simulator planner traces)
foreach(library ${libraries})
  set_target_properties(tandem_${library} PROPERTIES EXPORT_NAME ${library})
  target_compile_features(tandem_${library} PUBLIC cxx_std_20)
  target_include_directories(tandem_${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
list(TRANSFORM libraries PREPEND tandem_ OUTPUT_VARIABLE targets)
install(TARGETS ${targets} EXPORT tandemTargets COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# What an installation writes before it copies lies in a folder of its own: two may run at once.
# A header names others from the root of the sources; outside, where "core/…" may be anybody's, from tandem/.
string(CONFIGURE [[
  string(RANDOM LENGTH 16 folder)
  set(made "@PROJECT_BINARY_DIR@/install/${folder}")
  foreach(header @tandem_public_headers@)
    file(READ "@PROJECT_SOURCE_DIR@/${header}" text)
    string(REGEX REPLACE "\n#include \"(core|simulator|planner|traces)/" "\n#include \"tandem/\\1/" text "${text}")
    file(WRITE "${made}/${header}" "${text}")
    get_filename_component(folder ${header} DIRECTORY)
    file(INSTALL "${made}/${header}" DESTINATION "${CMAKE_INSTALL_PREFIX}/@CMAKE_INSTALL_INCLUDEDIR@/tandem/${folder}")
  endforeach()
  file(REMOVE_RECURSE "${made}")
]] install_headers @ONLY)
install(CODE "${install_headers}" COMPONENT development)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(EXPORT tandemTargets NAMESPACE tandem:: DESTINATION ${package} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tandemConfig.cmake.in ${PROJECT_BINARY_DIR}/install/tandemConfig.cmake
  INSTALL_DESTINATION ${package})
# Until 1.0 a new minor version may change anything.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/tandemConfig.cmake ${PROJECT_BINARY_DIR}/install/tandemConfigVersion.cmake
  DESTINATION ${package} COMPONENT development)

if(TANDEM_MPI_FOUND)
  install(TARGETS tandem_mpi COMPONENT runtime LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tandem)
endif()

# The command writes its own manual and completions: they are those of the build that is installed.
install(TARGETS tandem COMPONENT runtime RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
string(CONFIGURE [[
  string(RANDOM LENGTH 16 folder)
  set(made "@PROJECT_BINARY_DIR@/install/${folder}")
  set(tandem "$<TARGET_FILE:tandem>")
  execute_process(COMMAND "${tandem}" man --output "${made}/man/man1" COMMAND_ERROR_IS_FATAL ANY)
  file(INSTALL "${made}/man/man1" DESTINATION "${CMAKE_INSTALL_PREFIX}/@CMAKE_INSTALL_MANDIR@")
  foreach(file bash-completion/completions/tandem zsh/site-functions/_tandem fish/vendor_completions.d/tandem.fish)
    get_filename_component(folder ${file} DIRECTORY)
    string(REGEX MATCH "^[a-z]+" shell ${file})
    file(MAKE_DIRECTORY "${made}/${folder}")
    execute_process(COMMAND "${tandem}" completion ${shell} OUTPUT_FILE "${made}/${file}" COMMAND_ERROR_IS_FATAL ANY)
    file(INSTALL "${made}/${file}" DESTINATION "${CMAKE_INSTALL_PREFIX}/@CMAKE_INSTALL_DATADIR@/${folder}")
  endforeach()
  file(REMOVE_RECURSE "${made}")
]] install_pages @ONLY)
install(CODE "${install_pages}" COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
