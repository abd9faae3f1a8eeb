# The daily commands. `make demo` and `make test` work on a fresh machine with Python 3.10 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-oci check bench format clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/demo ## Train a model on 1 main and 3 Dask workers, on this machine
	$(BIN)/muster run examples/dask/job.yaml

test: $(VENV)/frameworks $(VENV)/clouds ## Format, lint, types, then every test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-oci: $(VENV)/dev ## The tests that need a real account of Oracle's, given by MUSTER_TEST_OCI_TARGET: costs money
	$(BIN)/python -m pytest -v tests/real_oci

check: $(VENV)/dev ## Format, lint, types and the unit tests: under a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n 2 -m unit

bench: $(VENV)/frameworks $(VENV)/clouds ## Measure against peers and floors; prints ratios
	$(BIN)/python -m benchmarks

format: $(VENV)/dev ## Mend what can be mended by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

$(VENV)/base: pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Muster needs Python 3.10 or newer; try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -q && apt-get install -y -q python3-venv && $(PYTHON) -m venv $(VENV); \
	  else echo "python's venv module is missing; install it first, such as: sudo apt-get install python3-venv"; exit 1; fi; }
	@touch $@

$(VENV)/demo: $(VENV)/base
	@echo "installing Muster and Dask into $(VENV)"
	@$(PIP) --editable '.[dask]'
	@touch $@

# Tools of the tests: hosts of their own (ip, iptables), git's own reading of ignore files, mpirun, what compiles Horovod,
# a server for sftp, rclone as a peer, npm for Azurite, and docker with a base image and a registry of its own.
TOOLS := git:git ip:iproute2 iptables:iptables nsenter:util-linux mpirun:openmpi-bin g++:g++ cmake:cmake \
  sshd:openssh-server rclone:rclone npm:npm \
  docker:docker.io dockerd:docker.io mmdebstrap:mmdebstrap docker-registry:docker-registry htpasswd:apache2-utils \
  podman:podman
HEADERS := $(BIN)/python -c 'import os, sysconfig; os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null
$(VENV)/tools: $(VENV)/base
	@missing=; packages=; \
	for pair in $(TOOLS); do \
	  command -v $${pair%%:*} >/dev/null || [ -x /usr/sbin/$${pair%%:*} ] || { missing="$$missing $${pair%%:*}"; packages="$$packages $${pair##*:}"; }; done; \
	$(HEADERS) || { missing="$$missing Python.h"; packages="$$packages python3-dev"; }; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "installing$$missing"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$packages >/dev/null; \
	  else echo "some tests will be skipped: they need$$missing (sudo apt-get install$$packages)"; fi; fi
	@touch $@

$(VENV)/dev: $(VENV)/demo $(VENV)/tools
	@echo "installing PyTorch and the tools of development into $(VENV) (about 1 GB)"
	@$(PIP) --upgrade pip
	@$(PIP) torch --editable '.[dask,pytorch,aws,oci,fsspec]' --group dev
	@touch $@

# tf_keras asks for the package `tensorflow`, which must not lie over tensorflow-cpu: what it needs is there already.
# Horovod is compiled once: its wheel is kept in Muster's home, and serves every other checkout.
$(VENV)/frameworks: $(VENV)/dev
	@echo "installing TensorFlow and what else the tests train with into $(VENV) (about 2 GB)"
	@$(PIP) --group frameworks
	@$(PIP) --no-deps tf_keras
	@if $(HEADERS) && command -v g++ >/dev/null && command -v cmake >/dev/null; then $(BIN)/muster setup horovod && touch $@; \
	else echo "the tests of Horovod will be skipped: it cannot be compiled here"; fi

# Stores of other makers, and other people's clients: in environments of their own, because they do not go together.
# Not compiled: of their 29,000 modules the tests load few, and Python keeps those.
AZURITE := 3.37.0
$(VENV)/clouds: $(VENV)/dev constraints-peers.txt
	@echo "installing Azurite and the peers' clients (awscli, s3fs, ocifs, oci-cli, oracle-ads) below $(VENV) (about 1.5 GB)"
	@if command -v npm >/dev/null; then npm install --silent --no-audit --no-fund --no-save --prefix $(VENV)/azurite azurite@$(AZURITE) >/dev/null; \
	else echo "the tests against Azure's emulator will be skipped: they need npm"; fi
	@$(PYTHON) -m venv $(VENV)/peers
	@$(VENV)/peers/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(VENV)/peers/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints-peers.txt --group peers
	@touch $@
