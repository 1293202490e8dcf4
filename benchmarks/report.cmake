# The tests of what runs the suite and makes something of its figures.
if(Python3_Interpreter_FOUND)
    foreach(name analyze_epoch_tail_csv soak_mixed suite_figures run_all plot_bench)
        add_test(NAME bench_${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.py)
        set_tests_properties(bench_${name} PROPERTIES LABELS bench TIMEOUT 180
            ENVIRONMENT "SUITE_DIR=${CMAKE_CURRENT_BINARY_DIR}")
    endforeach()
endif()
