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

.PHONY: help setup demo test prepare runs run-all audit evaluate check-manifests verify report summary benchmark

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: .venv/installed ## create .venv and install the pinned requirements

.venv/installed: requirements.txt
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --requirement requirements.txt
	touch $@

demo: setup ## the main job on the embedded corpus: prepare, train six runs on the CPU, audit, report
	$(PY) prepare.py --study demo
	$(PY) generate_runs.py protocols/demo.json
	$(PY) run_all.py --study demo --device cpu --jobs 2
	$(PY) research/source_exclusion/audit_stream.py --study demo
	$(PY) research/matched_training/report.py --study demo

test: setup ## every test; no network, no GPU
	$(PY) -m pytest -q tests

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

verify: setup ## every verifier without data: manifests, theorem, frozen results, balance of audits, the paper's tables
	$(PY) check_manifests.py
	$(PY) research/theorem/packing_checker.py --self-test --size 3
	$(PY) research/source_exclusion/check_length_histogram.py
	$(PY) research/source_exclusion/verify_ledgers.py
	$(PY) research/matched_training/verify_training_table.py
	$(PY) research/prefix_ranking/verify_evaluation_summary.py
	$(PY) research/source_windows/verify_window_evidence.py
	$(PY) research/confirmation/verify_confirmation.py
	$(PY) research/confirmation/verify_leakage.py
	$(PY) research/batch_boundaries/verify_batch_boundaries.py
	$(PY) research/token_bytes/verify_token_bytes.py
	$(PY) research/resources/verify_resources.py
	$(PY) research/published_tables/verify_published_tables.py
	$(PY) research/summary/summarise.py --study wheels --check
	@echo "every verifier above ended with 0 failed"

report: setup ## tables and figures of STUDY's results
	$(PY) research/matched_training/report.py --study $(STUDY)

summary: setup ## the page research/summary/STUDY.md and its figures, from frozen evidence
	$(PY) research/summary/summarise.py --study $(STUDY)

benchmark: setup ## planners and audits side by side: speeds, ratios to the list-based reference, growth up to 100 M documents
	$(PY) research/source_exclusion/benchmark_audit.py
