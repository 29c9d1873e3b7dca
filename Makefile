# Everything works in .venv at the repository root, made on first use from requirements.lock.

# Byte code is written even where the environment says not to: it halves every start.
unexport PYTHONDONTWRITEBYTECODE

# uv does not read pip's settings; an index set for pip is meant for it too.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

UV_VERSION := 0.13.9
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core-$(shell cat requirements.lock pyproject.toml 2>/dev/null | cksum | cut -d' ' -f1)
DEV := $(subst .core,.dev,$(CORE))
AIRFLOW := $(subst .core,.airflow,$(CORE))
EXTRAS := airflow,prefect,nlp,ui,images,metrics,dev
# One more than the cores that tests are to do with: they often wait for what they started.
WORKERS ?= 3

.PHONY: demo airflow up down test test-all browser services beam-env lint bench lock clean help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(CORE)  ## build real datasets, twice, then with one line changed
	@$(BIN)/python examples/demo.py

airflow: $(AIRFLOW)  ## Airflow with two datasets, in a browser; Ctrl-C ends it
	@$(BIN)/python examples/airflow/local_airflow.py

# Compose 2 can wait until all is well; its predecessor, docker-compose, cannot.
up:  ## all services in Docker, on loopback: Airflow, Prefect, PostgreSQL, the pages
	@docker compose version >/dev/null 2>&1 || { echo "Docker with Compose 2 is needed: https://docs.docker.com/compose/install/" >&2; exit 1; }
	@python3 deploy/fill_environment.py
	@docker compose build init
	@docker compose up --detach --wait --wait-timeout 900
	@python3 deploy/addresses.py

down:  ## stop them; what they hold stays, `docker compose down --volumes` removes it
	@docker compose down

test: $(DEV) browser  ## the tests, under 20 minutes on 2 cores
	$(BIN)/pytest -m 'not slow' -n $(WORKERS) --dist loadfile -q

test-all: $(DEV) browser services beam-env  ## all tests, the long ones too
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -q

# The pages are tested in Debian's Chromium. It is tried for once; without it those tests are skipped.
browser: $(DEV)
	@command -v chromium >/dev/null || [ -e $(VENV)/.browser ] || { touch $(VENV)/.browser; \
	  echo "Setting up Chromium (once)"; export DEBIAN_FRONTEND=noninteractive; \
	  { timeout 120 apt-get update -qq && \
	    timeout 300 apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } \
	  >/dev/null 2>&1 || echo "No Chromium here: the tests in a browser will be skipped." >&2; }

# docker-compose.yml is read by Compose and its queue is Redis, in the tests too. Tried for once, as above.
services: $(DEV)
	@{ command -v redis-server && command -v docker-compose && command -v wget; } >/dev/null || \
	  [ -e $(VENV)/.services ] || { touch $(VENV)/.services; \
	  echo "Setting up Redis and docker-compose (once)"; export DEBIAN_FRONTEND=noninteractive; \
	  { timeout 120 apt-get update -qq && \
	    timeout 300 apt-get install -y -qq --no-install-recommends redis-server docker-compose wget; } \
	  >/dev/null 2>&1 || echo "No Redis or docker-compose here: tests of what needs them will be skipped." >&2; }

# Beam pins protobuf and pyarrow below what the rest uses, so it gets an environment of its own.
BEAM := .venv-beam
BEAM_READY := $(BEAM)/.ready-$(shell cat requirements-beam.lock pyproject.toml 2>/dev/null | cksum | cut -d' ' -f1)

beam-env: $(BEAM_READY)  ## a Python with Apache Beam, in .venv-beam

$(BEAM_READY): $(VENV)/.uv
	@echo "Setting up .venv-beam (once)"
	@[ -x $(BEAM)/bin/python ] || python3.11 -m venv $(BEAM)
	@$(BIN)/uv pip install -q --python $(BEAM)/bin/python --compile-bytecode -c requirements-beam.lock -e '.[beam]'
	@rm -f $(BEAM)/.ready-* && touch $@

lint: $(DEV)  ## ruff, mypy, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(DEV)  ## every claim of speed, measured beside its peer
	@for each in benchmarks/*.py; do echo "== $$each"; $(BIN)/python $$each || exit 1; done

lock: $(VENV)/.uv  ## pin anew what pyproject.toml asks for
	$(BIN)/uv pip compile pyproject.toml $(foreach e,airflow prefect nlp ui images metrics dev,--extra $(e)) \
	  --python-version 3.11 --universal --no-emit-index-url --no-emit-find-links \
	  --generate-hashes --no-annotate --no-header --upgrade -q -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra beam \
	  --python-version 3.11 --universal --no-emit-index-url --no-emit-find-links \
	  --generate-hashes --no-annotate --no-header --upgrade -q -o requirements-beam.lock

$(VENV)/.uv:
	@command -v python3.11 >/dev/null || { echo "Python 3.11 is needed: apt-get install python3.11-venv" >&2; exit 1; }
	@python3.11 -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); apt-get update -qq && apt-get install -y -qq python3.11-venv && python3.11 -m venv $(VENV); }
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

$(CORE): $(VENV)/.uv
	@echo "Setting up .venv (once)"
	@$(BIN)/uv pip install -q --compile-bytecode -c requirements.lock -e .
	@rm -f $(VENV)/.core-* && touch $@

$(DEV): $(CORE)
	@echo "Setting up .venv for tests (once)"
	@$(BIN)/uv pip install -q --compile-bytecode -c requirements.lock -e '.[$(EXTRAS)]'
	@rm -f $(VENV)/.dev-* && touch $@

$(AIRFLOW): $(CORE)
	@echo "Setting up .venv for Airflow (once)"
	@$(BIN)/uv pip install -q --compile-bytecode -c requirements.lock -e '.[airflow,ui]'
	@rm -f $(VENV)/.airflow-* && touch $@

clean:  ## remove what was set up and built
	rm -rf $(VENV) $(BEAM) demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
