# make run: start the service on PORT.  make test: the checks of every change.  Both install what they need.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENTS := build/clients
PORT ?= 8000
MINUTES ?= 60
SOURCES := app calibration headroom_client migrations tests benchmarks artefacts
EXTRAS := --extra export --extra jwt --extra mcp --extra nebius --extra otel --extra postgres
PYTEST := $(BIN)/pytest --numprocesses auto --dist worksteal
PIP_INSTALL := python -m pip install --quiet --disable-pip-version-check
PIP_COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header
# The tests start many processes: none compiles a module that another has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-fast test-all test-docs test-traced test-page test-clients explore lint mutants instantiate trace-grid bench artefacts accuracy changelog format lock sbom audit clean

run: $(VENV)/.run
	@$(BIN)/headroom prepare
	@exec $(BIN)/headroom serve --port $(PORT)

# Everything but the slow sweeps, under six minutes on two cores.
test: $(VENV)/.dev
	$(MAKE) --jobs 2 lint test-fast

test-fast: $(VENV)/.dev
	$(PYTEST) -m "not slow and not torch and not page and not clients"

# What CI runs: the slow sweeps too, and what needs PyTorch, a browser or Node.js. The parts that use one core each run
# side by side, after everything is installed.
test-all: $(VENV)/.trace $(VENV)/.page $(CLIENTS)/.ready
	$(MAKE) --jobs 2 --output-sync=target test-page lint test-traced test-clients
	$(PYTEST) -m "not torch and not page and not clients"

# The checks that a change of documents alone can break.
test-docs: $(VENV)/.dev
	$(PYTEST) tests/test_documents.py tests/test_language.py tests/test_house.py

lint: $(VENV)/.dev
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Property tests on new random examples for MINUTES; a failure prints its example and the seed of its round.
explore: $(VENV)/.dev
	$(BIN)/python -m tests.explore $(MINUTES)

# Changes one expression at a time and runs the tests of its room: make mutants ROOM=decisions SAMPLE=200.
# Fails if the tests catch fewer than 90 % of a room's changes or miss a planted one.
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants $(ROOM) $(if $(SAMPLE),--sample $(SAMPLE))

# Time of answers as ratios to an idle endpoint; with AGAINST=HEAD~1, in turn with another revision.
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(if $(AGAINST),--against $(AGAINST))

# Regenerates every generated file that is out of date: fitted factors, accuracy pages and plots, formula pages, API
# examples, the answers that documents show. PART=factors (accuracy, engine, ...) makes one part only.
artefacts: $(VENV)/.dev
	$(BIN)/python -m artefacts $(PART)

# Compares predictions with every published result, each source predicted by a fit that never saw it. Fails if an error,
# an interval score or a share of pairs in the wrong order rose by a tenth, or if the intervals hold fewer than 70 % or
# more than 90 % of the results.
accuracy: $(VENV)/.dev
	$(BIN)/python -m calibration
	$(BIN)/python -m benchmarks.accuracy

# Moves the fragments of changelog.d into CHANGELOG.md under a release: make changelog VERSION=0.4.0.
changelog: $(VENV)/.dev
	$(BIN)/python -m artefacts.changelog $(VERSION)

format: $(VENV)/.dev
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

# Needs PyTorch: traces training steps, counts reference configurations on instantiated models, and reads and starts the
# files of a hand-off with the tools that they are for.
test-traced: $(VENV)/.trace
	$(BIN)/pytest -m torch

# Needs Chromium and its driver (Debian: chromium, chromium-driver): tests the page in a headless browser.
test-page: $(VENV)/.page
	$(BIN)/pytest -m page tests/page

# Needs Node.js and npm: generates clients from the OpenAPI document as docs/client.md describes, and tests them.
test-clients: $(CLIENTS)/.ready
	$(BIN)/pytest -m clients tests/generated_clients

# Traces the whole grid of training steps again: tests/reference/traced_memory.csv, the reference of make test.
trace-grid: $(VENV)/.trace
	$(BIN)/python -m calibration.tracing grid

# Counts the reference configurations of tests/reference again, on models of the transformers library.
instantiate: $(VENV)/.trace
	$(BIN)/python -m tests.reference.instantiate

# Bill of materials of the packages of the image, with versions, licenses and what requires what, as validated CycloneDX:
# build/sbom.json. It describes a fresh environment of the lock file, whose hashes pip checks; CONTRIBUTING.md signs it.
sbom: $(VENV)/.supply
	$(PYTHON) -m venv --clear build/service
	build/service/bin/$(PIP_INSTALL) --require-hashes -r requirements/service.lock
	$(BIN)/cyclonedx-py environment build/service/bin/python --pyproject pyproject.toml --output-reproducible --validate --of JSON -o build/sbom.json

# Known vulnerabilities of the locked packages. Asks an advisory service, so it needs the network; not part of make test.
audit: $(VENV)/.supply
	$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements/service.lock || { echo "Known vulnerabilities are listed above. If none is listed, no advisory service knew the packages and they were not checked."; exit 1; }

# The lock files name exact versions with hashes and no index host: runtime.lock for `make run`, service.lock with every
# extra but parquet for the image, dev.lock for the tests, build.lock for what builds the package, compiler.lock for a C compiler where the machine has none.
lock:
	$(PIP_COMPILE) pyproject.toml --extra export --extra jwt --extra mcp -o requirements/runtime.lock
	$(PIP_COMPILE) pyproject.toml $(EXTRAS) -o requirements/service.lock
	$(PIP_COMPILE) pyproject.toml $(EXTRAS) --extra parquet --extra dev -o requirements/dev.lock
	for name in trace page supply; do $(PIP_COMPILE) requirements/$$name.in -c requirements/dev.lock -o requirements/$$name.lock; done
	for name in build compiler clients; do $(PIP_COMPILE) requirements/$$name.in -o requirements/$$name.lock; done
	npm install --prefix tests/generated_clients --package-lock-only

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis headroom.sqlite3*

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headroom needs Python 3.11 or later. Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/build.lock requirements/compiler.lock requirements/runtime.lock pyproject.toml | $(BIN)/python
	$(BIN)/$(PIP_INSTALL) --require-hashes -r requirements/build.lock -r requirements/runtime.lock
	$(BIN)/$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@for name in cc gcc clang; do command -v $$name && exit; done > /dev/null || { echo "No C compiler found: installing one from a wheel."; \
	$(BIN)/$(PIP_INSTALL) --require-hashes -r requirements/compiler.lock; } || echo "None could be installed."
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.run
	$(BIN)/$(PIP_INSTALL) --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/.supply: requirements/supply.lock $(VENV)/.dev
	$(BIN)/$(PIP_INSTALL) --require-hashes -r requirements/supply.lock
	@touch $@

$(VENV)/.page: requirements/page.lock $(VENV)/.dev
	$(BIN)/$(PIP_INSTALL) --require-hashes -r requirements/page.lock
	@touch $@

$(VENV)/.trace: requirements/trace.lock requirements/torch.txt $(VENV)/.dev
	$(BIN)/$(PIP_INSTALL) --require-hashes --no-deps -r requirements/trace.lock
	$(BIN)/$(PIP_INSTALL) -r requirements/torch.txt
	@touch $@

$(CLIENTS)/.ready: requirements/clients.lock tests/generated_clients/package-lock.json $(VENV)/.dev
	$(PYTHON) -m venv $(CLIENTS)/python
	$(CLIENTS)/python/bin/$(PIP_INSTALL) --require-hashes -r requirements/clients.lock
	mkdir -p $(CLIENTS)/typescript
	cp tests/generated_clients/package.json tests/generated_clients/package-lock.json $(CLIENTS)/typescript
	npm ci --prefix $(CLIENTS)/typescript --no-audit --no-fund --ignore-scripts --loglevel=error
	@touch $@
