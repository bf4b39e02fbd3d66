# TANDEM_RELOCATABLE: programs that need nothing but glibc where they run (tools/scripts/gpu_bundle). Everything compiles as in any other
# build; only what is linked differs. oneDNN is left out (executor/CMakeLists.txt): it is as large as a whole bundle may be.

add_link_options(-static-libstdc++ -static-libgcc -Wl,--as-needed)
set(CMAKE_SKIP_RPATH ON)

# tandem_link_archive(<imported target> <name>): its shared library is replaced by the archive lib<name>.a.
function(tandem_link_archive target name)
  find_library(archive lib${name}.a NO_CACHE REQUIRED)
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration ${configurations})
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${archive})
  endforeach()
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${archive})
endfunction()

tandem_link_archive(Boost::program_options boost_program_options)
tandem_link_archive(pugixml::shared pugixml)
tandem_link_archive(ZLIB::ZLIB z)

# Debian has no archive of fmt, but its sources are headers. Compiled in here, as they are for those who use them so; what others
# compiled for the shared library finds its functions there. fmt::fmt itself stays: it says how to compile.
add_library(tandem_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
target_compile_options(tandem_fmt PRIVATE -fkeep-inline-functions)
add_dependencies(fmt::fmt tandem_fmt)
get_target_property(configurations fmt::fmt IMPORTED_CONFIGURATIONS)
foreach(configuration ${configurations})
  set_target_properties(fmt::fmt PROPERTIES IMPORTED_LOCATION_${configuration} ${PROJECT_BINARY_DIR}/libtandem_fmt.a)
endforeach()
