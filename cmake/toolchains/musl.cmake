# This machine with the C library musl (package musl-tools): the programs run natively.
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE NEVER)
