# scope_bench and one scope_bench_NAME for each way to drop objects together that this machine has: all from the same
# sources (scope_worker.c, scope_loop.h). What is missing is named here and by scope_bench --list.
# Debian: g++ libapr1-dev libtalloc-dev; the shared libraries of mimalloc and jemalloc are found above.

option(TSLAB_BENCH_CARGO "Build bumpalo and mimalloc 3 for scope_bench with cargo, from crates.io" OFF)

set(scope_absent "")

# tslab_scope_absent(WHY NAME...): these are missing from the comparison.
function(tslab_scope_absent why)
    foreach(name ${ARGN})
        string(APPEND scope_absent "    {\"${name}\", \"${why}\"},\n")
    endforeach()
    set(scope_absent "${scope_absent}" PARENT_SCOPE)
    list(JOIN ARGN " " names)
    message(STATUS "scope_bench: ${names}: ${why}; missing from the comparison")
endfunction()

# tslab_add_scope(NAME SOURCE [DEFINITION...] [LIBRARIES ...])
function(tslab_add_scope name source)
    cmake_parse_arguments(PARSE_ARGV 2 scope "" "" "LIBRARIES")
    set(target scope_bench_${name})
    add_executable(${target} ${source} $<TARGET_OBJECTS:scope_worker> $<TARGET_OBJECTS:bench_harness>)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE ${scope_UNPARSED_ARGUMENTS})
    target_compile_options(${target} PRIVATE -fno-builtin-malloc -fno-builtin-free)
    target_link_libraries(${target} PRIVATE ${scope_LIBRARIES} Threads::Threads)
    add_dependencies(scope_bench ${target})
endfunction()

add_library(scope_worker OBJECT scope_worker.c)
target_compile_definitions(scope_worker PRIVATE _GNU_SOURCE)

add_executable(scope_bench scope_bench.c bench_csv.c $<TARGET_OBJECTS:bench_harness>)
target_compile_definitions(scope_bench PRIVATE _GNU_SOURCE)
target_include_directories(scope_bench PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(scope_bench PRIVATE Threads::Threads)

tslab_add_scope(none scope_peer_none.c)
tslab_add_scope(tslab scope_peer_tslab.c LIBRARIES tslab)
tslab_add_scope(tslab_keep scope_peer_tslab.c SCOPE_TSLAB_KEEP LIBRARIES tslab)
tslab_add_scope(tslab_reset scope_peer_tslab.c SCOPE_TSLAB_RESET LIBRARIES tslab)

# ---- the others ---------------------------------------------------------------------------------

set(why_sanitized "this is a sanitized build")
if(TSLAB_SANITIZE)
    tslab_scope_absent("${why_sanitized}" mimalloc mimalloc3 jemalloc jemalloc_tcache apr apr_clear talloc talloc_pool
        pmr pmr_pooled bumpalo bumpalo_reset glibc jemalloc_free tcmalloc_free mimalloc_free)
else()
    # tslab_add_scope_malloc(NAME PEER [LIBRARY]): malloc and free of that allocator.
    function(tslab_add_scope_malloc name peer)
        string(TOUPPER ${peer} upper)
        tslab_add_scope(${name} scope_peer_malloc.c BENCH_PEER_${upper} LIBRARIES ${ARGN} ${CMAKE_DL_LIBS})
        target_sources(scope_bench_${name} PRIVATE peers.c)
    endfunction()

    tslab_add_scope_malloc(glibc glibc)
    foreach(peer jemalloc tcmalloc mimalloc)
        string(TOUPPER ${peer} upper)
        if(TSLAB_PEER_${upper})
            tslab_add_scope_malloc(${peer}_free ${peer} ${TSLAB_PEER_${upper}})
        else()
            tslab_scope_absent("${peer} is not installed" ${peer}_free)
        endif()
    endforeach()

    if(TSLAB_PEER_MIMALLOC)
        tslab_add_scope(mimalloc scope_peer_mimalloc.c LIBRARIES ${TSLAB_PEER_MIMALLOC})
    else()
        tslab_scope_absent("libmimalloc.so.2 is not installed" mimalloc)
    endif()

    if(TSLAB_PEER_JEMALLOC)
        tslab_add_scope(jemalloc scope_peer_jemalloc.c LIBRARIES ${TSLAB_PEER_JEMALLOC})
        tslab_add_scope(jemalloc_tcache scope_peer_jemalloc.c SCOPE_JEMALLOC_TCACHE LIBRARIES ${TSLAB_PEER_JEMALLOC})
    else()
        tslab_scope_absent("libjemalloc.so.2 is not installed" jemalloc jemalloc_tcache)
    endif()

    find_package(PkgConfig QUIET)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(TSLAB_PEER_APR QUIET IMPORTED_TARGET apr-1)
        pkg_check_modules(TSLAB_PEER_TALLOC QUIET IMPORTED_TARGET talloc)
    endif()
    if(TARGET PkgConfig::TSLAB_PEER_APR)
        tslab_add_scope(apr scope_peer_apr.c LIBRARIES PkgConfig::TSLAB_PEER_APR)
        tslab_add_scope(apr_clear scope_peer_apr.c SCOPE_APR_CLEAR LIBRARIES PkgConfig::TSLAB_PEER_APR)
    else()
        tslab_scope_absent("pkg-config does not find apr-1 (libapr1-dev)" apr apr_clear)
    endif()
    if(TARGET PkgConfig::TSLAB_PEER_TALLOC)
        tslab_add_scope(talloc scope_peer_talloc.c LIBRARIES PkgConfig::TSLAB_PEER_TALLOC)
        tslab_add_scope(talloc_pool scope_peer_talloc.c SCOPE_TALLOC_POOL LIBRARIES PkgConfig::TSLAB_PEER_TALLOC)
    else()
        tslab_scope_absent("pkg-config does not find talloc (libtalloc-dev)" talloc talloc_pool)
    endif()

    include(CheckLanguage)
    check_language(CXX)
    if(CMAKE_CXX_COMPILER)
        enable_language(CXX)
        include(CheckCXXSourceCompiles)
        set(CMAKE_REQUIRED_FLAGS -std=c++17)
        check_cxx_source_compiles("#include <memory_resource>
            int main() { std::pmr::monotonic_buffer_resource r; return r.allocate(16) == nullptr; }" TSLAB_HAS_PMR)
        unset(CMAKE_REQUIRED_FLAGS)
    endif()
    if(TSLAB_HAS_PMR)
        add_library(scope_pmr OBJECT scope_pmr.cpp)
        set_target_properties(scope_pmr PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
        target_compile_options(scope_pmr PRIVATE -O2)
        tslab_add_scope(pmr scope_peer_pmr.c LIBRARIES scope_pmr)
        tslab_add_scope(pmr_pooled scope_peer_pmr.c SCOPE_PMR_POOLED LIBRARIES scope_pmr)
        set_target_properties(scope_bench_pmr scope_bench_pmr_pooled PROPERTIES LINKER_LANGUAGE CXX)
    else()
        tslab_scope_absent("there is no C++17 compiler with <memory_resource>" pmr pmr_pooled)
    endif()

    # tslab_cargo(NAME): the archive scope_rust/NAME makes, in NAME_archive; empty: why_cargo says why.
    function(tslab_cargo name)
        set(folder ${CMAKE_CURRENT_BINARY_DIR}/scope_rust)
        set(archive ${folder}/release/libscope_${name}.a)
        execute_process(COMMAND ${CMAKE_COMMAND} -E env CARGO_NET_RETRY=0 CC=${CMAKE_C_COMPILER}
            ${TSLAB_CARGO} build --quiet --release --locked --target-dir ${folder}
            WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/scope_rust/${name}
            TIMEOUT 300 RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
        if(code EQUAL 0 AND EXISTS ${archive})
            set(${name}_archive ${archive} PARENT_SCOPE)
        else()
            file(WRITE ${folder}-${name}.log "${code}\n${output}")
            set(${name}_archive "" PARENT_SCOPE)
            set(why_cargo "cargo could not build it (benchmarks/scope_rust-${name}.log of the build)" PARENT_SCOPE)
        endif()
    endfunction()

    find_program(TSLAB_CARGO cargo)
    mark_as_advanced(TSLAB_CARGO)
    if(NOT TSLAB_CARGO)
        tslab_scope_absent("cargo is not installed" mimalloc3 bumpalo bumpalo_reset)
    elseif(NOT TSLAB_BENCH_CARGO)
        tslab_scope_absent("cargo builds it when CMake is given -DTSLAB_BENCH_CARGO=ON" mimalloc3 bumpalo bumpalo_reset)
    else()
        tslab_cargo(mimalloc3)
        if(mimalloc3_archive)
            tslab_add_scope(mimalloc3 scope_peer_mimalloc.c SCOPE_MIMALLOC3
                LIBRARIES ${mimalloc3_archive} ${CMAKE_DL_LIBS})
        else()
            tslab_scope_absent("${why_cargo}" mimalloc3)
        endif()
        tslab_cargo(bumpalo)
        if(bumpalo_archive)
            tslab_add_scope(bumpalo scope_peer_bumpalo.c LIBRARIES ${bumpalo_archive} ${CMAKE_DL_LIBS})
            tslab_add_scope(bumpalo_reset scope_peer_bumpalo.c SCOPE_BUMPALO_RESET LIBRARIES ${bumpalo_archive}
                ${CMAKE_DL_LIBS})
        else()
            tslab_scope_absent("${why_cargo}" bumpalo bumpalo_reset)
        endif()
    endif()
endif()

file(CONFIGURE OUTPUT scope_bench_absent.inc CONTENT "${scope_absent}")

add_test(NAME scope_bench_smoke COMMAND scope_bench --smoke)
set_tests_properties(scope_bench_smoke PROPERTIES LABELS bench TIMEOUT 120)
