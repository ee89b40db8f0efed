# The only entry point. `make` lists the targets.

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/seekless/target

# Tests and explorations share one build, with the known bugs in it, inactive until an option
# or SEEKLESS_MUTANT names one. The programs of `make build` and `make demo` have none of them; a test checks that.
BUGS := --features seekless/mutants,seekless-lab/mutants,seekless-layers/mutants,seekless-serve/mutants,seekless-core/mutants,seekless-promises/canaries
TESTED := $(CARGO_TARGET_DIR)/debug/seekless
# Without examples, which `lint` checks; no documentation has code to run.
# An extension module of Python is a library that does not link as a test; `--tests` has all others.
TARGETS := --bins --tests
# Many tests wait for servers and clients: more of them at once than there are processors.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
export NEXTEST_TEST_THREADS ?= $(RUST_TEST_THREADS)
# Explorations take and give back much memory all the time. By default glibc returns it to the kernel at once, which takes a
# third of the processor time of some tests.
export MALLOC_TOP_PAD_ ?= 67108864
# With cargo-nextest tests of several programs run at once; without it, one program after the other.
RUN_TESTS := $(if $(shell command -v cargo-nextest),cargo nextest run,cargo test)

.DEFAULT_GOAL := help
.PHONY: help build install packages demo test check clients tested wheel format lint tidy agree explore figures canaries mutants promises fuzz bench soak wasm toolchain toolchain-check checkout

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name what; do \
		printf '  make %-8s %s\n' "$$name" "$$what"; done

build: toolchain ## build the program
	SEEKLESS_COMMIT="$$(git rev-parse --short HEAD 2>/dev/null)" cargo build --release --locked -p seekless

# Debug lines go to a file of their own, which debuggers find by the program's build id.
PREFIX ?= /usr/local
install: build ## install program, manual pages, completions, systemd units, examples, book and demo traces: PREFIX=/usr/local DESTDIR=
	scripts/install "$(CARGO_TARGET_DIR)/release/seekless" "$(DESTDIR)$(PREFIX)" "$(PREFIX)"

packages: build ## make packages (deb, rpm, archive) in FOLDER, by the tools that are here
	scripts/package "$(CARGO_TARGET_DIR)/release/seekless" "$(or $(FOLDER),$(CARGO_TARGET_DIR)/packages)"

demo: toolchain ## replay a real trace that ships with the project, without and with BORG
	cargo build --profile demo --locked -p seekless --no-default-features
	"$(CARGO_TARGET_DIR)/demo/seekless" demo

test: toolchain clients ## run all tests
	$(RUN_TESTS) --workspace --locked $(TARGETS) $(BUGS)

# `test` includes `tidy` and the canaries. Many tests wait, so explorations run beside them, once all is built. They look
# at a third of the states here; `make explore` and `make soak` at all.
check: export STATES_PCT ?= 35
check: toolchain-check ## run all checks: format, lints, tests, house rules, licences, explorations, fuzz inputs
	@scripts/check format lint tested+clients test+explore

# Clients and suites that others wrote, and Python with what its tests need, as far as they can be had.
clients:
	@scripts/clients
	@scripts/python

# The tested program: built with the tests, because the features of its dependencies depend on the other packages.
tested: toolchain
	$(RUN_TESTS) --no-run --workspace --locked $(TARGETS) $(BUGS)

wheel: toolchain ## build the Python wheel, install it into an environment of its own, and run its tests
	scripts/python wheel

format: ## check that every file is formatted by rustfmt
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check

lint: ## run clippy, warnings as errors
	cargo clippy --workspace --all-targets --locked -- -D warnings

tidy: toolchain ## check the house rules and the licences of dependencies
	cargo test --locked -p seekless-tidy

agree: build tested ## check that a tested and a release build print the same bytes
	@for build in debug release; do \
		"$(CARGO_TARGET_DIR)/$$build/seekless" lab compare --trace data/svnserver2 --json > "$(CARGO_TARGET_DIR)/$$build.json" || exit 1; \
	done
	cmp "$(CARGO_TARGET_DIR)/debug.json" "$(CARGO_TARGET_DIR)/release.json"

explore: tested ## explore hundreds of thousands of crash states of the layers with data
	scripts/explore "$(TESTED)" "$(CARGO_TARGET_DIR)/explore"
	"$(CARGO_TARGET_DIR)/debug/promises" --check

figures: toolchain ## compare the figures in README, book, decisions and docs/papers.md with their commands; takes an hour
	SEEKLESS_FIGURES=all cargo test --workspace --locked $(BUGS) --test pages figures -- --nocapture

canaries: toolchain ## check that the tests find each known bug of a build with canaries
	cargo test --workspace --locked $(BUGS) --test canaries -- --nocapture

promises: tested ## explore, and write PROMISES.md with the figures
	scripts/explore "$(TESTED)" tests/promises/figures
	"$(CARGO_TARGET_DIR)/debug/promises"

mutants: toolchain ## count the known bugs that explorations find; takes hours
	cargo build --release --locked -p seekless --features mutants --target-dir "$(CARGO_TARGET_DIR)/mutants"
	scripts/mutants "$(CARGO_TARGET_DIR)/mutants/release/seekless" "$(CARGO_TARGET_DIR)/mutants/found"
	cp "$(CARGO_TARGET_DIR)/mutants/found/score" tests/promises/figures/mutants.tsv

fuzz: toolchain-check ## fuzz every reader of foreign data, FOR=5 seconds each
	scripts/fuzz $(or $(FOR),5)

bench: toolchain ## measure speed
	cargo build --release --locked -p seekless-lab --example bench --example check_bench --example plan_bench --example freeblock_bench -p seekless-layers --example mapper_bench --example cache_bench --example map_bench --example recovery -p seekless-trace --features seekless-trace/parquet --example trace_bench
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/bench"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/mapper_bench"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/cache_bench"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/map_bench"
	"$(CARGO_TARGET_DIR)/release/examples/recovery"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/check_bench"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/plan_bench"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/freeblock_bench"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/trace_bench"
	@scripts/clients
	cargo build --release --locked -p seekless
	cargo build --release --locked -p seekless-serve --example nbd_bench --example fio_bench --example sums_bench --example file_bench --example allocations
	"$(CARGO_TARGET_DIR)/release/examples/allocations"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/nbd_bench"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/fio_bench"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/sums_bench"
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/file_bench"
	scripts/emulated "$(CARGO_TARGET_DIR)/release/seekless"

# The engine that runs modules takes minutes to build: a feature, and not part of `check`.
wasm: toolchain ## test functions as WebAssembly modules, and measure a call
	scripts/functions --check
	cargo clippy --locked -p seekless-layers -p seekless --all-targets --features seekless-layers/wat,seekless/wasm -- -D warnings
	cargo test --locked -p seekless-layers --features wat --lib -- function:: registry::
	cargo test --locked -p seekless --features wasm --test functions
	cargo build --release --locked -p seekless-layers --features wasm --example function_bench
	taskset -c 0 "$(CARGO_TARGET_DIR)/release/examples/function_bench"

soak: toolchain-check build agree ## run property tests with 20,000 cases, a sweep of 1,000 tasks, fuzzing, crash states of new seeds, FOR=8h, and known bugs
	PROPTEST_CASES=20000 cargo test --workspace --locked $(BUGS)
	SEEKLESS_KILLS=50 SEEKLESS_STEPS=5000 cargo test --workspace --locked $(BUGS) --test clients file_systems
	SEEKLESS_STATES=3000 SEEKLESS_XFS=1000 cargo test --workspace --locked $(BUGS) --test file_systems -- --nocapture
	@scripts/clients browser
	cargo test --workspace --locked $(BUGS) --test clients browser -- --nocapture
	SEEKLESS_WATCH=3600 cargo test --workspace --locked $(BUGS) --test clients a_page_that_is_watched -- --nocapture
	SEEKLESS_LONG=all cargo test --workspace --locked $(BUGS) --test pages printed -- --nocapture
	SEEKLESS_FITS=50 cargo test --workspace --locked $(BUGS) --test fit_drawn -- --nocapture
	scripts/sweep "$(CARGO_TARGET_DIR)/release/seekless"
	scripts/python wheel
	$(MAKE) --no-print-directory wasm
	scripts/fuzz 600
	scripts/outside "$(CARGO_TARGET_DIR)/outside"
	@if command -v cargo-deny >/dev/null; then cargo deny check advisories; else echo "soak: no cargo-deny here, advisories are not looked up"; fi
	scripts/explore "$(CARGO_TARGET_DIR)/release/seekless" "$(CARGO_TARGET_DIR)/soak" $(or $(FOR),8h)
	$(MAKE) --no-print-directory mutants | tee "$(CARGO_TARGET_DIR)/soak/mutants"
	echo "$$(date -u +%FT%TZ) $$(tail -n 1 "$(CARGO_TARGET_DIR)/soak/mutants")" >>"$(CARGO_TARGET_DIR)/soak/record"

toolchain: checkout
	@scripts/toolchain

toolchain-check: checkout
	@scripts/toolchain --check

# Checkouts share a cache, and cargo detects changes by modification times: files of this checkout that are older
# than the build of another one would count as built. So they are touched when the checkout changes.
checkout:
	@mkdir -p "$(CARGO_TARGET_DIR)"
	@if [ "$$(cat "$(CARGO_TARGET_DIR)/.checkout" 2>/dev/null)" != "$(CURDIR)" ]; then \
		git ls-files -z 2>/dev/null | xargs -0 touch -c; \
		echo "$(CURDIR)" > "$(CARGO_TARGET_DIR)/.checkout"; \
	fi
