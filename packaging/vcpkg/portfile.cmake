# An overlay port of this tree: vcpkg install tslab --overlay-ports=packaging/vcpkg. It has the core library.
set(SOURCE_PATH "${CURRENT_PORT_DIR}/../..")
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS
    -DTSLAB_BUILD_TESTS=OFF -DTSLAB_BUILD_BENCHMARKS=OFF -DTSLAB_BUILD_TOOLS=OFF
    -DTSLAB_BUILD_HTTP=OFF -DTSLAB_BUILD_MALLOC=OFF -DTSLAB_BUILD_ZONES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/tslab)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/share/man")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
