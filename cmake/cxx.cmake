# C++ where there is a compiler for it: for the tests and benchmarks of tslab.hpp. The library itself is C and needs
# none. Sets TSLAB_CXX, and enables the language.

set(TSLAB_CXX OFF)
if(NOT CMAKE_CROSSCOMPILING AND TSLAB_GLIBC)
    # The brother of the C compiler: gcc's g++, clang's clang++.
    if(NOT CMAKE_CXX_COMPILER)
        get_filename_component(c_compiler ${CMAKE_C_COMPILER} NAME)
        get_filename_component(c_folder ${CMAKE_C_COMPILER} DIRECTORY)
        string(REPLACE "gcc" "g++" cxx_name ${c_compiler})
        string(REPLACE "clang" "clang++" cxx_name ${cxx_name})
        if(NOT cxx_name STREQUAL c_compiler)
            find_program(TSLAB_CXX_COMPILER ${cxx_name} HINTS ${c_folder})
        else()
            find_program(TSLAB_CXX_COMPILER c++)
        endif()
        mark_as_advanced(TSLAB_CXX_COMPILER)
    endif()

    # Tried before the language is enabled, which fails where the compiler has no library of C++17.
    set(cxx_compiler ${CMAKE_CXX_COMPILER})
    if(NOT cxx_compiler AND TSLAB_CXX_COMPILER)
        set(cxx_compiler ${TSLAB_CXX_COMPILER})
    endif()
    if(cxx_compiler AND NOT DEFINED TSLAB_CXX_WORKS)
        file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/cxx/try.cpp
            "#include <string>\n#include <type_traits>\nint main() { return std::is_same_v<std::string, int>; }\n")
        execute_process(COMMAND ${cxx_compiler} -std=c++17 try.cpp -o try
            RESULT_VARIABLE cxx_result OUTPUT_QUIET ERROR_QUIET
            WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/cxx)
        if(cxx_result EQUAL 0)
            set(cxx_works ON)
        else()
            set(cxx_works OFF)
        endif()
        set(TSLAB_CXX_WORKS ${cxx_works} CACHE INTERNAL "Whether ${cxx_compiler} compiles C++17")
    endif()
    if(TSLAB_CXX_WORKS)
        if(PROJECT_IS_TOP_LEVEL)
            set(CMAKE_CXX_FLAGS_RELEASE "-O2" CACHE STRING "Flags used by the C++ compiler during RELEASE builds.")
        endif()
        if(NOT CMAKE_CXX_COMPILER)
            set(CMAKE_CXX_COMPILER ${cxx_compiler})
        endif()
        enable_language(CXX)
        set(TSLAB_CXX ON)
    endif()
endif()
