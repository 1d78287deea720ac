# Everything a fresh machine needs is python3 and make: each target builds the
# .venv it runs in, with Python's own venv and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test lint bench clean
help:
	@echo "make demo   fit bundled data, print certificates, draw pictures into demo/"
	@echo "make test   ruff, mypy, import-linter, doctests and the whole test suite"
	@echo "make bench  benchmarks/core.py: time and memory against LAPACK and PCA"
	@echo "make clean  remove .venv and what demo and bench wrote"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

NATIVE := hatch_build.py $(wildcard src/isopivot/_native/*.c src/isopivot/_native/*.inc)

$(VENV)/made-user: pyproject.toml $(NATIVE) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e ".[all]"
	@touch $@

$(VENV)/made-dev: pyproject.toml $(NATIVE) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	@touch $(VENV)/made-user $@

demo: $(VENV)/made-user
	$(BIN)/isopivot demo --out demo

lint: $(VENV)/made-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest

bench: $(VENV)/made-dev
	$(BIN)/python benchmarks/core.py

clean:
	rm -rf $(VENV) demo benchmarks/results
