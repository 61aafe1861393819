# Makefile - the front door; the work is done by CMake (CMakePresets.json) and scripts/.
# `make help` lists what there is.
SHELL := /bin/sh
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
PRESET ?= dev
FOR ?= 600
KILLS ?= 200
MAKEFLAGS += --no-print-directory
export CTEST_OUTPUT_ON_FAILURE = 1

.PHONY: all check test attack faults cluster simulate conformance load run install fuzz coverage bench format tidy clean help setup setup-test \
        amalgamation static dist deb container newcomer reproducible setup-chroot

all: ## release binaries into build/bin
	@scripts/build release $(JOBS)
	@scripts/built build

check: ## the fast loop: sanitizers, warnings as errors, unit tests and transcripts
	@scripts/build dev $(JOBS)
	@ctest --test-dir build/dev -L fast -j $(JOBS) --timeout 60 --no-tests=ignore

setup: ## install what `make` and `make run` need
	@scripts/setup build

setup-test: ## install what `make test` needs as well
	@scripts/setup test

test: setup-test ## everything: all tests, style, lint, thread sanitizer, fuzz replay
	@scripts/build dev $(JOBS)
	@ctest --test-dir build/dev -j $$(($(JOBS) + 1)) # one works where the others wait: tests/project

conformance: setup-test ## the official MCP suite against idem-conformance-server and idem serve
	@scripts/build release $(JOBS)
	@tests/conformance/run build/bin/idem-conformance-server build/conformance
	@tests/conformance/serve build/bin/idem build/conformance

load: setup-test ## 10,000 idle connections and 2,000 streams: what they cost, and that nothing is left
	@scripts/build release $(JOBS)
	@scripts/build dev $(JOBS) load-clients
	@build/dev/tests/load-clients build/bin/idem-reference 10000 2000 5 whole

attack: setup-test ## a hostile session on every transport for FOR seconds (600); SEED and ROUND repeat one, PRESET=tsan
	@scripts/build $(PRESET) $(JOBS) attack-servers
	@build/$(PRESET)/tests/attack-servers build/$(PRESET)/bin seconds=$(FOR) seed=$(SEED) round=$(ROUND)

faults: FOR = 180
faults: setup-test ## nodes, Redis and connections are killed for FOR seconds a set-up (180; SEED repeats); a SQLite server KILLS times (200)
	@scripts/build dev $(JOBS) e2e.kill idem-and-modules
	@IDEM_KILLS=$(KILLS) build/dev/tests/e2e.kill
	@tests/faults/all "$(CURDIR)/build/dev/bin" $(FOR) $(SEED)

cluster: setup-test ## three nodes, nginx and Redis on this machine, until Ctrl-C
	@scripts/build release $(JOBS) idem-and-modules
	@scripts/cluster

simulate: setup-test ## what a million sessions would need, from what one costs here
	@scripts/build release $(JOBS) idem-and-modules
	@node bench/simulate/simulate.mjs "$(CURDIR)/build/bin"

run: setup ## build and serve the demo
	@scripts/build release $(JOBS) idem-and-modules
	@scripts/run

install: all ## install into PREFIX (default /usr/local); DESTDIR is honoured
	@cmake --install build/release --prefix "$(PREFIX)"

fuzz: ## each fuzz target for FUZZ_SECONDS (default 60)
	@scripts/build fuzz $(JOBS) fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

coverage: ## lines executed by the tests, per folder
	@scripts/coverage $(JOBS)

bench: ## the benchmark table
	@scripts/build bench $(JOBS)
	@bench/run

format: ## lay out every C file as .clang-format says
	@scripts/format

tidy: ## clang with every warning, then clang-tidy
	@scripts/build tidy $(JOBS)
	@scripts/tidy $(JOBS)

amalgamation: ## the JSON-RPC engine as idem.c and idem.h, in build/amalgamation
	@scripts/amalgamate
	@ls -l build/amalgamation/idem.[ch]

static: ## programs that need no library at run time, in build/static/bin; Linux, Debian for what it compiles itself
	@scripts/static $(JOBS)

dist: ## the source archive, in build/dist
	@scripts/dist

setup-chroot:
	@scripts/setup chroot

deb: setup-chroot ## Debian packages for SUITES (bookworm trixie) in build/deb, each built and tried in a chroot; as root
	@scripts/deb $(SUITES)

container: setup-chroot ## the steps of packaging/Containerfile in chroots, and what comes of them tried; as root
	@scripts/container

newcomer: setup-chroot ## the first hour in a bare chroot, timed; NEWCOMER_TEST=check|none instead of all tests; as root
	@scripts/newcomer $(SUITES)

reproducible: ## two builds in different folders have the same bytes; DEB=trixie: two builds of packages, as root
	@scripts/reproducible $(if $(DEB),deb $(DEB))

clean: ## remove everything built
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
