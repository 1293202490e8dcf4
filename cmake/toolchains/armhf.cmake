# 32-bit ARM (ARMv7, hard float): 32 bit, little endian, weak memory order.
set(cross_processor armv7l)
set(cross_triplet arm-linux-gnueabihf)
set(cross_qemu arm)
include(${CMAKE_CURRENT_LIST_DIR}/debian_cross.cmake)
