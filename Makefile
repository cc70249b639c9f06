# Names for commands; what they do is in the scripts. `make help` lists them.
.NOTPARALLEL:
.DEFAULT_GOAL := help
SHELL := /bin/sh

PYTHON ?= python3
STUDY ?= demo
DEVICE ?= gpu
GPU ?=
JOBS ?= 1
PY := .venv/bin/python
ifeq ($(DEVICE),cpu)
SCORING_DEVICE := --device cpu
DEVICE_ARGUMENTS := --device cpu --jobs $(JOBS)
else
SCORING_DEVICE := --gpu "$(GPU)"
DEVICE_ARGUMENTS := --gpu "$(GPU)"
endif

.PHONY: help setup demo lint test test-quick test-extra prepare runs run-all audit evaluate check-manifests verify report summary benchmark

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: .venv/installed ## create .venv and install the pinned requirements

.venv/installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4) and "make setup: Python 3.11.4 or newer is needed, \
	$(PYTHON) is " + sys.version.split()[0] + "; name another one, as in: make setup PYTHON=python3.12")'
	test -e $@ || $(PYTHON) -m venv --clear .venv
	PIP_USER=0 $(PY) -m pip install --quiet --requirement requirements.txt
	touch $@

demo: setup ## the main job on the embedded corpus: prepare, audit (the finding), then train six runs on the CPU and compare
	$(PY) prepare.py --study demo
	$(PY) research/source_exclusion/audit_stream.py --study demo
	@echo
	@echo "That is the finding. Six trainings follow, two at a time, in about seven minutes on two free cores."
	@echo "You may stop here: what is done is kept, and make demo goes on from it."
	@echo
	$(PY) generate_runs.py protocols/demo.json
	$(PY) run_all.py --study demo --device cpu --jobs 2
	$(PY) research/source_exclusion/audit_stream.py --study demo
	$(PY) research/matched_training/report.py --study demo

test: setup ## every test that requirements.txt suffices for, shared over the cores; no network, no GPU
	$(PY) -m pytest -q -n auto --maxprocesses 8 --dist loadfile -m "not extra" tests

test-quick: setup ## the tests that take under two seconds each
	$(PY) -m pytest -q -n auto --maxprocesses 8 --dist loadfile -m "not extra and not slow" tests

test-extra: setup ## the tests of optional packages, which it installs
	$(PY) -m pip install --quiet --requirement requirements-extra.txt
	$(PY) -m pytest -q -m extra tests

prepare: setup ## corpus, tokenizer and tokens of STUDY
	$(PY) prepare.py --study $(STUDY)

runs: setup ## the six run directories of STUDY
	$(PY) generate_runs.py protocols/$(STUDY).json

run-all: setup ## train and score the runs of STUDY on one named GPU (GPU=index or UUID), or with DEVICE=cpu [JOBS=2]
	$(PY) run_all.py --study $(STUDY) $(DEVICE_ARGUMENTS)

audit: setup ## every audit of STUDY: streams, runs, text rows, repeated passes, orders
	$(PY) research/source_exclusion/audit_stream.py --study $(STUDY)
	$(PY) research/source_exclusion/match_stream.py --study $(STUDY)
	$(PY) research/source_exclusion/audit_stream.py --study $(STUDY) --repeated
	$(PY) research/source_exclusion/permute_order.py --study $(STUDY)
	$(PY) research/source_exclusion/serve_repeated.py --study $(STUDY)

evaluate: setup ## the further scores of STUDY's trained models, in their order, on the device of run-all
	$(PY) research/evaluate.py --study $(STUDY) $(SCORING_DEVICE)

check-manifests: setup ## every SHA-256 list in manifests/ against its files, and the inputs that evidence names
	$(PY) check_manifests.py

verify: setup ## every verifier that needs no prepared data: the theorem, all frozen evidence, the pages, supplement v1
	$(PY) verify_all.py

lint: setup ## the rules of pyproject.toml, by ruff
	$(PY) -m ruff check .

report: setup ## tables and figures of STUDY's results
	$(PY) research/matched_training/report.py --study $(STUDY)

summary: setup ## write every page's generated blocks and the figures of the summary, from frozen evidence
	$(PY) research/pages.py
	$(PY) research/summary/draw_figures.py

benchmark: setup ## planners and audits side by side: speeds, ratios to the list-based reference, growth up to 100 M documents
	$(PY) research/source_exclusion/benchmark_audit.py
