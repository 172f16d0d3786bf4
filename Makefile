# One entry point for developers and CI. Every target sets up .venv by itself; nothing outside this folder is changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SOURCES = $(wildcard compacting_client tests examples bench cassettes)
# pyright comes with its JavaScript inside the wheel and node as a wheel; this keeps it from asking for newer versions.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-full check format bench cassettes clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP) ## A long chat and a tool loop through the real SDKs, with no key and no network
	@$(BIN)/python -m examples.demo

test: $(STAMP) ## The fast tests
	@$(BIN)/python -m pytest

test-full: $(STAMP) ## All tests, the whole recorded traffic included, on every core
	@$(BIN)/python -m pytest -m "full or not full" -n auto

check: $(STAMP) ## Lint, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(SOURCES)
	@$(BIN)/pyright --pythonpath $(BIN)/python

format: $(STAMP) ## Apply the formatter and the safe fixes
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP) ## Speed and prompt-cache figures, beside other trimmers
	@test -e $(VENV)/.bench || { $(PIP) install --editable '.[bench]' && touch $(VENV)/.bench; }
	@$(BIN)/python -m pytest bench -q --benchmark-timer=time.process_time --benchmark-quiet

cassettes: $(STAMP) ## Record anew what wrapped clients send, from two independent servers on loopback (needs npm)
	@$(BIN)/python -m cassettes.record

clean: ## Remove the environment and all caches
	rm -rf $(VENV) .venv-bootstrap build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian and Ubuntu ship python3 without ensurepip, and refuse `pip install --user`: there virtualenv is put into a
# folder of its own and builds the same environment.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "compacting-client needs Python 3.10 or newer; '$(PYTHON)' is older or missing. Try: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python && $(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		rm -rf $(VENV); \
		$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
			rm -rf $(VENV); \
			$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target .venv-bootstrap virtualenv && \
			PYTHONPATH=.venv-bootstrap $(PYTHON) -m virtualenv --quiet $(VENV); \
		} || { echo "Cannot create $(VENV): '$(PYTHON)' has neither the venv module nor pip (Debian: apt install python3-venv)" >&2; exit 1; }; }
	@echo "Setting up $(VENV) (once; about a minute) ..." >&2
	@$(PIP) install --editable '.[dev]'
	@touch $@
