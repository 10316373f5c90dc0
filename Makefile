# setup      make or refresh .venv
# quickstart run the main job: a real model over a real table
# test       everything, with real Ray, vLLM and model
# check      lint, types, import rules, docs
# bench      the executor against raw vLLM, a ratio (a quarter of an hour)
# docs       the pages, in docs/_build/html
# fast       the tests that need neither Ray nor vLLM

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MANIFESTS := pyproject.toml core/pyproject.toml entrypoints/pyproject.toml \
	plugins/anyscale/pyproject.toml plugins/databricks/pyproject.toml \
	constraints.txt overrides.txt

# Wheels on this machine, where the caller names some; else torch's CPU build.
export UV_FIND_LINKS := $(PIP_FIND_LINKS)
TORCH := $(if $(PIP_FIND_LINKS),,--torch-backend cpu)

.PHONY: setup quickstart test fast check docs bench format clean
.DELETE_ON_ERROR:

setup: $(READY)

$(READY): $(MANIFESTS)
	@$(PYTHON) docs/check_platform.py
	@test -x $(BIN)/uv || { $(PYTHON) -m venv --clear $(VENV) \
		&& $(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' constraints.txt)"; }
	@echo "installing into $(VENV) (about half a minute from a warm cache)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode $(TORCH) \
		--constraints constraints.txt --overrides overrides.txt \
		--editable "core[tables,solver,testing]" \
		--editable "plugins/anyscale[executor-cpu,jobs]" \
		--editable plugins/databricks --editable entrypoints \
		--group dev
	@touch $@

quickstart: setup
	@$(BIN)/python docs/quickstart.py

test: setup
	$(BIN)/python -m pytest

fast: setup
	$(BIN)/python -m pytest --ignore tests/e2e --ignore tests/anyscale/executor \
		--ignore tests/emulators/test_anyscale_nodes.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/sphinx-build -q -n -W -E -b html docs docs/_build/html

docs: setup
	$(BIN)/sphinx-build -q -n -W -b html docs docs/_build/html
	@echo docs/_build/html/index.html

bench: setup
	$(BIN)/python tests/benchmarks/executor.py

format: setup
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) quickstart
