# The commands of the project. The build itself is CMake's: see CMakePresets.json for every variant by name.

SHELL := /bin/sh
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

CTEST := ctest --output-on-failure --no-tests=error -j $(JOBS)

# The sanitizers of gcc 12 place their shadow at fixed addresses; randomization with many bits gets in the way.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

export JOBS

# $(call build,PRESET,OPTIONS): configures quietly, then builds everything of that preset.
define build
	@tools/build.sh $(1) $(2)
endef

# $(call check,PRESET,OPTIONS OF CTEST,PREFIX OF THE COMMAND)
define check
	@echo "== $(1): ctest $(2)"
	@$(3) $(CTEST) --test-dir build/$(1) --output-log build/$(1)/ctest.log $(2)
endef

all: build-release

help:
	@echo "Build and install"
	@echo "  make                      build the library, the workloads and the benchmarks (build/release)"
	@echo "  make synthetic_bench      make benchmark_accurate, make churn_test: one program of the build; says where it is"
	@echo "  make install PREFIX=DIR   libraries, headers, tslab.pc, CMake package, man pages (DESTDIR works)"
	@echo "  make uninstall PREFIX=DIR removes what the last make install has put there"
	@echo "  make amalgamation         the core library as two files: build/amalgamation/tslab.c and tslab.h"
	@echo "  make clean                remove build/"
	@echo
	@echo "Measure"
	@echo "  make run                  malloc, jemalloc, mimalloc, gperftools and temporal-slab: eleven rows, and for whom each matters"
	@echo "  make bench                speed and memory beside glibc, jemalloc, gperftools, mimalloc, snmalloc and Google's tcmalloc"
	@echo "  make bench-programs       real programs under each malloc and libtslab-malloc: time and memory"
	@echo "  make bench-capture        requests of unmodified libraries in domains that capture, beside plain malloc of each allocator"
	@echo "  make bench-all            the whole suite: 45 minutes; ARGS=--quick for a third of that (benchmarks/run_all.sh --help)"
	@echo "  make bench-gate           the whole suite quickly, and an error when a figure misses its target"
	@echo "  make trial-gate           ten trials of each number of threads beside malloc, partial misses, slow paths: an error beyond a limit"
	@echo "  make results              everything that the pages quote, on this commit: 45 minutes; the same again goes on"
	@echo "  make report               charts and pages from the figures that are in benchmarks/results"
	@echo "  make run-smoke            make bench-smoke: the same programs for a moment each: do they work"
	@echo "  make demo-leak            from a leak to the alert that names it: Prometheus, the page, stats_dump"
	@echo
	@echo "Test"
	@echo "  make test                 all tests in a short form, and the stress tests under ThreadSanitizer: five minutes on two processors"
	@echo "  make t T=NAME             builds and runs one test: unit.cache.foreign; a beginning or a pattern runs several; PRESET=tsan"
	@echo "  make test-all             the long forms too, AddressSanitizer, UBSan, ThreadSanitizer, clang, install, benchmarks; make deb-test"
	@echo "  make test-release         make test-long, test-asan, test-tsan, test-clang: its stages (make test-rest: all but make test)"
	@echo "  make test-cxx             installs clang and libc++: the C++ header by each compiler and standard library"
	@echo "  make test-adapt           installs SQLite, Lua, libxml2, ...: their memory functions (adapt.h), and what they keep"
	@echo "  make test-rust            make test-python: the bindings (bindings/rust, bindings/python)"
	@echo "  make test-apr             installs httpd and Subversion: both, and APR's own tests, with libtslab-apr preloaded"
	@echo "  make test-nginx           builds nginx with its own pools and with those of integrations/nginx: the same answers"
	@echo "  make test-numpy           NumPy's own tests, each with its arrays in a domain"
	@echo "  make test-talloc          installs notmuch and smbtorture: both, with libtslab-talloc preloaded"
	@echo "  make test-valgrind        installs Valgrind: what must be caught under memcheck, and what must not"
	@echo "  make programs             real programs and servers (sqlite, redis, postgres, ...) with libtslab-malloc and without: the same"
	@echo "  make check-observability  every query of the Grafana dashboard against a real Prometheus"
	@echo
	@echo "Test for hours, or on another machine"
	@echo "  make model                checks models of the protocols exhaustively, with and without each step (spin, loom)"
	@echo "  make mutation             takes one guard of the protocols out at a time: some test must fail for each"
	@echo "  make soak                 every feature at once for 10 minutes (MINUTES=N), all structures walked every second"
	@echo "  make nightly              a million random programs against the model (NIGHTLY_PROGRAMS), then make fuzz"
	@echo "  make fuzz                 libFuzzer over the public interface for FUZZ_SECONDS (300); make fuzz-afl: AFL++"
	@echo "  make fuzz-corpus          what make fuzz found, as few strings as reach the same code, to tests/fuzz/corpus"
	@echo "  make coverage             lines and branches of src/ that the tests reach: 95 and 90 % (build/coverage/index.html)"
	@echo "  make cross                the tests on other machines (emulated), with 32 bits, big endian, musl; TARGETS=\"armhf ...\""
	@echo "  make vm-test              installs QEMU and a kernel: quick tests with two NUMA nodes, huge pages, memory limits, no membarrier"
	@echo "  make vm-coverage          the same with gcov: lines that the machine's tests reach"
	@echo "  make zones-agree          the emulated zoned device beside two real drivers: ten thousand random sequences of calls"
	@echo
	@echo "Write and release"
	@echo "  make format               clang-format over all C files (make format-check: only says which)"
	@echo "  make docs                 writes docs/stats.md and the Grafana dashboard from their lists"
	@echo "  make abi-update           records the interface of the libraries, beside which install.abi looks at each build"
	@echo "  make dist                 a release: tarball, checksum, bill of materials (build/dist)"
	@echo "  make deb-test             installs mmdebstrap: Debian packages, built and tested in clean chroots (as root)"

build:
	@mkdir -p build

setup-%:
	@tools/setup.sh $*

# Without the tests: cmocka is needed by those who test only.
build-release: setup-run | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)

run: setup-run | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)
	@benchmarks/workloads/run.sh --picture=build/run.png $(ARGS)

# One program of the release build by its name; says where it is.
synthetic_bench benchmark_accurate churn_test: setup-run | build
	@cmake --preset release -DTSLAB_BUILD_TESTS=OFF >build/release.configure.log 2>&1 || { cat build/release.configure.log >&2; exit 1; }
	@cmake --build build/release -j $(JOBS) --target $@ -- --no-print-directory -s
	@find build/release/benchmarks -maxdepth 1 -type f -name $@

# What ctest knows of the workloads: the same programs for a moment each.
run-smoke: setup-run | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)
	$(call check,release,-L '^workload$$')

# In stages with their times (tests/stages.sh). A test with the label `long` is left to make test-all; one with the label
# `short` does less here than it does with TEST_LONG=1.
test:
	@tests/stages.sh test

test-rest:
	@tests/stages.sh rest

test-all:
	@tests/stages.sh test && tests/stages.sh rest && tests/stages.sh packages

PRESET ?= release
t: setup-test
	@[ -n "$(T)" ] || { echo "make t T=unit.cache.foreign: the name of a test, or its beginning, or a pattern" >&2; exit 2; }
	@$(if $(filter release,$(PRESET)),,$(FIXED_ADDRESSES)) tests/one.py $(PRESET) '$(T)' -DTSLAB_BUILD_TESTS=ON

test-release: setup-test-all | build
	$(call build,release,-DTSLAB_BUILD_TESTS=ON)
	$(call check,release)

# vm: make vm-test. bench: make bench-smoke.
test-long: setup-test-all | build
	$(call build,release,-DTSLAB_BUILD_TESTS=ON)
	$(call check,release,-L '^(long|short)$$' -LE '^(vm|bench)$$',TEST_LONG=1)

test-asan: setup-test | build
	$(call build,asan-ubsan)
	$(call check,asan-ubsan,-L '^(unit|property|misuse|fuzz|stress|soak|process|cxx|adapt)$$',$(FIXED_ADDRESSES))

test-tsan: setup-test | build
	$(call build,tsan)
	$(call check,tsan,-L '^(stress|property|soak|cxx|adapt)$$',$(FIXED_ADDRESSES))

test-clang: setup-clang | build
	$(call build,clang-release,-DTSLAB_BUILD_TESTS=ON)
	$(call check,clang-release,-L '^(unit|misuse|install|cxx|adapt)$$')

# tslab.hpp by each compiler and standard library.
test-cxx: setup-cxx | build
	$(call build,release,-DTSLAB_BUILD_TESTS=ON)
	$(call check,release,-L '^cxx$$')

# adapt.h with each of the libraries that it is for.
test-adapt: setup-adapt | build
	$(call build,release,-DTSLAB_BUILD_TESTS=ON)
	$(call check,release,-L '^adapt$$')

bench: setup-bench | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF -DTSLAB_BENCH_CARGO=ON)
	@benchmarks/run_bench.sh

# ARGS: rows, --rounds N, --csv FILE. Programs that are missing are left out; make setup-programs installs them.
bench-programs: setup-bench | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)
	@python3 -B benchmarks/programs/programs_bench.py build/release/src/malloc/libtslab-malloc.so $(ARGS)

bench-capture: setup-bench | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)
	@python3 -B benchmarks/capture/capture_bench.py build/release/src/malloc/libtslab-malloc.so build/release/benchmarks $(ARGS)

bench-all: setup-bench | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF -DTSLAB_BENCH_CARGO=ON)
	@benchmarks/run_all.sh $(ARGS)

bench-gate: setup-bench | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF -DTSLAB_BENCH_CARGO=ON)
	@benchmarks/run_all.sh --quick --gate --out build/bench-gate $(ARGS)

trial-gate: setup-run | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)
	@benchmarks/suite/trial_gate.py $(ARGS)

# Programs of the step `programs` that are missing are left out; make setup-programs installs them.
results: setup-run setup-bench setup-plot setup-valgrind
	@benchmarks/results.py $(ARGS)

# What the benchmarks need of the release build.
.PHONY: dist deb-test amalgamation test-rust test-python test-apr test-nginx test-numpy test-talloc results build-bench
build-bench: | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF -DTSLAB_BENCH_CARGO=ON)

report: setup-plot
	@benchmarks/report/plot_bench.py; drawn=$$?; benchmarks/report/make_results.py && exit $$drawn

mutation: setup-test
	@tests/mutation/mutate.py --jobs $(JOBS)

# Spin, and Rust for the memory orders. ARGS=--without-loom where there is no Rust: that checks less, and says so.
model: | build
	@tools/setup.sh model
	@case " $(ARGS) " in *" --without-loom "*) ;; *) tools/setup.sh rust ;; esac
	@tests/model/run.py --jobs $(JOBS) $(ARGS)

# Every feature at once on all threads; every structure is walked once a second.
MINUTES ?= 10
soak: setup-test | build
	@tools/build.sh checked -- soak.soak_test
	@build/checked/tests/soak.soak_test --seconds $$(awk -v m='$(MINUTES)' 'BEGIN { print m * 60 }') $(ARGS)

test-valgrind: setup-valgrind | build
	$(call build,release,-DTSLAB_BUILD_TESTS=ON)
	@EDGES_ALL=1 build/release/tests/misuse.edges_test

# ARGS=--short: three tests in each variant of the machine.
vm-test: setup-vm | build
	$(call build,release,-DTSLAB_BUILD_TESTS=ON)
	@tests/vm/vm_test.py --build build/release $(ARGS)

# The lines of src/ that the machines reach; nothing of src/malloc runs there, and gcovr stumbles over its two ways to be compiled.
vm-coverage: setup-vm setup-coverage | build
	$(call build,coverage)
	@find build/coverage -name '*.gcda' -delete
	@tests/vm/vm_test.py --build build/coverage --coverage $(ARGS)
	@gcovr -r . --object-directory build/coverage -f src/ -e src/http/embed.c --exclude-unreachable-branches -j $(JOBS) --gcov-ignore-parse-errors \
	    --exclude-directories '.*_(steps|naps)_test\.dir.*' -e src/malloc --exclude-directories '.*/src/malloc/.*' --print-summary \
	    --txt build/coverage/vm_lines.txt
	@cat build/coverage/vm_lines.txt

# The emulated device beside QEMU's NVMe and the kernel's null_blk, ten thousand random sequences each.
zones-agree: setup-vm | build
	$(call build,release,-DTSLAB_BUILD_TESTS=ON)
	@tests/vm/vm_test.py --build build/release --tests 'zones\.device' --variants plain,null_blk --sequences 10000 --seconds 3600 \
	    --test-seconds 1700 $(ARGS)

# PROGRAMS="redis nginx": these only.
programs: setup-programs | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)
	@python3 -B tests/programs/programs.py build/release/src/malloc/libtslab-malloc.so all --jobs $(JOBS) $(PROGRAMS)

NIGHTLY_PROGRAMS ?= 1000000
FUZZ_SECONDS ?= 300

nightly: setup-test | build
	$(call build,release,-DTSLAB_BUILD_TESTS=ON)
	@tests/property/nightly.py build/release/tests/property.model_test --programs $(NIGHTLY_PROGRAMS) --jobs $(JOBS)
	@$(MAKE) --no-print-directory fuzz

fuzz: setup-fuzz | build
	$(call build,fuzz)
	@$(FIXED_ADDRESSES) tests/fuzz/fuzz.sh build/fuzz/tests/api_fuzz $(FUZZ_SECONDS) build/fuzz/found $(JOBS)

# The same body under AFL++; what it finds is in build/afl/found.
fuzz-afl: setup-afl | build
	@AFL_QUIET=1 tools/build.sh afl -- api_fuzz
	@tests/fuzz/afl.sh build/afl/tests/api_fuzz $(FUZZ_SECONDS) build/afl/found $(JOBS)

# Keeps of all that was found the fewest strings that reach every edge of the code.
fuzz-corpus: setup-fuzz | build
	$(call build,fuzz)
	@rm -rf build/fuzz/kept && mkdir -p build/fuzz/kept build/fuzz/found/corpus
	@$(FIXED_ADDRESSES) build/fuzz/tests/api_fuzz -set_cover_merge=1 -use_counters=0 -max_len=4000 build/fuzz/kept \
	    build/fuzz/found/corpus tests/fuzz/corpus >build/fuzz/merge.log 2>&1 || { tail -n 20 build/fuzz/merge.log; exit 1; }
	@rm -rf tests/fuzz/corpus && cp -r build/fuzz/kept tests/fuzz/corpus
	@ls tests/fuzz/corpus | wc -l

cross: setup-cross
	@tests/cross/cross.sh --jobs $(JOBS) $(TARGETS)

# Lines and branches of src/ that the tests reach; build/coverage/index.html shows each line. What is left: docs/coverage.md.
# src/http/embed.c is a program of the build, which has run before the tests begin. The tests named *_steps and *_naps compile
# sources once more, with places to stop at or without a futex: those copies are not the library. A process that ends while other
# threads of it run leaves counters that are one off, of which gcov makes a branch taken -1 times: such a line is left out, with a
# warning.
# libc_heap.c is compiled in two ways, which gcovr cannot put into one: the shared library's is shown.
coverage: setup-coverage | build
	$(call build,coverage)
	@find build/coverage -name '*.gcda' -delete
	$(call check,coverage,-L '^(unit|property|misuse|process|stress|soak|fuzz|tools|http)$$',EDGES_ALL=1 TEST_LONG=1)
	@gcovr -r . --object-directory build/coverage -f src/ -e src/http/embed.c --exclude-unreachable-branches -j $(JOBS) --gcov-ignore-parse-errors \
	    --exclude-directories '.*_(steps|naps)_test\.dir.*' --exclude-directories '.*tslab_malloc_static\.dir.*' \
	    --fail-under-line 95 --fail-under-branch 90 --print-summary --txt build/coverage/lines.txt \
	    --html-details build/coverage/index.html
	@cat build/coverage/lines.txt

bench-smoke: setup-bench | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)
	$(call check,release,-L '^bench$$')

# The core as tslab.c and tslab.h, for a program that builds it itself.
amalgamation:
	@python3 -B packaging/amalgamation.py build/amalgamation

# The crates and the Python package, with all that this machine has the tools for.
test-rust:
	@bindings/rust/test.sh --all

test-python:
	@bindings/python/test.sh --manylinux

# Programs on APR with libtslab-apr preloaded, and APR's own tests.
test-apr:
	@integrations/apr/test.sh

# nginx with its own pools, and with pools on temporal-slab.
test-nginx:
	@integrations/nginx/test.sh

test-numpy:
	@integrations/numpy/test.sh

# notmuch with libtslab-talloc preloaded, and talloc's own tests.
test-talloc:
	@integrations/talloc/test.sh

# A release: tarball, checksum and bill of materials; the same commit gives the same bytes.
dist:
	@packaging/dist.sh

abi-update: setup-test-all | build
	$(call build,release,-DTSLAB_BUILD_TESTS=ON)
	@packaging/abi_test.py --update build/release

# Debian packages: built in a clean chroot, looked at by lintian, installed in another one, tested, removed.
deb-test: setup-deb
	@packaging/deb_test.sh

# The libraries and tools alone: nothing that only the workloads, tests and benchmarks need, and no package is installed.
# A folder of another compiler is made anew.
install: | build
	@[ "$$(cat build/install.cc 2>/dev/null)" = "$(CC)" ] || rm -rf build/install
	@echo "$(CC)" >build/install.cc
	$(call build,install)
	@cmake --install build/install --prefix "$(PREFIX)"

# What the last make install has put there; the same PREFIX and DESTDIR.
uninstall:
	@tools/uninstall.sh build/install/install_manifest.txt "$(PREFIX)"

demo-leak: setup-observability | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)
	@python3 -B observability/demo_leak.py build/release

check-observability: setup-observability | build
	$(call build,release,-DTSLAB_BUILD_TESTS=OFF)
	@python3 -B observability/check_queries.py build/release

docs: setup-run | build
	@tools/build.sh release -- stats_docs
	@build/release/tools/stats_docs docs/stats.md >build/stats.md && cp build/stats.md docs/stats.md
	@python3 -B observability/grafana/dashboard.py >build/grafana.json && cp build/grafana.json observability/grafana/temporal-slab.json

CLANG_FORMAT ?= $(or $(shell command -v clang-format-14),clang-format)
format:
	@find include src tests tools benchmarks examples -name '*.[ch]' -exec $(CLANG_FORMAT) -i {} +

format-check:
	@find include src tests tools benchmarks examples -name '*.[ch]' -exec $(CLANG_FORMAT) --dry-run -Werror {} +

clean:
	@rm -rf build

.PHONY: synthetic_bench benchmark_accurate churn_test vm-test vm-coverage zones-agree test-valgrind programs bench-programs bench-capture nightly fuzz fuzz-afl fuzz-corpus all help build-release run run-smoke bench-all bench-gate trial-gate report mutation soak t test test-all test-rest test-release test-long test-asan test-tsan test-clang test-cxx test-adapt cross coverage model \
    bench bench-smoke abi-update install uninstall demo-leak check-observability docs format format-check clean
.NOTPARALLEL:
