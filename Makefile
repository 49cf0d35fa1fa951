# Each target makes what it needs: .venv from requirements.txt, the messages and the package, then runs.
# PYTHON=python3.12 chooses the interpreter; without it the one that .venv was made with, or python3.

VENV := .venv
MADE := $(VENV)/made-with
PACKAGE := $(VENV)/package-installed

# .venv is made anew when the lock, the interpreter or the folder has changed; the record: version, interpreter, folder.
RECORD := $(shell cat $(MADE) 2>/dev/null)
PYTHON ?= $(or $(wildcard $(word 2,$(RECORD))),python3)
WANTED := $(shell $(PYTHON) -S -c "import os, sys; print('%d.%d' % sys.version_info[:2], os.path.realpath(sys._base_executable))" 2>/dev/null) $(CURDIR)

# Any change in what CMake generates or installs. Python code and config/ are used from the source tree, without a reinstall.
SOURCES := $(wildcard msg/*.msg srv/*.srv action/*.action interfaces/*/* interfaces/*/msg/* cmake/*) CMakeLists.txt package.xml setup.py pyproject.toml lab/pyproject.toml

# Runs must not meet each other nor other machines. A guard of the ROS wheels must not leak in from another environment.
ISOLATED = ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST ROS_DOMAIN_ID=$$(($$$$ % 101 + 1))
unexport _ROS_WHEELS_BOOTSTRAP_COMPLETE ROS_LOCALHOST_ONLY
# Bytecode is kept, whatever the shell says: each of many processes would compile anew what it imports, PyMC alone for some 10 s.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help
help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: $(PACKAGE)  ## drive, record, calibrate and share a hidden vehicle on the real ROS graph; needs no data
	@$(ISOLATED) $(VENV)/bin/lfdm demo

# Tests in several processes: most of a test is Python on one core. One more than there are cores: tests of the graph wait for
# clocks and for each other, and with one for each core a third of two cores had nothing to do. A file stays with one process,
# where its tests share what they need; conftest.py says which come first.
WORKERS = -n $$(($$(nproc) + 1)) --maxprocesses 5 --dist loadfile --no-loadscope-reorder

.PHONY: test
test: lint  ## linters, types, import direction, names, all tests, and those again that the last bit could decide
	@$(ISOLATED) $(VENV)/bin/python -m pytest $(WORKERS) $(addprefix --ignore=,$(BROWSER))
	@$(MAKE) --no-print-directory browser
	@$(MAKE) --no-print-directory rounding

# A browser that draws without a GPU takes a core, and its tests press keys in real time: alone, and what fails once more.
BROWSER := $(wildcard test/system/test_cockpit*.py)
.PHONY: browser
browser: $(PACKAGE)  ## the tests of the cockpit's page in Chromium; skipped where there is none
	@$(ISOLATED) $(VENV)/bin/python -m pytest -q $(BROWSER) || $(ISOLATED) $(VENV)/bin/python -m pytest -q --lf $(BROWSER)

# What loops and samplers make of the last bit must not decide a test. Their tests run a second time with the kernels of OpenBLAS for
# another processor, without NumPy's code for AVX-512, and compiled for the other target: what drives for this processor, whose default is
# x86-64-v3, and batches for x86-64-v3, whose default is this processor.
DRIVES := $(addprefix test/control/test_,manoeuvring.py controller.py optimality.py planner.py slippery_place.py stops.py) test/sharing \
  test/engine/test_closed_loop.py $(addprefix lab/test/studies/test_,friction_study.py risk_study.py slippery_floor.py)
BATCHES := test/samplers $(addprefix test/calibration/test_,calibrate.py out_of_sample.py predictive.py reference.py sbc.py)
HAS = grep -qsw $(1) /proc/cpuinfo
KERNEL ?= $(shell if $(call HAS,avx512f); then echo Haswell; elif $(call HAS,avx); then echo Sandybridge; elif $(call HAS,sse2); then echo Prescott; else echo ARMV8; fi)
LEVEL ?= $(shell if $(call HAS,avx2); then echo x86-64-v3; else echo native; fi)
OTHERWISE = OPENBLAS_CORETYPE=$(KERNEL) NPY_DISABLE_CPU_FEATURES="AVX512F AVX512_SKX X86_V4"

.PHONY: rounding
rounding: $(PACKAGE)  ## the tests that the last bit could decide, with other kernels (KERNEL, LEVEL, DRIVES, BATCHES)
	@$(call HAS,avx512f) || echo "The kernels of SkylakeX are left out: this processor has no AVX-512"
	@$(ISOLATED) LFDM_TARGET=native $(OTHERWISE) $(VENV)/bin/python -m pytest $(WORKERS) $(DRIVES)
	@$(ISOLATED) LFDM_TARGET=$(LEVEL) $(OTHERWISE) $(VENV)/bin/python -m pytest $(WORKERS) $(BATCHES)

# Of every room what is quick; neither the graph nor samplers.
QUICK := test/vehicles test/sensors test/solvers test/models test/bags/test_expressions.py test/simulation/test_path.py test/control/test_settings.py \
  test/control/test_stops.py test/engine/test_stepping.py test/engine/test_command_hold.py test/test_bounds.py test/test_documents.py test/test_units.py

.PHONY: check
check: lint  ## the quick part of it, in about a minute
	@$(ISOLATED) $(VENV)/bin/python -m pytest -q $(WORKERS) $(QUICK)
	@.ci/sizes

.PHONY: lint
lint: $(PACKAGE)  ## ruff, mypy, TypeScript, the import direction, docstrings and names
	@ls $(QUICK) $(DRIVES) $(BATCHES) > /dev/null  # a list that names a file which has moved fails here, not after all tests
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-logo
	@$(VENV)/bin/python .ci/words
	@.ci/page/check

.PHONY: install
install: $(PACKAGE)  ## make .venv with the messages and the package; then .venv/bin/lfdm works

# Warnings are errors, so links within the site hold. Nothing is loaded from elsewhere.
SPHINX = $(VENV)/bin/sphinx-build -q -E -W --keep-going
.PHONY: docs
docs: $(PACKAGE)  ## make the documentation site in build/docs
	@$(SPHINX) -b html docs build/docs && echo build/docs/index.html

.PHONY: pages
pages: $(PACKAGE)  ## write the pages anew that come from declarations and parsers
	@mkdir -p build; for page in cli parameters topics; do $(VENV)/bin/python -m lfdm_lab.$${page}_page > build/$$page.md && mv build/$$page.md docs/reference/ || exit; done
	@for page in reference/mapping howto/plants; do $(VENV)/bin/python -m lfdm_lab.mapping_page docs/$$page.md || exit; done

.PHONY: doclinks
doclinks: $(PACKAGE)  ## check the links to other sites; needs a network
	@$(SPHINX) -b linkcheck docs build/doclinks

# The wheel's libraries ask for no later C library than that of manylinux_2_34 (test/system/test_wheel.py).
.PHONY: wheel
wheel: $(PACKAGE)  ## make the source archive and the wheel in dist
	@rm -rf dist
	@$(VENV)/bin/python -m build --no-isolation --outdir dist --sdist > /dev/null
	@$(VENV)/bin/python -m build --no-isolation --outdir dist --wheel -C--build-option=--plat-name=manylinux_2_34_x86_64 > /dev/null
	@ls dist/*

.PHONY: colcon
colcon:  ## build the same tree with colcon, in a temporary folder, and run it from there
	@.ci/colcon $(PYTHON)

# Extras stay in the lock: pip 23.0 of Python 3.10 takes `etils` for unpinned where a package asks for `etils[epath]`.
.PHONY: lock
lock:  ## write requirements.txt anew from pyproject.toml
	@$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install -q uv
	build/lock/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.10 --no-strip-extras --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-emit-package ziglang --custom-compile-command "make lock" --upgrade --quiet -o requirements.txt

# With ADVISORIES, a folder (.ci/audit says of what), without a network. Else by pip-audit, for which a package that the index of
# advisories does not know is an error (--strict): silence would pass for safety.
.PHONY: audit
ifdef ADVISORIES
audit: $(PACKAGE)
	@$(VENV)/bin/python .ci/audit requirements.txt $(ADVISORIES)
else
audit:  ## look up known vulnerabilities of the locked packages; needs a network, or ADVISORIES=FOLDER
	@$(PYTHON) -m venv build/audit && build/audit/bin/python -m pip install -q pip-audit
	@build/audit/bin/pip-audit -r requirements.txt --disable-pip --no-deps --strict
endif

# Of what `make install` has staged: a trial that shows contents and dependencies. colcon's prefix will do, too.
.PHONY: deb
deb: $(PACKAGE)  ## pack the package as a Debian package in dist, as a trial
	@mkdir -p dist && .ci/deb build/$$($(VENV)/bin/python -c "import sys; print(sys.implementation.cache_tag)")/prefix dist/ros-jazzy-lfdm-ros.deb

.PHONY: clean
clean:  ## remove .venv and all that was built
	rm -rf $(VENV) build dist demo_result *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What a person may have wrong, told in one line each before anything else fails on it.
.PHONY: interpreter
interpreter:
	@"$(PYTHON)" -c "import sys; sys.exit(sys.version_info[0] < 3)" 2>/dev/null || \
	  { echo "lfdm_ros: $(PYTHON) is no Python 3 that runs; fix: install Python 3.10 to 3.13, or make PYTHON=/path/to/python ..." >&2; exit 2; }
	@$(PYTHON) lfdm_ros/environment.py

$(MADE): requirements.txt | interpreter
	@echo "Making $(VENV) with $$($(PYTHON) -V), a few hundred MB of packages; some minutes, of which unpacking takes the most ..."
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PYTHON) lfdm_ros/environment.py $(VENV)/bin/python requirements.txt
	@{ $(VENV)/bin/python -m pip install --no-compile --progress-bar off -r requirements.txt 2>&1 || touch $(VENV)/failed; } | \
	  tee $(VENV)/pip.log | awk '/^ *(Downloading|Using cached).* MB/ {split($$(NF-2), n, "-"); print "  " n[1], n[2], $$(NF-1), $$NF} /^Installing/ {print "  Unpacking ..."} {fflush()}'
	@[ ! -e $(VENV)/failed ] || { tail -20 $(VENV)/pip.log >&2; exit 1; }
	@echo "$(WANTED)" > $@

ifneq ($(strip $(WANTED)),$(strip $(RECORD)))
$(MADE): FORCE
endif
FORCE:

# The path file makes .venv use this source tree; the installed copy adds the generated modules to it (lfdm_ros/__init__.py). The laboratory
# is installed in place: its code is used from the source tree too.
$(PACKAGE): $(SOURCES) | $(MADE)
	@echo "Building the messages and installing lfdm_ros ..."
	@$(VENV)/bin/python -m pip install -qq --no-deps --no-build-isolation .
	@$(VENV)/bin/python -c "import sysconfig, pathlib; pathlib.Path(sysconfig.get_path('purelib'), 'lfdm_ros_source.pth') \
	  .write_text('import sys; sys.path.insert(0, %r)\n' % '$(CURDIR)')"
	@$(VENV)/bin/python -m pip install -qq --no-deps --no-build-isolation -e lab
	@$(VENV)/bin/python -m compileall -q lfdm_ros lab/lfdm_lab
	@$(VENV)/bin/python -c "from lfdm_ros.environment import check_imports; check_imports()"
	@touch $@
