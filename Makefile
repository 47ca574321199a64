# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-all lint docs install bench clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt $(shell find native src/tessera/silicon -type f 2>/dev/null)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt scikit-build-core nanobind cmake ninja
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev,onnx,smi,text,viz,docs]'
	touch $(STAMP)

demo: install
	$(BIN)/tessera demo

test: install
	$(BIN)/python -m pytest -m "not whole and not interop and not slow" -n 2

test-all: install
	$(BIN)/python -m pytest -m "not interop" -n 2

lint: install
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: install
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf build site dist
