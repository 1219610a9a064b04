# Two commands for everyone: `make run` speaks, `make test` proves. Needs Python 3.10 to 3.12 with venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help run test lint format lock bench-hop clean

help: ## Show what there is.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/run.stamp ## Start Triton with the CPU voice and the gateway; Ctrl-C stops both.
	@exec $(BIN)/speech-gateway up

test: $(VENV)/test.stamp ## Run all tests, those on the real Triton included.
	$(BIN)/python -m pytest -m "triton or not triton"

lint: $(VENV)/test.stamp ## Check style, types and the format of the code.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/test.stamp ## Format the code.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-hop: $(VENV)/test.stamp ## Measure what the gateway adds to Triton, against a fake one.
	$(BIN)/python tests/bench/hop.py

lock: ## Resolve the versions anew (needs uv).
	uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --extra embedded --extra build \
	  pyproject.toml -o requirements.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --extra dev --extra build \
	  --constraint requirements.lock pyproject.toml -o tests/requirements.lock

clean: ## Remove the environment and what tools left.
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' || \
	  { echo "error: this is $$($(PYTHON) --version), the bundled Triton needs 3.10 to 3.12: make run PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "error: $(PYTHON) has no venv; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The project itself is installed without its dependencies: the lock has them all, with hashes.
$(VENV)/run.stamp: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) install --quiet --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/test.stamp: tests/requirements.lock $(VENV)/run.stamp
	$(PIP) install --quiet --require-hashes -r tests/requirements.lock
	@touch $@
