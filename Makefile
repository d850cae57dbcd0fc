# Verbs only: Meson does the work. `make help` lists them.
#
#   make demo     a real product over three workers, from nothing to the result
#   make test     builds, runs every test and check, ends with `N passed, N failed`
#   make build    the library, the command and the Python package, in build/
#   make check    only the checks of the house: includes, headers, format, symbols, warnings, docs
#   make bench    every benchmark, then the tables of BENCHMARKS.md; bench/run NAME runs one
#   make soak     the full counts: a million mutated inputs per decoder, a thousand rounds of kills,
#                 an hour of full load, every test REPEAT=20 times; SOAK=100 takes a hundredth of each
#   make fuzz     libFuzzer on every decoder, for SECONDS=60 each
#   make hunt     random programs, run in ways that must agree, for SECONDS=60 each; SEED=n: others
#   make fmt      formats the C files
#   make docs     runs the programs in the documents
#   make clean    removes what was built; the Python environment stays

REPEAT ?= 20
SECONDS ?= 60
export PATH := $(CURDIR)/build/venv/bin:$(PATH)

.PHONY: help demo test build check bench soak fuzz hunt fmt docs clean install
.NOTPARALLEL:

help:
	@sed -n '3,/^$$/s/^#   //p' Makefile

install:
	@tools/install.sh

build/build.ninja: | install
	@echo "build: setting up build/"
	@meson setup build --werror >build/setup.log 2>&1 || { cat build/setup.log; exit 1; }

build: install build/build.ninja
	@echo "build: compiling"
	@ninja -C build --quiet

demo: build
	@examples/demo/demo.sh

test: build
	@tools/run_tests.sh build

check: build
	@tools/run_tests.sh build --suite check

bench: build
	@tools/install.sh bench
	@bench/run; code=$$?; tools/bench_table.py && exit $$code

soak: build
	@REPEAT=$(REPEAT) tools/soak.sh build

build/fuzz/build.ninja: | install
	@CC=clang meson setup build/fuzz -Dfuzz=true -Dpython=false -Db_sanitize=address,undefined \
		-Db_lundef=false -Dc_args=-fsanitize=fuzzer-no-link >build/fuzz.log 2>&1 || \
		{ cat build/fuzz.log; exit 1; }

fuzz: install build/fuzz/build.ninja
	@ninja -C build/fuzz --quiet
	@SHOAL_FUZZ_SECONDS=$(SECONDS) tools/run_tests.sh build/fuzz --suite fuzz \
		--timeout-multiplier 0 --num-processes 2

hunt: build
	@tools/hunt.sh build $(SECONDS) $(SEED)

fmt: install
	@tools/format.py --fix

docs: build
	@tools/doc_check.py --build build README.md doc

clean:
	@find build -mindepth 1 -maxdepth 1 ! -name venv -exec rm -rf {} + 2>/dev/null || true
