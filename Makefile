# 890 Bytes. `make` alone lists the targets; each installs what it needs when it is missing.

PYTHON ?= python3
PORT   ?= 8000
BIN    := .venv/bin
READY  := .venv/.stamp
TORCH  := $(shell grep '^torch==' requirements.txt)
START  := $(shell date +%s)

# say,TEXT: a line of progress with the seconds since make began
say = @printf '[%3ds] %s\n' $$(( $$(date +%s) - $(START) )) "$(1)"

.PHONY: help book serve test test-full labs grade bench train evaluate vendor repo clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit( \
	  "Python 3.11, 3.12 or 3.13 is needed, $(PYTHON) is %d.%d. Name another one: make PYTHON=python3.13" % v)'
	$(call say,making .venv and installing the pinned packages: one to three minutes)
	@$(PYTHON) -m venv .venv || { echo "Type this, then run make again: sudo apt-get install -y python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(call say,torch is in place)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -c 'import matplotlib.font_manager'  # makes its font list, and says so, once; not inside a notebook
	$(call say,packages are in place)
	@touch $@

book: $(READY)  ## build the book into _build/html
	$(call say,building the book; a notebook runs again only when it or what it imports has changed)
	@tools/build.sh
	$(call say,done; open this file in a browser:)
	@echo "       file://$(CURDIR)/_build/html/index.html"

serve: book  ## build the book and serve it on http://localhost:8000 (PORT=…)
	@echo "       http://localhost:$(PORT)/   (Ctrl-C stops it)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

# The build goes on to the tests even when it fails, so that one run shows everything; tests/e2e then fails on it.
test: $(READY)  ## build the book afresh, then run every test but the slow ones
	$(call say,building the book from its sources)
	@tools/build.sh --fresh || echo "The book does NOT build. The tests follow; the run as a whole fails."
	$(call say,running the tests)
	@$(BIN)/python -m pytest -n 2 --no-loadscope-reorder $(TESTS)

test-full: TESTS = -m ""
test-full: test  ## the same with the slow tests

labs: $(READY)  ## make the student versions of the lab steps from the masters
	@$(BIN)/python tools/make_labs.py

grade: $(READY)  ## grade a step: make grade STEP=3B SUBMISSIONS=folder OUT=folder (options: book/teach/grading.md)
	$(if $(and $(STEP),$(SUBMISSIONS),$(OUT)),,$(error say what to grade: make grade STEP=3B SUBMISSIONS=folder OUT=folder))
	@PYTHONPATH=labs $(BIN)/python -m grading $(STEP) "$(SUBMISSIONS)" "$(OUT)" \
	  $(if $(CLASS_SEED),--seed $(CLASS_SEED)) $(if $(DEADLINE),--deadline "$(DEADLINE)") $(if $(PATTERN),--pattern '$(PATTERN)') \
	  $(if $(REGRADE),--regrade "$(REGRADE)") $(if $(ALLOW_PACKAGE),--allow-package) $(if $(SECONDS),--seconds $(SECONDS))

bench: $(READY)  ## time the kernels of the course on this machine
	@$(BIN)/python -m flash41 bench

train: $(READY)  ## train the apprentice into runs/apprentice, or go on there (more than an hour on two cores)
	@$(BIN)/python -m flash41.train --out runs/apprentice

evaluate: $(READY)  ## what the trained apprentice can do, measured from its checkpoint
	@$(BIN)/python -m flash41 evaluate

vendor:  ## fetch the third-party browser files again (needs npm)
	@tools/vendor.sh

repo: $(READY)  ## set the public address everywhere: make repo URL=https://github.com/owner/name
	@$(BIN)/python tools/set_repository.py "$(URL)"

clean:  ## remove what the build made; .venv stays
	@rm -rf _build
