# What `make install` puts where. The installed tree can be moved as a whole: nothing in it holds its path.

include(CMakePackageConfigHelpers)

install(TARGETS tslab tslab_static EXPORT tslab-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tslab DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp"
    PATTERN "http.h" EXCLUDE PATTERN "malloc.h" EXCLUDE PATTERN "zones.h" EXCLUDE)

# What it is, its licence, and the pages for its users. Those for its developers stay in the source.
install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png"
    PATTERN "architecture.md" EXCLUDE PATTERN "coverage.md" EXCLUDE PATTERN "porting.md" EXCLUDE PATTERN "study.md" EXCLUDE)
# The files that these pages link to.
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB linked RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} integrations/*/README.md benchmarks/README.md benchmarks/workloads/README.md
    benchmarks/results/all_figures.csv benchmarks/results/aims.csv)
foreach(page IN LISTS linked)
    get_filename_component(folder ${page} DIRECTORY)
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()

# gdb commands: `source PREFIX/share/tslab/tslab-gdb.py`
install(FILES tools/gdb/tslab-gdb.py DESTINATION ${CMAKE_INSTALL_DATADIR}/tslab)

# ---- pkg-config ---------------------------------------------------------------------------------
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH tslab_pc_to_prefix "/prefix/${pkgconfig_dir}" "/prefix")
string(REGEX REPLACE "/$" "" tslab_pc_to_prefix "${tslab_pc_to_prefix}")
configure_file(cmake/tslab.pc.in tslab.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tslab.pc DESTINATION ${pkgconfig_dir})

# ---- CMake package ------------------------------------------------------------------------------
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tslab)
configure_package_config_file(cmake/tslab-config.cmake.in tslab-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(tslab-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT tslab-targets NAMESPACE tslab:: DESTINATION ${package_dir})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tslab-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/tslab-config-version.cmake
    DESTINATION ${package_dir})

# ---- man pages: one text, pages by group cut from it, and a page of one line for every function -----
file(READ include/tslab/stats.h stats_h)
string(REGEX MATCHALL "\nTSLAB_API [^;(]*[ *][a-z0-9_]+\\(" declarations "${tslab_h}${stats_h}")
set(tslab_api_names "")
foreach(declaration IN LISTS declarations)
    string(REGEX REPLACE ".*[ *]([a-z0-9_]+)\\($" "\\1" name "${declaration}")
    list(APPEND tslab_api_names ${name})
endforeach()
list(SORT tslab_api_names)
list(JOIN tslab_api_names "\n" lines)
file(CONFIGURE OUTPUT api_names.txt CONTENT "${lines}\n")

set(man_dir ${CMAKE_INSTALL_MANDIR}/man3)
install(FILES man/tslab.3 DESTINATION ${man_dir})
include(cmake/man_groups.cmake)
set(links "")
foreach(name IN LISTS tslab_api_names)
    set(group tslab)
    foreach(each IN LISTS tslab_man_groups)
        if(name IN_LIST tslab_man_names_${each})
            set(group tslab-${each})
        endif()
    endforeach()
    file(CONFIGURE OUTPUT man3/${name}.3 CONTENT ".so man3/${group}.3\n")
    list(APPEND links ${CMAKE_CURRENT_BINARY_DIR}/man3/${name}.3)
endforeach()
file(CONFIGURE OUTPUT man3/slab_options.3 CONTENT ".so man3/tslab-options.3\n")
foreach(each IN LISTS tslab_man_groups)
    list(APPEND links ${CMAKE_CURRENT_BINARY_DIR}/man3/tslab-${each}.3)
endforeach()
install(FILES ${links} ${CMAKE_CURRENT_BINARY_DIR}/man3/slab_options.3 DESTINATION ${man_dir})
