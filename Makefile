# Everything runs in .venv, made here on first use: nothing but Python (3.11 or later) and make is needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_READY := $(VENV)/.demo-ready
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Processes give the parallelism; threads of BLAS inside them would only fight over the cores.
export OPENBLAS_NUM_THREADS ?= 1
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
LIT := $(BIN)/lit -j2 -sv test/lit

.PHONY: demo test test-all test-processors test-versions fuzz lint types pages docs bench

demo: $(DEMO_READY)
	$(BIN)/python examples/digits/demo.py

test: $(READY)
	$(LIT)
	$(PYTEST) -m "not slow and not versions"

# What fresh seeds find is printed, and work for later: it does not fail the change that happens to be tested.
test-all: $(READY)
	$(LIT)
	$(PYTEST) -m "not versions"
	$(BIN)/python test/fuzz --graphs 500 --seed 0
	-$(BIN)/python test/fuzz --graphs 200 --seed fresh

# In onnxruntime on emulated processors, those without VNNI and those of Arm among them.
NETWORKS ?= 10
test-processors: $(READY)
	$(BIN)/python test/processors $(NETWORKS)

# The oldest and the newest versions that pyproject.toml allows: some ten gigabytes, which are not kept.
test-versions: $(READY)
	$(BIN)/python -m pytest -n 0 test/unit/test_versions.py

# Until Ctrl-C; what fails is kept in out/fuzz.
fuzz: $(READY)
	$(BIN)/python test/fuzz --forever --out out/fuzz

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright --threads 2

# The generated parts of pages, written again. Figures come from `make bench` and from the scripts that pages of figures name.
pages: $(READY)
	set -e; for part in architecture commands fusions keywords linalg passes reference; do $(BIN)/python docs/generate/$$part.py; done
	AMCT_UPDATE=1 $(BIN)/python -m pytest -n 0 -m page

# The documentation as a site, in out/site.
docs: $(READY)
	$(BIN)/mkdocs build

# Threads are part of what is measured: what stands above for tests does not hold here.
bench: export OPENBLAS_NUM_THREADS =
bench: $(READY)
	$(BIN)/python benchmarks/page.py

$(DEMO_READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[images,onnxruntime,report]'
	touch $@

# tf_keras asks for the package `tensorflow`; tensorflow-cpu is the same without what is for GPUs.
$(READY): $(DEMO_READY)
	$(INSTALL) --editable '.[all,dev]'
	$(INSTALL) --no-deps 'tf_keras==2.21.*'
	touch $@
