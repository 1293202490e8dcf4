# This machine with the C library musl (package musl-tools): the programs run natively.
set(CMAKE_C_COMPILER musl-gcc)
set(TSLAB_MUSL ON) # what the tests link has to be of it, too
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE NEVER)
