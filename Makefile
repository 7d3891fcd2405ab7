# A thin front of meson: every target sets up what it needs. `make help` lists them.
BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
LOADED_RUNS ?= 5
LOADED_TOGETHER ?= 1
RUN_TESTS = tools/run-tests $(BUILD)

.DEFAULT_GOAL := help
.PHONY: help setup build build-all run test test-quick test-long test-loaded test-docker pjdfstest xfstests soak coverage san fmt lint fuzz bench bench-fs bench-exec bench-serve bench-diff \
	bench-policy bench-scale install clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup:
	@tools/setup

$(BUILD)/build.ninja: | setup
	@meson setup $(BUILD) >/dev/null || { cat $(BUILD)/meson-logs/meson-log.txt >&2; exit 1; }

build: setup $(BUILD)/build.ninja ## compile the programs into build/
	@ninja -C $(BUILD) -n programs | grep -q 'no work to do' || echo 'compiling (the first time takes a minute)'
	@ninja -C $(BUILD) --quiet programs

build-all: setup $(BUILD)/build.ninja ## compile the programs and those of the tests
	@ninja -C $(BUILD) -n | grep -q 'no work to do' || echo 'compiling (the first time takes some minutes)'
	@ninja -C $(BUILD) --quiet

run: build ## the main job: what an agent may see of the example project, and why
	@examples/run $(BUILD)/src/cli/agentfense

test: build-all ## all tests
	@$(RUN_TESTS)

test-quick: build-all ## the C tests and one way through each program: for everyday work (under 90 seconds)
	@$(RUN_TESTS) --suite unit --suite quick

test-long: build-all ## all tests, those with large counts in full: a thousand mounts, hundreds of kills, 100,000 races (about an hour)
	@AGENTFENSE_LONG=1 $(RUN_TESTS) --timeout-multiplier 10

test-loaded: build-all ## all tests LOADED_RUNS times (5) on a busy machine, LOADED_TOGETHER (1) at a time, to find flakes (hours)
	@tools/test-loaded $(BUILD) $(LOADED_RUNS) $(LOADED_TOGETHER)

test-docker: build-all ## all tests of sandboxes in containers, also the slow ones
	@AGENTFENSE_LONG=1 AGENTFENSE_DOCKER_ALL=1 $(RUN_TESTS) --suite docker --timeout-multiplier 10

pjdfstest: build ## another project's tests of POSIX on a fence: PJDFSTEST=PATH of its tree (root)
	@AGENTFENSE=$(abspath $(BUILD))/src/cli/agentfense tools/suite pjdfstest $(PJDFSTEST)

xfstests: build ## likewise, the generic quick group: XFSTESTS=PATH of its tree (root)
	@AGENTFENSE=$(abspath $(BUILD))/src/cli/agentfense tools/suite xfstests $(XFSTESTS)

soak: build-all ## a random load with faults for SOAK_MINUTES (30); SOAK_SEED repeats one (root)
	@tools/soak --build $(abspath $(BUILD))

coverage: setup ## which lines the tests reach, module by module; COVERAGE_TESTS='fence review' runs only those
	@tools/coverage $(COVERAGE_TESTS)

san: setup ## all tests under AddressSanitizer and UndefinedBehaviorSanitizer, then under ThreadSanitizer
	@tools/sanitize address,undefined build-asan
	@tools/sanitize thread build-tsan

fmt: setup ## format the C sources in place
	@git ls-files '*.c' '*.h' | xargs clang-format -i

lint: build-all ## clang-format and clang-tidy, without changing anything
	@tools/lint $(BUILD)

fuzz: setup ## every fuzz target for FUZZ_SECONDS (60) each
	@tools/fuzz $(FUZZ_SECONDS)

bench: setup ## every benchmark, and docs/benchmarks.md of it (25 minutes; BENCH_QUICK=1: whether all works)
	@tools/bench

bench-fs: setup ## the fence against native, overlayfs, fuse-overlayfs and bindfs (root)
	@tools/bench-fs

bench-exec: setup ## sandboxes and commands in them against fork+exec, bwrap and Docker
	@tools/bench-exec

bench-serve: setup ## the server under load; a call against fork+exec, an upload against cp
	@tools/bench-serve

bench-diff: setup ## looking at an agent's changes against git diff --no-index
	@tools/bench-diff

bench-policy: setup ## what deciding costs, by number and kind of rules; what init costs
	@tools/bench-policy

bench-scale: setup ## what grows with sandboxes, files, rules, changes, depth (root)
	@tools/bench-scale

install: build-all ## install below PREFIX (/usr/local), DESTDIR honoured
	@meson configure $(BUILD) -Dprefix=$(PREFIX) >/dev/null
	@meson install -C $(BUILD) --quiet >$(BUILD)/install.log 2>&1 || { cat $(BUILD)/install.log >&2; exit 1; }
	@echo "installed below $(DESTDIR)$(PREFIX)"

clean: ## remove all that was built
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz build-bench build-coverage
