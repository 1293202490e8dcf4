"""Conan 2: the core library of this tree. `conan create packaging/conan` builds it, and the program of test_package."""

import os
import subprocess

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rm, rmdir


class Tslab(ConanFile):
    name = "tslab"
    package_type = "library"
    license = "MIT"
    description = "A memory allocator that knows lifetimes"
    topics = ("allocator", "arena", "memory")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}
    languages = "C"

    def set_version(self):
        script = os.path.join(self.recipe_folder, "..", "version.sh")
        self.version = subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def export_sources(self):
        tree = os.path.join(self.recipe_folder, "..", "..")
        folders = ("cmake", "docs", "examples", "include", "man", "src", "tools/gdb")
        for pattern in ("CMakeLists.txt", "LICENSE", "*.md", *(folder + "/*" for folder in folders)):
            copy(self, pattern, tree, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "BENCHMARKS", "INTEGRATIONS", "TOOLS", "HTTP", "MALLOC", "ZONES"):
            toolchain.cache_variables["TSLAB_BUILD_" + part] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        libraries = os.path.join(self.package_folder, "lib")
        rm(self, "*.a" if self.options.shared else "*.so*", libraries)
        for generated in ("cmake", "pkgconfig"):  # Conan writes its own
            rmdir(self, os.path.join(libraries, generated))
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.libs = ["tslab"]
        self.cpp_info.set_property("cmake_target_name", "tslab::tslab")
        self.cpp_info.set_property("pkg_config_name", "tslab")
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread"]
