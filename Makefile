# make demo    installs minijax (not jax) into .venv and runs the demonstration
# make test    installs the test extra and runs the suite
# make lint    ruff: rules and format        make types   pyright
# make perf    measures beside upstream JAX; writes the table and plot in docs/
# make clean   removes what the other targets made
#
# ARGS="..." is handed to the demonstration or to pytest.
# PYTHON=/path/to/python is tried before the interpreters below.

PYTHON  ?=
PYTHONS := $(PYTHON) python3.14 python3.13 python3.12 python3
ARGS    ?=

# A name on the PATH may be a shim for a version that is not active, so each candidate
# is run, not just looked up. `ensurepip` is what `venv` lacks on a bare Debian.
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))

BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check

.PHONY: demo test lint types perf clean
.NOTPARALLEL:
.DEFAULT_GOAL := demo

demo: .venv/installed
	@$(BIN)/python -m minijax demo $(ARGS)

# Ends with pytest's own summary line. One worker per core, few enough that eight
# simulated devices in each do not starve each other.
test: .venv/installed-test
	@$(BIN)/python -m pytest -q -n auto --maxprocesses=4 --dist=loadfile --maxfail=50 $(ARGS)

lint: .venv/installed-test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: .venv/installed-test
	@$(BIN)/pyright --pythonpath $(BIN)/python

perf: .venv/installed-test
	@PYTHONPATH=bench $(BIN)/python bench/perf/compare.py \
	  --markdown docs/performance.md --plot docs/performance.png $(ARGS)

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps: an install is repeated only when pyproject.toml has changed.
.venv/installed: pyproject.toml | .venv/created
	@echo "Installing minijax into .venv (jaxlib is a download of about 100 MB) ..."
	@$(PIP) --editable .
	@touch $@

.venv/installed-test: pyproject.toml | .venv/created
	@echo "Installing minijax and its test tools into .venv ..."
	@$(PIP) --editable '.[test]'
	@touch $@ .venv/installed

.venv/created:
	@for python in $(PYTHONS); do \
	  if "$$python" -c '$(USABLE)' 2>/dev/null; then \
	    "$$python" -m venv --clear .venv && touch $@; exit; \
	  fi; \
	done; \
	echo "minijax needs Python 3.12 or newer with the venv module, and none of" \
	  "$(strip $(PYTHONS)) is one: install one, or say make PYTHON=/path/to/python." >&2; \
	exit 1
