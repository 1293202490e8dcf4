# What the cross builds have in common. Included by the toolchain file of each target, which sets
#     cross_processor   as `uname -m` would say there
#     cross_triplet     of Debian's cross compiler (package gcc-TRIPLET)
#     cross_qemu        the name that qemu-user gives the machine
# The programs run under qemu-user, with the C library that came with the cross compiler. 64-bit programs get 16 GiB of
# address space: qemu keeps a record of every page of the region, which takes seconds at 64 GiB.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${cross_processor})
set(CMAKE_C_COMPILER ${cross_triplet}-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${cross_qemu} -L /usr/${cross_triplet})
if(NOT cross_processor MATCHES "^armv7")
    list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -R 16G)
endif()

set(CMAKE_FIND_ROOT_PATH /usr/${cross_triplet})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
