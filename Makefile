# Makefile - the front door; the work is done by CMake (CMakePresets.json) and scripts/.
# `make help` lists what there is.
SHELL := /bin/sh
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
# Ninja notices faster that there is nothing to do; make serves where it is missing.
ifneq ($(shell command -v ninja 2>/dev/null),)
export CMAKE_GENERATOR ?= Ninja
endif
export CTEST_OUTPUT_ON_FAILURE = 1

# $(call build,PRESET): configure when needed, then build.
define build
@command -v cmake >/dev/null || { echo "cmake is missing: run scripts/setup" >&2; exit 1; }
@test -f build/$(1)/CMakeCache.txt || cmake --preset $(1) >build-$(1).log 2>&1 || \
  { cat build-$(1).log >&2; rm -rf build-$(1).log build/$(1); exit 1; }
@rm -f build-$(1).log
@cmake --build build/$(1) -j $(JOBS)
endef

.PHONY: all check test run install fuzz coverage bench format tidy clean help setup setup-test

all: ## release binaries into build/bin
	$(call build,release)

check: ## the fast loop: sanitizers, warnings as errors, unit tests and transcripts
	$(call build,dev)
	@ctest --test-dir build/dev -L fast -j $(JOBS) --timeout 60 --no-tests=ignore

setup: ## install what `make` and `make run` need
	@scripts/setup build

setup-test: ## install what `make test` needs as well
	@scripts/setup test

test: setup-test ## everything: all tests, style, lint, thread sanitizer, fuzz replay
	$(call build,dev)
	@ctest --test-dir build/dev -j $(JOBS)

run: setup ## build and serve the demo
	$(call build,release)
	@scripts/run

install: all ## install into PREFIX (default /usr/local); DESTDIR is honoured
	@cmake --install build/release --prefix "$(PREFIX)"

fuzz: ## each fuzz target for FUZZ_SECONDS (default 60)
	$(call build,fuzz)
	@scripts/fuzz $(FUZZ_SECONDS)

coverage: ## lines executed by the tests, per folder
	@scripts/coverage $(JOBS)

bench: ## the benchmark table
	$(call build,release)
	@bench/run

format: ## lay out every C file as .clang-format says
	@scripts/format

tidy: ## clang with every warning, then clang-tidy
	$(call build,tidy)
	@scripts/tidy $(JOBS)

clean: ## remove everything built
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
