# make demo    sets up, builds, runs the demo models on the CPU
# make test    sets up, builds, runs all tests
# make sample  sets up, builds, holds 1,500 cases of PyTorch's operator database to their expected classes
# make check   format, lint, unit and golden tests, a torch smoke test: under a minute after a build
# make bless   rewrites golden files from what the code prints now
# make wheel   a wheel for the torch in .venv
# make asan, make ubsan   C++ unit tests under a sanitizer
PYTHON ?= python3
TORCH ?= torch==2.13.0
JOBS ?= 2
PY := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
CXX_SOURCES = $(shell git ls-files 'csrc/*.cpp' 'csrc/*.h' 'tests/*.cpp')

.PHONY: demo test sample test-torch test-parts check bless wheel asan ubsan build system format lint golden unit
.DEFAULT_GOAL := demo

# ---- set-up

system:
	@sh scripts/system_packages.sh

.venv/ready: requirements.txt | system
	$(PYTHON) -m venv .venv
	$(PY) -m pip install -q --disable-pip-version-check -U pip
	$(PY) -m pip install -q --disable-pip-version-check "$(TORCH)"
	$(PY) -m pip install -q --disable-pip-version-check -r requirements.txt
	command -v ptxas >/dev/null || $(PY) -m pip install -q --disable-pip-version-check nvidia-cuda-nvcc
	touch $@

# Always run: CMake and Ninja know what is stale.
build: .venv/ready
	$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .

# ---- what users run

demo: build
	$(PY) -m poot_torch.demo

test: build unit golden
	$(MAKE) --no-print-directory -o build -j2 --output-sync=target test-torch test-parts

# The two halves of `test`, side by side: much of either waits for compiling processes.
test-torch: build
	$(PY) -m pytest tests/torch

test-parts: build
	$(PY) -m pytest tests --ignore=tests/torch --ignore=tests/ir --ignore=tests/codegen

sample: build
	$(PY) -m qualification ops --sample --jobs $(JOBS)

unit: build
	build/poot_unit --gtest_brief=1

golden: build
	$(PY) -m pytest tests/ir tests/codegen

wheel: build
	$(PY) -m pip wheel -q --no-build-isolation --no-deps -w dist .

# ---- what developers run

check: build lint unit golden
	$(PY) -m pytest tests/test_layout.py tests/torch/test_smoke.py

lint: .venv/ready
	clang-format --dry-run -Werror $(CXX_SOURCES)
	ruff check .
	ruff format --check poot_torch tests qualification setup.py
	mypy

format: .venv/ready
	clang-format -i $(CXX_SOURCES)
	ruff check --fix -q .
	ruff format -q poot_torch tests qualification setup.py

bless: build
	POOT_BLESS=1 build/poot_unit --gtest_brief=1
	POOT_BLESS=1 $(PY) -m pytest tests/ir tests/codegen tests/torch/test_demo_graphs.py

asan ubsan: .venv/ready
	cmake -S . -B build-$@ -G Ninja -DPython_EXECUTABLE=$(abspath $(PY)) -DPOOT_WORKER=OFF -DPOOT_BINDING=OFF \
	  -DPOOT_SANITIZE=$(if $(filter asan,$@),address,undefined)
	cmake --build build-$@ --target poot_unit
	build-$@/poot_unit --gtest_brief=1
