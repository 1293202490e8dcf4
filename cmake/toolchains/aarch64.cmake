# 64-bit ARM: 64 bit, little endian, weak memory order.
set(cross_processor aarch64)
set(cross_triplet aarch64-linux-gnu)
set(cross_qemu aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/debian_cross.cmake)
