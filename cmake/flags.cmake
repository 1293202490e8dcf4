# Language, warnings and instrumentation of every target of the project.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

add_compile_options(-Wall -Wextra -pedantic)
if(TSLAB_WERROR)
    add_compile_options(-Werror)
endif()

if(TSLAB_SANITIZE)
    add_compile_options(-fsanitize=${TSLAB_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${TSLAB_SANITIZE})
    # It takes the size that was asked for as the object's, which may be written up to its usable size. AddressSanitizer knows the objects.
    if(TSLAB_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize=object-size)
    endif()
    # gcc warns at every fence that ThreadSanitizer does not model them; the code has them all the same.
    if(TSLAB_SANITIZE MATCHES "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        add_compile_options(-Wno-tsan)
    endif()
endif()

if(TSLAB_COVERAGE)
    add_compile_options(--coverage -fprofile-update=atomic)
    add_link_options(--coverage)
endif()

if(TSLAB_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "TSLAB_FUZZ needs clang, not ${CMAKE_C_COMPILER_ID}")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
