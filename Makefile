# make run: a service on PORT.  make test: everything CI checks.  Both set themselves up.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENTS := build/clients
PORT ?= 8000
SOURCES := app headroom_client migrations tests benchmarks artefacts

.PHONY: run test test-traced test-page test-clients mutants instantiate trace-grid bench artefacts accuracy format lock sbom audit clean

run: $(VENV)/.run
	@$(BIN)/headroom prepare
	@exec $(BIN)/headroom serve --port $(PORT)

test: $(VENV)/.dev
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n auto --dist worksteal

# The core with one thing wrong at a time against the tests of its room: make mutants ROOM=decisions. Fails where a
# room is below 90 %.
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants $(ROOM)

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# Everything that is generated: factors and predictions, accuracy page and plots, engine pages, examples of the API,
# what documents show of answers. What is current is left out; PART=factors (accuracy, engine, ...) makes one alone.
artefacts: $(VENV)/.dev
	$(BIN)/python -m artefacts $(PART)

# The engine against every published result, each source predicted by a fit that never saw it; fails where an error or
# an interval score rose by a tenth, or intervals hold fewer than 70 % or more than 90 %.
accuracy: $(VENV)/.dev
	$(BIN)/python -m app.calibration
	$(BIN)/python -m benchmarks.accuracy

format: $(VENV)/.dev
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

# What needs PyTorch: steps of training traced for real, reference configurations counted on instantiated models.
test-traced: $(VENV)/.trace
	$(BIN)/pytest -m torch

# What needs a browser: the page in a headless Chromium, which is asked for by apt-get install chromium chromium-driver.
test-page: $(VENV)/.page
	$(BIN)/pytest -m page tests/page

# What needs Node.js, which is asked for by apt-get install nodejs npm: clients that other programs generate from the
# OpenAPI document, as docs/client.md does it.
test-clients: $(CLIENTS)/.ready
	$(BIN)/pytest -m clients tests/generated_clients

# The whole grid of traced steps again: tests/reference/traced_memory.csv, which make test holds the formulas against.
trace-grid: $(VENV)/.trace
	$(BIN)/python -m app.calibration.tracing

# Counts the reference configurations of tests/reference again, on models of the transformers library.
instantiate: $(VENV)/.trace
	$(BIN)/python -m tests.reference.instantiate

# What the service is made of, with versions and hashes, as CycloneDX held to its schema: build/sbom.json. The same lock
# gives the same bytes.
sbom: $(VENV)/.supply
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible --validate --of JSON -o build/sbom.json

# Known weaknesses of what is locked. Asks an advisory service, so it needs the network and is no part of make test.
audit: $(VENV)/.supply
	$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements.lock || { echo "Known weaknesses are listed above; where none is, no advisory service knew the packages, and they were not checked."; exit 1; }

# The lock files name exact versions with hashes and no index host.
lock:
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -o requirements.lock
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -o requirements-dev.lock
	uv pip compile requirements-trace.in -c requirements-dev.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -o requirements-trace.lock
	uv pip compile requirements-page.in -c requirements-dev.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -o requirements-page.lock
	uv pip compile requirements-supply.in -c requirements-dev.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -o requirements-supply.lock
	uv pip compile requirements-clients.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -o requirements-clients.lock
	npm install --prefix tests/generated_clients --package-lock-only

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis headroom.sqlite3*

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

$(VENV)/.supply: requirements-supply.lock $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-supply.lock
	@touch $@

$(VENV)/.page: requirements-page.lock $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-page.lock
	@touch $@

$(CLIENTS)/.ready: requirements-clients.lock tests/generated_clients/package-lock.json $(VENV)/.dev
	$(PYTHON) -m venv $(CLIENTS)/python
	$(CLIENTS)/python/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-clients.lock
	mkdir -p $(CLIENTS)/typescript
	cp tests/generated_clients/package.json tests/generated_clients/package-lock.json $(CLIENTS)/typescript
	npm ci --prefix $(CLIENTS)/typescript --no-audit --no-fund --ignore-scripts --loglevel=error
	@touch $@

$(VENV)/.trace: requirements-trace.lock requirements-torch.txt $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-trace.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-torch.txt
	@touch $@
