# `make run` and `make test` each set up what they need; nothing else is required than Python 3.11
# (or newer) and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: run test lint check defects bench clean

run: $(VENV)/.run
	$(BIN)/profile run decode --batch 1

test: $(VENV)/.test lint check

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: $(VENV)/.test
	$(BIN)/pytest -n 2 --dist loadfile $(PYTEST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { \
	  echo "Debian keeps venv in a package of its own; installing python3-venv."; \
	  rm -rf $(VENV); apt-get update -q && apt-get install -y -q --no-install-recommends python3-venv && \
	  $(PYTHON) -m venv $(VENV); }

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install -q -c constraints.txt -e '.[test]'
	touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

defects: $(VENV)/.test
	$(BIN)/python tests/defects/matrix.py
