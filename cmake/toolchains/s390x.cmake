# IBM Z: 64 bit, big endian.
set(cross_processor s390x)
set(cross_triplet s390x-linux-gnu)
set(cross_qemu s390x)
include(${CMAKE_CURRENT_LIST_DIR}/debian_cross.cmake)
