# The commands that people and CI share. `make` alone lists them.
#   PYTHON=python3.12       which Python makes .venv (3.11 or newer)
#   LOCKLESS=1              install at the pinned versions without comparing hashes
#   TORCH_INDEX=URL         where torch comes from beside PyPI; empty for PyPI alone
.DEFAULT_GOAL := help
.PHONY: help up test soak lint gpu containers bench-detection bench-gate bench-nights chaos load lock reference sbom install-dev

ONCE ?=
# Not as many as cores: two leave a third of two cores idle, as tests wait for the real servers,
# databases and browsers that they start; more only take from these.
PYTEST_JOBS ?= 3
PYTEST_ARGS ?=
CHAOS_ARGS ?=
BIN := .venv/bin
# Hundreds of processes are started: the first keeps its bytecode for the others, whatever is set.
TESTS = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(PYTEST_JOBS) --dist worksteal

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

up: ## Install, start the service and a worker, measure the smoke suite, serve (ONCE=1: then stop)
	@scripts/install service,worker
	@$(BIN)/throughline up $(if $(filter-out 0,$(ONCE)),--once)

test: install-dev ## Install what tests need, then check style, types and contracts and run all tests but the long forms
	@scripts/chromium
	@scripts/compiler
	@scripts/lint
	$(TESTS) -m "not gpu and not slow" $(PYTEST_ARGS)

soak: install-dev ## Run the long forms of tests (12 minutes; `make test` runs the short ones)
	@scripts/chromium
	@scripts/compiler
	$(TESTS) -m "slow and not gpu" $(PYTEST_ARGS)

lint: install-dev ## Check style, types, import contracts, scripts and container files
	@scripts/lint

gpu: install-dev ## Run the tests that need a real NVIDIA GPU
	$(BIN)/python -m pytest -m gpu $(PYTEST_ARGS)

containers: ## Build the images and run the compose file for real with the engine at hand
	@containers/try.sh

bench-detection: install-dev ## Our change detection beside what others do (10 minutes; benchmarks/results/detection)
	@PYTHONPATH=.:tests $(BIN)/python -m trials.detection

bench-gate: install-dev ## Gates of equal and of slower revisions, with the noise of a GPU (2 minutes; benchmarks/results/gate)
	@PYTHONPATH=.:tests $(BIN)/python -m trials.gate

bench-nights: install-dev ## What the whole service tells of sixty simulated nights, and how soon (hours; benchmarks/results/nights)
	@PYTHONPATH=.:tests $(BIN)/python -m trials.nights

chaos: install-dev ## Kill, freeze, cut and set back everything; nothing may be lost (more than an hour; docs/reliability.md)
	@PYTHONPATH=.:tests $(BIN)/python -m trials.chaos all $(CHAOS_ARGS)

load: install-dev ## How much the service takes, on both databases, and its table in benchmarks/results/reliability (25 minutes)
	@PYTHONPATH=.:tests $(BIN)/python -m trials.load all
	@PYTHONPATH=.:tests $(BIN)/python -m trials.load table --write

lock: ## Write constraints.txt and requirements.lock (hashes) from what is installed in .venv
	@scripts/install dev
	@scripts/lock

reference: install-dev ## Write docs/reference/ from the texts of --help and the OpenAPI document
	@scripts/reference

sbom: install-dev ## Write bills of materials (CycloneDX) of service, worker and .venv into dist/
	@scripts/sbom

install-dev:
	@scripts/install dev
