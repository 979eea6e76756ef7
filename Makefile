# A thin front of CMake: `make help` lists the targets. BUILD=folder and J=jobs may be given.
BUILD ?= build
J     ?= $(shell nproc)
MAKEFLAGS += --no-print-directory
export OMPI_ALLOW_RUN_AS_ROOT = 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 1

.DEFAULT_GOAL := all
.PHONY: arm all program help setup configure test test-all check install release keys demo bench faults sanitize test-slurm test-merlin bundle wheel site gpu-check mutants style format tidy status clean print-%

all: configure ## build the program (build/mrmf) and the tests
	@cmake --build $(BUILD) -j $(J)

setup: ## install missing Debian packages, or say which are missing
	@jobs/setup.sh

configure: setup
	@test -f $(BUILD)/Makefile -o -f $(BUILD)/build.ninja || \
	  cmake --fresh -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=Release >$(BUILD).configure.log 2>&1 || \
	  { cat $(BUILD).configure.log; exit 1; }; rm -f $(BUILD).configure.log

test: all ## build and run the tests, but for five long ones
	@rm -f $(BUILD)/Testing/Temporary/LastTest*.log; ctest --test-dir $(BUILD) --output-on-failure -j 4 -LE long || { tests/failures.py $(BUILD); exit 1; }
	@echo "Not run: $$(cd $(BUILD) && ctest -N -L long | sed -n 's/^ *Test *#[0-9]*: //p' | paste -sd ' '), which make test-all adds"

test-all: all ## every test: also the bundle, the wheel, other Python packages, and the GPU check on an emulated device (CI runs this)
	@rm -f $(BUILD)/Testing/Temporary/LastTest*.log; ctest --test-dir $(BUILD) --output-on-failure -j 4 || { tests/failures.py $(BUILD); exit 1; }

program: configure ## build the program alone
	@cmake --build $(BUILD) -j $(J) --target mrmf

demo: program ## simulate cubes and neurons, train each in three ways, print what is saved (DEMO=cubes|neuron)
	@jobs/experiments/demo/run.sh $(BUILD)

bench: program ## training speed beside PyTorch and JAX, one table (NETWORK=cosmoflow: of one; installs both in .venv-peers)
	@tests/peers/bench.sh $(BUILD) $(NETWORK)

faults: all ## 1,000 faults of all kinds: failing writes, kills, full disks, hostile files; then fuzzing (35 minutes; COUNT=, SEED=)
	@tests/faults/run.sh $(BUILD)
	@tests/fuzz/run.sh $(BUILD)

sanitize: setup ## builds without inlining and with address, undefined-behaviour and thread sanitizers, and tests of each
	@tests/sanitize/run.sh

arm: setup ## cross-compile for 64-bit ARM and run the unit tests of kernels there, emulated (as root; 1.5 GB in build-arm)
	@tests/arm/run.sh

test-slurm: program ## batch jobs under a real Slurm of one node (installs Slurm's packages; part of make test)
	@tests/slurm/run.sh $(BUILD)

test-merlin: program ## the study under the real Merlin (installs Redis, and Merlin from PyPI; part of make test)
	@tests/merlin/run.sh $(BUILD)

mutants: all ## plant known bugs one by one and show that the tests catch them
	@tests/mutants.sh $(BUILD)

site: ## build the documents as a site with search into build/site (MkDocs from PyPI)
	@jobs/packaging/site/build.sh $(BUILD)

wheel: program ## pack build/mrmf-*.whl for pip: the program with its libraries, and the Python package
	@jobs/packaging/python/make_wheel.py $(BUILD)

bundle: all ## pack build/mrmf-bundle.tar.xz: mrmf, MPI and all libraries but CUDA's, for nodes that have none
	@jobs/packaging/bundle.sh $(BUILD)

gpu-check: all ## on a GPU, in ten minutes: tests, gradients, speed beside PyTorch; where make cannot run, see docs/gpu.md
	@tests/gpu/check.py both --build $(BUILD)

check: style test-all ## what CI and a careful committer run

PREFIX ?= /usr/local
install: configure ## install program, library, headers, manual and completion (PREFIX=/usr/local; DESTDIR= before it)
	@cmake --build $(BUILD) -j $(J) --target product
	@cmake --install $(BUILD) --prefix $(abspath $(PREFIX))

TESTS ?= run
release: ## check that the sources are ready, run the tests, make the tag and build/mrmf-VERSION.tar.gz (TESTS=passed skips them)
	@jobs/packaging/release.py --tests $(TESTS)

keys: program ## write docs/guide/keys.md from the program
	@$(BUILD)/mrmf presets --keys | docs/guide/keys.py

style: ## is the code formatted as .clang-format says? (clang-format 14); are the shell scripts sound? (shellcheck)
	@jobs/setup.sh clang-format-14 shellcheck
	@tests/style.sh check

format: ## format the code
	@jobs/setup.sh clang-format-14
	@tests/style.sh fix

tidy: configure ## clang-tidy 14 over our sources
	@jobs/setup.sh clang-tidy-14
	@tests/tidy.sh $(BUILD)

status: ## the configuration in use
	@if [ -f $(BUILD)/CMakeCache.txt ]; then \
	  grep -E '^(CMAKE_BUILD_TYPE|CMAKE_CXX_COMPILER|MPI_CXX_COMPILER|HDF5_C_LIBRARY_hdf5|DNNL_LIBRARY|CCACHE|MRMF_[A-Z]+):' $(BUILD)/CMakeCache.txt; \
	else echo "not configured: run make"; fi
	@git log -1 --format='commit %h, %cs' 2>/dev/null || true
	@if [ -x $(BUILD)/mrmf ]; then $(BUILD)/mrmf --version; fi

clean: ## remove the build folder
	@rm -rf $(BUILD)

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 12

print-%:
	@echo '$* = $($*)'
