# The programs of the suite, each once per allocator: NAME is linked to temporal-slab, NAME_malloc, NAME_jemalloc,
# NAME_tcmalloc and NAME_mimalloc to the others where they are installed; `NAME --allocator jemalloc` runs the latter.

set(suite_programs benchmark_accurate benchmark_threads churn_test fragmentation_over_time smoke_tests soak_mixed)

# tslab_add_suite(PEER SUFFIX [LIBRARY]): every program of the suite, linked to that allocator, and its smoke test.
function(tslab_add_suite peer suffix)
    string(TOUPPER ${peer} upper)
    set(objects suite_objects_${peer})
    add_library(${objects} OBJECT suite.c suite_peer.c peers.c)
    target_compile_definitions(${objects} PUBLIC _GNU_SOURCE BENCH_PEER_${upper})
    target_compile_options(${objects} PUBLIC -fno-builtin-malloc -fno-builtin-free)
    target_include_directories(${objects} PRIVATE
        $<$<STREQUAL:${peer},tslab>:$<TARGET_PROPERTY:tslab,INTERFACE_INCLUDE_DIRECTORIES>>)
    foreach(program ${suite_programs})
        set(target ${program}${suffix})
        add_executable(${target} ${program}.c $<TARGET_OBJECTS:${objects}> $<TARGET_OBJECTS:bench_harness>)
        target_compile_definitions(${target} PRIVATE _GNU_SOURCE BENCH_PEER_${upper})
        target_compile_options(${target} PRIVATE -fno-builtin-malloc -fno-builtin-free)
        target_link_libraries(${target} PRIVATE ${ARGN} Threads::Threads m ${CMAKE_DL_LIBS})
        add_test(NAME suite_smoke_${target} COMMAND ${target} --smoke)
        set_tests_properties(suite_smoke_${target} PROPERTIES LABELS bench TIMEOUT 120)
    endforeach()
endfunction()

tslab_add_suite(tslab "" tslab)
if(NOT TSLAB_SANITIZE)
    tslab_add_suite(glibc _malloc)
    foreach(peer jemalloc tcmalloc mimalloc)
        string(TOUPPER ${peer} upper)
        if(TSLAB_PEER_${upper})
            tslab_add_suite(${peer} _${peer} ${TSLAB_PEER_${upper}})
        endif()
    endforeach()
endif()

if(Python3_Interpreter_FOUND)
    add_test(NAME suite_programs COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/test_suite.py)
    set_tests_properties(suite_programs PROPERTIES LABELS bench TIMEOUT 180
        ENVIRONMENT "SUITE_DIR=${CMAKE_CURRENT_BINARY_DIR}")
endif()
