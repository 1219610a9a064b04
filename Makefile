# Two commands for everyone: `make run` speaks, `make test` proves. Needs Python 3.10 to 3.12 with venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENTS := .venv-clients
PEERS := .venv-peers
PERF := .perf-analyzer
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Spark-TTS's codec is tested in an environment of its own, with torch. Which build of torch fits
# depends on the machine (CPU, CUDA), and so do its hashes, so no lock holds it; pip's options may
# stand behind the version.
TORCH ?= torch==2.13.0
SPARK := .venv-spark
SPARK_PIP := $(SPARK)/bin/python -m pip --disable-pip-version-check
# The script pytest, not the module: that would put this folder, and in it a `triton` that is not
# the compiler, on the path of torch.
SPARK_PYTEST := $(SPARK)/bin/pytest --confcutdir=tests/spark tests/spark

.PHONY: help run test test-clients test-spark parity lint format lock dashboards bench bench-hop bench-front bench-peers bench-perf-analyzer bench-scrape \
  bench-bicodec bench-look-ahead gpu-bench gpu-llm gpu-e2e soak chaos chaos-short chaos-churn clean

help: ## Show what there is.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/run.stamp ## Start Triton with the CPU voice and the gateway; Ctrl-C stops both.
	@exec $(BIN)/speech-gateway up

test: $(VENV)/test.stamp ## Run all tests but the clients', those on the real Triton included.
	$(BIN)/python -m pytest -m "not clients and not spark and not parity"

# The clients' warnings are not ours. LiteLLM asks the network for prices unless told not to.
test-clients: $(VENV)/test.stamp $(CLIENTS)/stamp ## Run other projects' clients against the service (needs Node).
	LITELLM_LOCAL_MODEL_COST_MAP=True $(CLIENTS)/bin/python -m pytest -m clients -W ignore \
	  --confcutdir=tests/clients tests/clients

test-spark: $(SPARK)/test.stamp ## Run the tests of Spark-TTS's codec, with torch on the CPU (seconds).
	$(SPARK_PYTEST) -m spark

parity: $(SPARK)/parity.stamp ## Compare the codec with the reference implementation (minutes).
	$(SPARK_PYTEST) -m parity

lint: $(VENV)/test.stamp ## Check style, types and the format of the code.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.11 gateway/observability/*.py

.PHONY: dashboards
dashboards: $(VENV)/test.stamp ## Write Grafana's dashboards from their Python (needs Python 3.11).
	$(BIN)/python -m gateway.observability

format: $(VENV)/test.stamp ## Format the code.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

BENCH ?= --concurrency 1,2,4,8,16
bench: $(VENV)/test.stamp ## Measure the service that runs, under load, and write a report (BENCH=flags).
	$(BIN)/speech-gateway bench --output .speech/bench/$$(date +%Y%m%d-%H%M%S) $(BENCH)

bench-hop: $(VENV)/test.stamp ## Measure what the gateway adds to Triton, against a fake one (minutes; HOP=flags, HOP=--help).
	PYTHONPATH=tests $(BIN)/python -m bench.hop $(HOP)

bench-front: $(VENV)/test.stamp ## Measure what Spark-TTS's front costs on the real Triton, with stages that only take their time (FRONT=flags).
	PYTHONPATH=tests $(BIN)/python -m bench.front $(FRONT)

bench-peers: $(VENV)/test.stamp $(PEERS)/stamp ## Measure other projects' gateways and servers beside ours (minutes; Python 3.11 or 3.12; PEERS_OPTIONS=flags).
	PYTHONPATH=tests $(BIN)/python -m bench.peers --python $(PEERS)/bin/python $(PEERS_OPTIONS)

bench-perf-analyzer: $(VENV)/test.stamp $(PERF)/stamp ## Measure the small voice on Triton with NVIDIA's tool and with ours (minutes; PERF_OPTIONS=flags).
	PYTHONPATH=tests $(BIN)/python -m bench.perf_analyzer $(PERF)/bin/perf_analyzer $(PERF_OPTIONS)

bench-scrape: $(VENV)/test.stamp ## Measure what a scrape of /metrics costs with 20 Tritons.
	$(BIN)/python tests/bench/scrape.py

bench-bicodec: $(SPARK)/test.stamp ## Measure the codec's speed and its error in half precision.
	$(SPARK)/bin/python tests/bench/bicodec.py

bench-look-ahead: $(SPARK)/test.stamp ## Measure what less context to the right does to streamed speech.
	$(SPARK)/bin/python tests/bench/look_ahead.py

GPU_PYTHON ?= python3
# Only what is needed becomes importable: this folder holds a `triton` that is not the compiler.
gpu-bench: ## Measure the codec on a CUDA GPU (GPU_PYTHON has torch, transformers and spark-tts-lib).
	mkdir -p .speech/gpu
	ln -sfn $(CURDIR)/engine $(CURDIR)/triton/speech_wire $(CURDIR)/triton/speech_backend .speech/gpu/
	cd .speech/gpu && PYTHONPATH=$(CURDIR)/.speech/gpu $(GPU_PYTHON) $(CURDIR)/tests/bench/gpu_bicodec.py

gpu-llm: ## Measure the language model on vLLM, on a CUDA GPU (GPU_PYTHON has torch and vllm).
	mkdir -p .speech/gpu
	ln -sfn $(CURDIR)/engine $(CURDIR)/triton/speech_wire $(CURDIR)/triton/speech_backend .speech/gpu/
	cd .speech/gpu && PYTHONPATH=$(CURDIR)/.speech/gpu $(GPU_PYTHON) $(CURDIR)/tests/bench/gpu_llm.py weights
	cd .speech/gpu && PYTHONPATH=$(CURDIR)/.speech/gpu $(GPU_PYTHON) $(CURDIR)/tests/bench/gpu_llm_churn.py weights

# It starts Triton and the gateway as anyone does, so this project is installed there, from a wheel.
GPU_E2E ?= --compile
gpu-e2e: ## Measure the whole chain on a CUDA GPU (GPU_PYTHON has speech-gateway[embedded,vllm,bench] and spark-tts-lib).
	mkdir -p .speech/gpu
	cd .speech/gpu && $(GPU_PYTHON) $(CURDIR)/tests/bench/gpu_e2e.py e2e $(GPU_E2E)

soak: $(SPARK)/test.stamp ## Send 10 000 streams through Spark-TTS's models (an hour; SOAK=--short: a minute).
	$(SPARK)/bin/python tests/bench/soak.py $(SOAK)

chaos: $(VENV)/test.stamp ## Bring every fault to four real Tritons under load (ten minutes).
	$(BIN)/python tests/chaos/run.py

chaos-short: $(VENV)/test.stamp ## Bring some of them (a minute).
	$(BIN)/python tests/chaos/run.py --short

chaos-churn: $(VENV)/test.stamp ## Have twenty Tritons come and go for ten minutes; count what is left.
	$(BIN)/python tests/chaos/churn.py

lock: ## Resolve the versions anew (needs uv and npm).
	uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --extra embedded --extra build \
	  pyproject.toml -o requirements.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --extra tracing --extra build \
	  --constraint requirements.lock pyproject.toml -o gateway/requirements.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.12 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --no-emit-package numpy \
	  --constraint requirements.lock triton/requirements.in -o triton/requirements.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --extra dev --extra build \
	  --constraint requirements.lock pyproject.toml -o tests/requirements.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate \
	  tests/clients/requirements.in -o tests/clients/requirements.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate \
	  tests/bench/peers/requirements.in -o tests/bench/peers/requirements.lock
	uv pip compile --quiet --upgrade --no-deps --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate \
	  tests/bench/peers/alone.in -o tests/bench/peers/alone.lock
	npm update --prefix tests/clients --package-lock-only --omit-lockfile-registry-resolved
	uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --extra spark --extra embedded --extra build \
	  --overrides tests/spark/overrides.txt pyproject.toml tests/spark/requirements.in \
	  -o tests/spark/requirements.lock
	uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --overrides tests/spark/overrides.txt \
	  --constraint tests/spark/requirements.lock tests/spark/parity.in -o tests/spark/parity.lock

clean: ## Remove the environments and what tools left.
	rm -rf $(VENV) $(CLIENTS) $(PEERS) $(PERF) $(SPARK) tests/clients/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' || \
	  { echo "error: this is $$($(PYTHON) --version), the bundled Triton needs 3.10 to 3.12: make run PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "error: $(PYTHON) has no venv; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The project itself is installed without its dependencies: the lock has them all, with hashes.
$(VENV)/run.stamp: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) install --quiet --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/test.stamp: tests/requirements.lock $(VENV)/run.stamp
	$(PIP) install --quiet --require-hashes -r tests/requirements.lock
	@touch $@

# The clients' packages do not go with ours, and Pipecat needs Python 3.11.
$(CLIENTS)/stamp: tests/clients/requirements.lock tests/clients/package-lock.json
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: this is $$($(PYTHON) --version), Pipecat needs 3.11: make test-clients PYTHON=python3.11" >&2; exit 1; }
	@command -v npm >/dev/null || { echo "error: npm is missing; on Debian or Ubuntu: apt-get install nodejs npm" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(CLIENTS)
	$(CLIENTS)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes \
	  -r tests/clients/requirements.lock
	npm ci --prefix tests/clients --no-audit --no-fund
	@touch $@

# The program alone: its package would hide our tritonclient, which is newer.
$(PERF)/stamp: tests/bench/perf_analyzer/requirements.lock $(VENV)/run.stamp
	rm -rf $(PERF)
	$(PIP) install --quiet --no-deps --require-hashes --target $(PERF) -r $<
	chmod +x $(PERF)/bin/perf_analyzer
	@touch $@

# The three of alone.lock ask for torch and weights; with a stub for their engine they need neither.
$(PEERS)/stamp: tests/bench/peers/requirements.lock tests/bench/peers/alone.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: this is $$($(PYTHON) --version), the peers need 3.11: make bench-peers PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes \
	  -r tests/bench/peers/requirements.lock
	$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes \
	  -r tests/bench/peers/alone.lock
	@touch $@

$(SPARK)/test.stamp: tests/spark/requirements.lock pyproject.toml
	$(PYTHON) -m venv $(SPARK)
	$(SPARK_PIP) install --quiet --require-hashes -r tests/spark/requirements.lock
	$(SPARK_PIP) install --quiet $(TORCH)
	$(SPARK_PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# torchaudio's compiled part wants the CUDA build of torch; what the reference needs is Python.
$(SPARK)/parity.stamp: tests/spark/parity.lock $(SPARK)/test.stamp
	$(SPARK_PIP) install --quiet --no-deps --require-hashes -r tests/spark/parity.lock
	rm -f $(SPARK)/lib/python*/site-packages/torchaudio/lib/*.so
	@touch $@
