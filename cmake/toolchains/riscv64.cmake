# 64-bit RISC-V: 64 bit, little endian, weak memory order, no atomics narrower than 32 bits.
set(cross_processor riscv64)
set(cross_triplet riscv64-linux-gnu)
set(cross_qemu riscv64)
include(${CMAKE_CURRENT_LIST_DIR}/debian_cross.cmake)
