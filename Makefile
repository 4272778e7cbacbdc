# How prs is built, tested and shown. `make` alone lists the targets.
# Every target installs what it needs: Python packages into .venv, cargo-deny where cargo keeps its programs.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
# Flags for every cargo command; CI sets --locked.
CARGO_FLAGS ?=
# What `make bench` runs and how often.
BENCH ?= W1 W2 W3 W4 W5 W6 W7 W8 W9 W10 W11
REPEAT ?= 3
BENCH_FLAGS ?=

VENV := $(CURDIR)/.venv
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
DEBUG := $(TARGET)/debug
RELEASE := $(TARGET)/release
DEMO := $(TARGET)/demo
STEP := ops/step
CARGO_TEST = env PRS_TEST_PYTHON="$(VENV)/bin/python" PRS_TEST_BIN_DIR="$(DEBUG)" cargo test -p prs-tests $(CARGO_FLAGS)
WHEELS := $(TARGET)/wheels
NOW := $(shell date -u +%Y%m%dT%H%M%SZ)
PYTHON_SOURCES := $(wildcard python examples bench tests ops/wheel) ops/check-dependencies ops/compose-smoke \
	ops/grafana/make-dashboard ops/test-mutations
# As `source .venv/bin/activate` would. Not for cargo: it would build the extension again for each environment.
IN_VENV := env VIRTUAL_ENV="$(VENV)" PATH="$(VENV)/bin:$$PATH"

.PHONY: help
help: ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r target text; do \
		printf '  make %-14s %s\n' "$$target" "$$text"; done

.PHONY: build
build: ## build the programs and the extension in release into target/release
	cargo build --release -p prs-producer -p prs-python $(CARGO_FLAGS)

.PHONY: man
man: build ## write the pages of the manual into target/man
	$(RELEASE)/prs man $(TARGET)/man

# No tests, none of the features of prs, no optimisation: what the demo waits for is Python's.
.PHONY: demo demo-time demo-build
demo: demo-time demo-build $(VENV)/.digits ## build what the digits example needs, run it, show its result
	$(IN_VENV) examples/run digits $(DEMO) prs-runs/demo-$(NOW)

demo-build:
	cargo build --profile demo --no-default-features -p prs-producer -p prs-python $(CARGO_FLAGS)
	@echo "built without S3, fleet, server and Parquet: make build has all"

demo-time:
	@echo "builds prs for the demo and runs it: about 3 minutes of processor time the first time, seconds from then on"

# auditwheel finds the oldest glibc that the programs run with and puts it into the name of the wheel.
.PHONY: wheel
wheel: $(VENV)/.wheel ## build the wheel prs-run in release into target/wheels
	rm -rf $(WHEELS)
	$(VENV)/bin/python -m hatchling build --target wheel --directory $(WHEELS)/linux
	$(IN_VENV) auditwheel repair --wheel-dir $(WHEELS) $(WHEELS)/linux/*.whl
	rm -r $(WHEELS)/linux
	@echo "install it: pip install $(WHEELS)/$$(ls $(WHEELS))"

# Unit tests come first, what takes long comes last.
.PHONY: test
test: test-unit test-rust test-python test-some-corpus test-wheel test-manifests test-examples test-demo test-bench ## every test that CI runs

.PHONY: test-build
test-build: $(VENV)/.dev
	$(STEP) build cargo build --workspace $(CARGO_FLAGS)

.PHONY: test-unit
test-unit: $(VENV)/.dev servers
	PRS_TEST_PYTHON="$(VENV)/bin/python" $(STEP) unit cargo test --workspace --lib --bin prs --test pandas $(CARGO_FLAGS)

# One test program for each of them, which tests/src/lib.rs describes. Tests in modules called `alone` measure time or fill
# the machine; all others wait most of the time, and run side by side.
.PHONY: test-rust
test-rust: test-build servers
	$(STEP) test-programs $(CARGO_TEST) --no-run
	$(STEP) embedded $(CARGO_TEST) --test embedded -- --test-threads 8 --skip alone::
	$(STEP) servers $(CARGO_TEST) --test servers -- --test-threads 10 --skip alone::
	$(STEP) fleet $(CARGO_TEST) --test fleet -- --test-threads 6 --skip alone::
	$(STEP) serve $(CARGO_TEST) --test serve -- --test-threads 10 --skip alone::
	$(STEP) alone $(CARGO_TEST) --no-fail-fast --test embedded --test servers --test fleet --test serve -- --test-threads 1 alone::
	$(STEP) cost $(CARGO_TEST) --test cost
	$(STEP) fuzz env PRS_FUZZ_SECONDS="$${PRS_FUZZ_SECONDS:-5}" $(CARGO_TEST) --test fuzz
	$(STEP) chaos $(CARGO_TEST) --test chaos -- --test-threads 6

# A failing input is saved and printed with the command that tries it again; it belongs into tests/tests/fuzz/regressions.rs.
.PHONY: fuzz
fuzz: ## try what reads foreign bytes on made-up inputs, PRS_FUZZ_SECONDS each [600], from PRS_FUZZ_SEED [any]
	@seed="$${PRS_FUZZ_SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"; \
	echo "PRS_FUZZ_SEED=$$seed"; \
	PRS_FUZZ_SEED="$$seed" PRS_FUZZ_SECONDS="$${PRS_FUZZ_SECONDS:-600}" \
		cargo test -p prs-tests --test fuzz $(CARGO_FLAGS) -- --nocapture

# Everything that may die dies, several times each; the fixed seeds make a failure come again. docs/reliability.md tells more.
.PHONY: chaos
chaos: test-build servers ## every chaos scenario, PRS_CHAOS_ROUNDS [3] each, PRS_CHAOS_DISTANCE=1 from afar; PRS_DAMAGE_ROUNDS [1000] flipped bits
	PRS_CHAOS_ROUNDS="$${PRS_CHAOS_ROUNDS:-3}" $(CARGO_TEST) --test chaos -- --ignored --test-threads 1 --skip the_long_run --skip over_minio
	PRS_DAMAGE_ROUNDS="$${PRS_DAMAGE_ROUNDS:-1000}" $(CARGO_TEST) --test chaos -- damage::

# Not part of `make test`, which plays 25 of them.
.PHONY: test-foreign-trees
test-foreign-trees: test-build servers ## PRS_FOREIGN_RUNS [500] runs with links, mounts and files of others at every path
	PRS_FOREIGN_RUNS="$${PRS_FOREIGN_RUNS:-500}" $(CARGO_TEST) --test embedded -- foreign_trees::

# By hand: what it found is in docs/reliability.md.
.PHONY: long-run
long-run: test-build servers ## job after job under PRS_LONG_RUN_KILLS [1000] kills -9, restarts and wipes of servers
	$(CARGO_TEST) --test chaos -- --ignored --nocapture the_long_run

# Not part of `make test`: MinIO is built with Go, once, which takes some minutes.
.PHONY: test-minio
test-minio: test-build servers ## the storage suite and a selection of chaos over MinIO, built from its Go module
	ops/minio/install "$(TARGET)/minio"
	PRS_TEST_MINIO="$(TARGET)/minio" $(CARGO_TEST) --test servers --test chaos -- --ignored --nocapture minio

# Not part of `make test`: all of prs is built a second time, with a fault for each rule in it.
.PHONY: test-mutations
test-mutations: $(VENV)/.dev ## the faults of tests/mutations, each of which a test has to see: all, or those of ROWS="E7 S9"
	PRS_TEST_PYTHON="$(VENV)/bin/python" CARGO_FLAGS="$(CARGO_FLAGS)" \
		$(VENV)/bin/python ops/test-mutations --work-dir "$(TARGET)/mutations" $(ROWS)

# Not part of `make test`: it installs Polars, DuckDB and fastparquet, and writes and reads gigabytes.
.PHONY: test-corpus
test-corpus: test-build $(VENV)/.corpus ## files that others write, PRS_CORPUS_SEEDS [20] times some, from PRS_CORPUS_SEED [any], and PRS_CORPUS_ROWS [30000000] rows
	rm -rf "$(TARGET)/corpus"
	@seed="$${PRS_CORPUS_SEED:-$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}"; \
	echo "PRS_CORPUS_SEED=$$seed"; \
	$(VENV)/bin/python tests/corpus/corpus.py "$(DEBUG)/prs" "$(TARGET)/corpus" --seed "$$seed" \
		--seeds "$${PRS_CORPUS_SEEDS:-20}" --rows "$${PRS_CORPUS_ROWS:-30000000}"
	rm -rf "$(TARGET)/corpus"

# The same seeds each time; `make test-corpus` tries others.
.PHONY: test-some-corpus
test-some-corpus: test-build $(VENV)/.corpus
	rm -rf "$(TARGET)/corpus"
	$(STEP) corpus $(VENV)/bin/python tests/corpus/corpus.py "$(DEBUG)/prs" "$(TARGET)/corpus" --seed 1 --seeds 4
	rm -rf "$(TARGET)/corpus"

# Tests of a file share servers, and stay together; most of the time they wait.
.PHONY: test-python
test-python: test-build servers
	PRS_PROCESS_EXTENSION="$(DEBUG)/libprs_process.so" $(IN_VENV) $(STEP) python python -m pytest -q -n 4 --dist loadfile python/tests

.PHONY: test-wheel
test-wheel: test-build
	PRS_TEST_BIN_DIR="$(DEBUG)" $(STEP) wheel $(VENV)/bin/python -m pytest -q tests/wheel

# The files of ops/kubernetes against the schemas of the API, and the dashboard; `test-kubernetes` also puts the former together,
# and lets Prometheus read the alerts and the latter.
.PHONY: test-manifests
test-manifests: test-build
	PRS_TEST_BIN_DIR="$(DEBUG)" $(STEP) manifests \
		$(VENV)/bin/python -m pytest -q tests/kubernetes/test_manifests.py tests/operations/test_dashboard.py

# Not part of `make test`: it wants promtool, and Go, which builds kustomize and the check of the dashboard once.
.PHONY: test-kubernetes
test-kubernetes: test-build ## ops/kubernetes as kustomize puts it together; alerts as Prometheus sees them; the dashboard as it and Grafana do
	@command -v promtool >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -q && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends prometheus; } || \
		{ echo "the alerts are tested with promtool, which is not here: install prometheus" >&2; exit 1; }
	ops/kubernetes/install-kustomize "$(TARGET)/kustomize"
	ops/grafana/install-check "$(TARGET)/grafana"
	PRS_TEST_KUSTOMIZE="$(TARGET)/kustomize/kustomize" PRS_TEST_GRAFANA="$(TARGET)/grafana/grafana-check" PRS_TEST_BIN_DIR="$(DEBUG)" \
		$(VENV)/bin/python -m pytest -q tests/kubernetes tests/operations

# Not part of `make test`: it builds Kubernetes with Go, once, which takes some minutes.
.PHONY: test-control-plane
test-control-plane: test-build servers ## ops/kubernetes in a control plane of Kubernetes, built from its Go modules; its pods by hand
	ops/kubernetes/install-control-plane "$(TARGET)/control-plane"
	PRS_TEST_CONTROL_PLANE="$(TARGET)/control-plane" PRS_TEST_BIN_DIR="$(DEBUG)" \
		$(VENV)/bin/python -m pytest -q tests/control_plane

# Not part of `make test`: all of prs is built a second time, with the feature.
.PHONY: test-traces
test-traces: test-build servers ## spans for OpenTelemetry, from programs with the feature otel
	cargo build -p prs-producer --features otel $(CARGO_FLAGS)
	mkdir -p "$(TARGET)/otel"
	cp "$(DEBUG)/prs" "$(DEBUG)/prs-worker" "$(DEBUG)/prs-producer" "$(DEBUG)/libprs_process.so" "$(TARGET)/otel"
	cargo build --workspace $(CARGO_FLAGS)
	cargo test -p prs-common --features otel --lib $(CARGO_FLAGS) traces
	PRS_TEST_PYTHON="$(VENV)/bin/python" PRS_TEST_BIN_DIR="$(TARGET)/otel" \
		cargo test -p prs-tests --test fleet $(CARGO_FLAGS) -- --ignored traces::

# Not part of `make test`: the programs are built a second time, with the feature.
.PHONY: test-oidc
test-oidc: test-build ## signing in with an identity provider, at a server with the feature oidc
	cargo build -p prs-producer --features oidc $(CARGO_FLAGS)
	mkdir -p "$(TARGET)/oidc"
	cp "$(DEBUG)/prs" "$(DEBUG)/prs-worker" "$(DEBUG)/prs-producer" "$(DEBUG)/libprs_process.so" "$(TARGET)/oidc"
	cargo build --workspace $(CARGO_FLAGS)
	cargo test -p prs-server --features oidc --lib $(CARGO_FLAGS) oidc
	PRS_TEST_PYTHON="$(VENV)/bin/python" PRS_TEST_BIN_DIR="$(TARGET)/oidc" \
		cargo test -p prs-tests --test serve $(CARGO_FLAGS) -- --ignored oidc::

# What the demo's build runs, and what it says of all that it lacks. It is also what checks the code without features.
.PHONY: test-demo
test-demo: $(VENV)/.dev ## the build that `make demo` makes
	$(STEP) demo-build env -u RUSTC_WORKSPACE_WRAPPER ops/without-warnings $(MAKE) --no-print-directory demo-build
	PRS_TEST_DEMO_BIN_DIR="$(DEMO)" $(STEP) demo $(VENV)/bin/python -m pytest -q tests/demo

.PHONY: check-features
check-features: ## check the program with each of its features alone
	@for feature in s3 fleet serve parquet; do \
		echo "cargo check -p prs-producer --no-default-features --features '$$feature'"; \
		cargo check -p prs-producer --no-default-features --features "$$feature" $(CARGO_FLAGS); \
	done

# Not part of `make test`: it wants a browser, and npm for one file. Pictures of pages are kept in $(TARGET)/look the first time and
# compared from then on; PRS_TEST_LOOK_KEEP=1 keeps them anew.
.PHONY: test-portal
test-portal: test-build servers ## the pages of prs serve in Chromium: what people do there, axe-core on every page, valid HTML
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -q && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; } || \
		{ echo "the pages are tested in chromium, which is not here: install it" >&2; exit 1; }
	$(VENV)/bin/pip install -q "playwright>=1.60,<2" "pillow>=11,<13"
	test -f "$(TARGET)/axe/package/axe.min.js" || { mkdir -p "$(TARGET)/axe" && cd "$(TARGET)/axe" && \
		npm pack --silent axe-core@4.14.1 && tar xzf axe-core-4.14.1.tgz; }
	test -f "$(TARGET)/vnu/package/build/dist/vnu.jar" || { mkdir -p "$(TARGET)/vnu" && cd "$(TARGET)/vnu" && \
		npm pack --silent vnu-jar && tar xzf vnu-jar-*.tgz; }
	PRS_TEST_BIN_DIR="$(DEBUG)" PRS_TEST_CHROMIUM="$$(command -v chromium)" PRS_TEST_AXE="$(TARGET)/axe/package/axe.min.js" \
		PRS_TEST_VNU="$(TARGET)/vnu/package/build/dist/vnu.jar" PRS_TEST_LOOK="$(TARGET)/look" \
		$(VENV)/bin/python -m pytest -q tests/portal

# Not part of `make test`: it takes minutes, and packages of its own.
.PHONY: test-api
test-api: test-build servers $(VENV)/.api ## every address of prs serve, of a folder and of a fleet, by schemathesis, for each role, PRS_API_EXAMPLES [10] requests each
	PRS_TEST_BIN_DIR="$(DEBUG)" $(VENV)/bin/python -m pytest -q tests/api

.PHONY: test-examples
test-examples: test-build servers
	$(IN_VENV) $(STEP) digits examples/run digits $(DEBUG) prs-runs/test-$(NOW)-digits
	$(IN_VENV) $(STEP) iris examples/run iris $(DEBUG) prs-runs/test-$(NOW)-iris
	PRS_TEST_BIN_DIR="$(DEBUG)" $(STEP) examples $(VENV)/bin/python -m pytest -q examples

# Tiny sizes: that the benchmarks work and their rows are right, not how fast anything is.
.PHONY: test-bench
test-bench: test-build servers
	$(IN_VENV) $(STEP) bench python bench/run.py W1 W2 W3 W4 W5 W6 W7 W8 W9 W10 W11 W12 --size tiny --repeat 1 --bin-dir $(DEBUG) --work-dir $(TARGET)/bench

# Not part of `make test`: it wants root, and takes some minutes and gigabytes.
.PHONY: compose-smoke
compose-smoke: test-build ## run docker-compose.yml for real, with images made of Debian's packages
	ops/compose-smoke --programs $(DEBUG)

.PHONY: lint lint-text
lint: lint-text ## formatting, dependency rules, ruff, types, clippy, docs
	$(STEP) clippy cargo clippy --workspace --all-targets $(CARGO_FLAGS) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(STEP) docs cargo doc --workspace --no-deps $(CARGO_FLAGS)
	@echo "lint passed; make audit checks licences in full and looks up known vulnerabilities, which needs the network"

lint-text: $(VENV)/.dev
	$(STEP) format cargo fmt --all --check
	$(STEP) rules ops/check-dependencies
	$(STEP) ruff $(VENV)/bin/ruff check $(PYTHON_SOURCES)
	$(STEP) ruff-format $(VENV)/bin/ruff format --check $(PYTHON_SOURCES)
	$(STEP) types $(VENV)/bin/mypy

# Not part of `make lint`: each builds half of the workspace once more.
.PHONY: lint-features
lint-features: ## clippy for the features that no default has, and without any
	cargo clippy -p prs-producer --no-default-features $(CARGO_FLAGS) -- -D warnings -A clippy::pedantic
	cargo clippy -p prs-common --all-targets --features otel $(CARGO_FLAGS) -- -D warnings
	cargo clippy -p prs-server --all-targets --features oidc $(CARGO_FLAGS) -- -D warnings

.PHONY: audit
audit: cargo-deny ## licences, sources and known vulnerabilities of all crates (fetches the RustSec database)
	cargo deny $(CARGO_FLAGS) check

.PHONY: bench
bench: build bench-helpers servers $(VENV)/.examples ## measure against peers: make bench BENCH="W1" REPEAT=5
	$(IN_VENV) python bench/run.py $(BENCH) --repeat $(REPEAT) --bin-dir $(RELEASE) --work-dir $(TARGET)/bench \
		$(BENCH_FLAGS)

# Servers and clients around what is measured: fast enough without optimisation across crates, which takes minutes.
.PHONY: bench-helpers
bench-helpers:
	cargo build --profile helpers -p prs-tests --bins $(CARGO_FLAGS)
	mkdir -p $(RELEASE)
	for name in broker-ceiling fleet-servers s3-server server-load simulated-jobs; do \
		cp $(TARGET)/helpers/$$name $(RELEASE)/; done

.PHONY: bench-peers
bench-peers: $(VENV)/.peers ## install Ray, Dask, Daft, Celery and boto3, so that make bench measures them too

.PHONY: install-deps
install-deps: ## install what the other targets need
	$(STEP) install $(MAKE) --no-print-directory $(VENV)/.dev servers

.PHONY: nightly
nightly: lint lint-features check-features audit test ## all that CI leaves out, some hours
	PRS_FUZZ_SECONDS=300 $(MAKE) fuzz
	$(MAKE) chaos test-foreign-trees test-mutations test-corpus test-minio test-kubernetes test-control-plane test-traces test-oidc test-portal test-api compose-smoke

.PHONY: clean
clean: ## remove everything that was built or installed here, but no run
	cargo clean
	rm -rf $(VENV) examples/digits/data examples/iris/data
	rm -f examples/digits/code/digits_model.npz examples/iris/code/iris_model.json

# The virtual environment. A stamp per set of packages, so that a repeated run has nothing to do.
$(VENV)/bin/python:
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
		[ "$$(id -u)" = 0 ] || { echo "$(PYTHON) cannot make virtual environments: install python3-venv" >&2; exit 1; }; \
		apt-get update -q && apt-get install -y -q python3-venv; \
	fi
	$(PYTHON) -m venv $(VENV)

# Compiled by Python itself when imported, and no more of it.
$(VENV)/.digits: examples/digits/requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install -q --no-compile -r examples/digits/requirements.txt
	@touch $@

$(VENV)/.examples: examples/requirements.txt examples/digits/requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install -q -r examples/requirements.txt
	@touch $@

$(VENV)/.wheel: ops/requirements-wheel.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install -q -r ops/requirements-wheel.txt
	@touch $@

$(VENV)/.dev: ops/requirements-dev.txt ops/requirements-wheel.txt examples/requirements.txt examples/digits/requirements.txt python/tests/requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install -q -r ops/requirements-dev.txt
	@touch $@ $(VENV)/.digits $(VENV)/.examples $(VENV)/.wheel

$(VENV)/.api: ops/requirements-api.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install -q -r ops/requirements-api.txt
	@touch $@

$(VENV)/.corpus: tests/corpus/requirements.txt $(VENV)/.dev
	$(VENV)/bin/pip install -q -r tests/corpus/requirements.txt
	@touch $@

$(VENV)/.peers: bench/requirements-peers.txt $(VENV)/.examples
	$(VENV)/bin/pip install -q -r bench/requirements-peers.txt
	@touch $@

# The servers that tests start for themselves, on ports of their own, what shifts the clock of a program, and what gives one a
# mount namespace. A package may start a service of the system as well, which no test touches.
.PHONY: servers
servers:
	@missing=; \
	command -v redis-server >/dev/null || missing="$$missing redis-server"; \
	command -v openssl >/dev/null || missing="$$missing openssl"; \
	command -v bwrap >/dev/null || missing="$$missing bubblewrap"; \
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || command -v rabbitmq-server >/dev/null || missing="$$missing rabbitmq-server"; \
	ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || missing="$$missing faketime"; \
	[ -z "$$missing" ] && exit 0; \
	[ "$$(id -u)" = 0 ] || { echo "tests need programs that are not here: install$$missing" >&2; exit 1; }; \
	apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q $$missing

# Built from source once (some minutes) where it is missing.
.PHONY: cargo-deny
cargo-deny:
	@cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny@0.20.2
