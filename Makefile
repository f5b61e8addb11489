# Every target sets up what it needs: the only things assumed are Python 3.11, make, git and a compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

BENCH := .venv-bench

# Most of the default suite's time is compiling small programs: it leaves out LLVM's optimisations and XLA's fusion emitters.
# The long tests, the reliability suite and training itself compile as users do.
QUICK_COMPILE := --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false

.PHONY: train test test-slow test-package reliability test-peers bench docs check format lock clean

train: $(VENV)/.ready  ## train gac-fast on HalfCheetah-v5 for 240,000 transitions, evaluate it, draw its curve
	@$(BIN)/geoact train HalfCheetah-v5 --timesteps 240000 --runs-dir runs
	@run=$$(ls -td runs/HalfCheetah-v5__gac-fast__s0__*/ | head -1) && run=$${run%/} && \
	 $(BIN)/geoact evaluate $$run && \
	 $(BIN)/geoact plot $$run --out $$run/curve.png && \
	 echo "policy: $$run/policy" && \
	 echo "metrics: $$run/metrics.jsonl (TensorBoard: tensorboard --logdir runs)"

test: $(VENV)/.ready  ## the default suite, a few minutes
	XLA_FLAGS="$(QUICK_COMPILE)" $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/.ready  ## the long tests
	$(BIN)/python -m pytest -m slow

test-package: $(VENV)/.ready  ## the wheel in a clean environment, without the lock
	$(BIN)/python -m pytest tests/test_package.py -m "slow or not slow"

test-peers: $(BENCH)/.ready  ## what needs Stable-Baselines3, in an environment with PyTorch
	$(BENCH)/bin/python -m pytest tests/test_agent.py

bench: $(BENCH)/.ready  ## speed beside the peers and the machine, about 25 minutes; CASES="a b" for some, QUICK=1 to try
	@$(BENCH)/bin/python -m benchmarks.run --cases $(CASES) $(if $(QUICK),--quick)

reliability: $(VENV)/.ready  ## kills, full disks, damage, fuzzing, a soak: what a run survives; about ten minutes
	@rm -rf results/reliability/tests.txt
	@$(BIN)/python tests/reliability/kills.py --out results/reliability/kills.txt
	@$(BIN)/python tests/reliability/cost.py --out results/reliability/checkpoint_cost.txt
	@$(BIN)/python -m pytest tests/reliability -m "slow or not slow" -vv -s -p no:cacheprovider \
	  | grep -E "PASSED|FAILED|ERROR|soak:|fuzz:|concurrent:|passed|failed" | tee results/reliability/tests.txt
	@echo; echo "summary"; cat results/reliability/kills.txt results/reliability/checkpoint_cost.txt; \
	 tail -1 results/reliability/tests.txt; ! grep -qE "FAILED|ERROR" results/reliability/tests.txt

docs: $(VENV)/.ready  ## the documentation site, into site/; runs the tutorials, about a minute
	$(BIN)/python docs/build.py

check: $(VENV)/.ready  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(VENV)/.ready  ## pin all dependencies anew
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --no-strip-extras --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-emit-trusted-host --no-header --allow-unsafe --extra dev --extra docs --output-file requirements.lock pyproject.toml

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# PyTorch comes first and by version: a plain "torch" may bring gigabytes of CUDA.
$(BENCH)/.ready: requirements.lock benchmarks/requirements.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip install --quiet torch==2.13.0
	$(BENCH)/bin/pip install --quiet --require-hashes -r requirements.lock
	$(BENCH)/bin/pip install --quiet -r benchmarks/requirements.txt
	$(BENCH)/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .ruff_cache
