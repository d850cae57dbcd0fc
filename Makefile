# Targets only: Meson does the work. `make help` lists them.
#
#   make demo     shows on this machine what pooling gains; installs and builds what it needs
#   make test     builds, runs all tests and checks, ends with `N passed, N failed`
#   make deps     installs what the build needs; each target installs what it needs by itself
#   make build    builds the library, the command and the Python package, in build/
#   make install  installs library, command, headers and manual (PREFIX=/usr/local, DESTDIR=)
#   make wheel    builds the Python packages as wheels for any Linux, in build/wheels
#   make deb      builds Debian packages, in build/deb
#   make site     builds the documentation as web pages, in build/site
#   make check    only the checks of sources and documents, such as format, headers, warnings
#   make bench    runs all benchmarks and updates BENCHMARKS.md; bench/run NAME runs one
#   make ggml     the benchmarks of quantised weights, whose peer ggml is compiled here: in 10 minutes
#   make arm      the tests of processors of kind aarch64, compiled and emulated here
#   make vulkan   the tests of libggml's Vulkan, on Mesa's driver for processors
#   make soak     the long tests: a million mutated inputs per decoder, a thousand rounds of kills,
#                 an hour of full load, every test REPEAT=20 times; SOAK=100: a hundredth of each
#   make fuzz     runs libFuzzer on every decoder, for SECONDS=60 each
#   make hunt     runs random programs in several ways that must agree, SECONDS=60 each; SEED=n
#   make fmt      formats the C files
#   make docs     runs the programs in the documents
#   make clean    removes what was built, except the Python environment

REPEAT ?= 20
SECONDS ?= 60
PREFIX ?= /usr/local
# Meson's own choice depends on what is installed, and may be lib64, where Debian's loader does not look.
LIBDIR ?= lib
export PATH := $(CURDIR)/build/venv/bin:$(PATH)

.PHONY: help demo test deps build install wheel deb site check bench ggml arm vulkan soak fuzz hunt fmt docs clean
.NOTPARALLEL:

help:
	@sed -n '3,/^$$/s/^#   //p' Makefile

# What a task needs; see tools/install.sh.
need-%:
	@tools/install.sh $*

deps: need-build

# Configured anew when something has been installed: it may have been missed before.
build/venv/installed: | need-build ;
build/build.ninja: build/venv/installed
	@echo "build: setting up build/"
	@meson setup build --werror --prefix=$(PREFIX) --libdir=$(LIBDIR) $(if $(wildcard $@),--reconfigure) \
		>build/setup.log 2>&1 || { cat build/setup.log; exit 1; }
	@touch $@

build: need-build build/build.ninja
	@echo "build: compiling"
	@ninja -C build --quiet

install: need-build build/build.ninja
	@meson configure build --prefix=$(PREFIX) --libdir=$(LIBDIR)
	@ninja -C build --quiet
	@meson install -C build --no-rebuild --tags runtime,devel
	@[ -n "$(DESTDIR)" ] || PATH=$$PATH:/sbin ldconfig 2>/dev/null || true # the loader learns of the library

demo: need-demo build/build.ninja
	@echo "build: compiling the library, the command and the Python package"
	@ninja -C build --quiet use
	@examples/demo/demo.sh

test: need-test build
	@tools/run_tests.sh build

check: need-test build
	@tools/run_tests.sh build --suite check

bench: need-bench build
	@bench/run; code=$$?; tools/bench_table.py && exit $$code

ggml: need-ggml build
	@bench/run qgemv qgemm

arm: need-test build
	@tools/arm.sh build

vulkan: need-vulkan build
	@tools/run_tests.sh build --setup package --suite vulkan

soak: need-test build
	@REPEAT=$(REPEAT) tools/soak.sh build

wheel: need-package
	@tools/wheel.sh build/wheels

deb: need-package
	@tools/deb.sh build/deb

site: need-site build
	@tools/site.sh build build/site

build/fuzz/build.ninja: build/venv/installed
	@CC=clang meson setup build/fuzz $(if $(wildcard $@),--reconfigure) -Dfuzz=true -Dpython=false \
		-Db_sanitize=address,undefined -Db_lundef=false -Dc_args=-fsanitize=fuzzer-no-link \
		>build/fuzz.log 2>&1 || { cat build/fuzz.log; exit 1; }
	@touch $@

fuzz: need-fuzz build/fuzz/build.ninja
	@ninja -C build/fuzz --quiet
	@SHOAL_FUZZ_SECONDS=$(SECONDS) tools/run_tests.sh build/fuzz --suite fuzz \
		--timeout-multiplier 0 --num-processes 2

hunt: need-test build
	@build/venv/bin/python test/hunt/hunt.py --seconds $(SECONDS) --failures 5 $(if $(SEED),--seed $(SEED))

fmt: need-test
	@tools/format.py --fix

docs: need-test build
	@tools/doc_check.py --build build

clean:
	@find build -mindepth 1 -maxdepth 1 ! -name venv -exec rm -rf {} + 2>/dev/null || true
