# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest
OFFICIAL := .interop/official
OFFICIAL_COMPILER := $(OFFICIAL)/lib/python3.12/site-packages/ttnn/runtime/sfpi/compiler/bin

.PHONY: demo test test-all interop lint docs coverage install bench clean
.DEFAULT_GOAL := demo

# Compiled ahead, so that `import ttnn` is quick even where Python may not write its caches.
install: $(STAMP)
	@$(BIN)/python -m compileall -q src

# torch first and alone: a range that pip resolves freely would bring the CUDA build. No build isolation for the same reason.
$(STAMP): pyproject.toml constraints.txt $(shell find native -type f 2>/dev/null)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) 'scikit-build-core>=0.10' 'nanobind>=2.4' cmake ninja
	$(PIP) --no-build-isolation --editable '.[dev,onnx,smi,text,viz,docs]'
	touch $(STAMP)

demo: install
	$(BIN)/tessera demo

test: install
	$(PYTEST) -m "not whole and not interop and not slow" -n 2 --dist worksteal

test-all: install
	$(PYTEST) -m "not interop" -n 2 --dist worksteal

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

coverage: install
	$(BIN)/tessera inspect coverage --output docs/coverage.md

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: install
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# For the night: atheris looks for a tensor file that does anything but load or be refused.
FUZZ_SECONDS ?= 3600
fuzz: install
	$(BIN)/pip install --quiet atheris
	$(BIN)/python tests/fuzz/tensorbin.py -max_total_time=$(FUZZ_SECONDS)

# The official wheel on a mock cluster, in an environment of its own: the peer of tests/interop.
interop: install $(OFFICIAL)/.installed
	TESSERA_OFFICIAL=$(abspath $(OFFICIAL)/bin/python) $(PYTEST) -m interop

$(OFFICIAL)/.installed:
	python3.12 -m venv $(OFFICIAL)
	$(OFFICIAL)/bin/pip install --quiet --no-deps ttnn==0.81.1
	$(OFFICIAL)/bin/pip install --quiet 'numpy<2' click graphviz loguru ml_dtypes networkx pandas pyyaml seaborn
	mkdir -p $(OFFICIAL_COMPILER)
	install -m 755 tests/interop/mock/compiler.py $(OFFICIAL_COMPILER)/riscv-tt-elf-g++
	touch $@

clean:
	rm -rf build site dist
