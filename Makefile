# `make help` lists the targets. Each call does only the work that has not been done yet.

# cpu or cuda: which libtorch to fetch and to build against. LIBTORCH=/path uses one that you already have.
TORCH ?= cpu
CARGO ?= cargo

# Everything uses one profile, so that the C++ binding of libtorch is compiled only once.
PROFILE := --release --locked --target-dir target

ifeq ($(filter cpu cuda,$(TORCH)),)
$(error TORCH=$(TORCH) is unknown: use TORCH=cpu or TORCH=cuda)
endif

ifneq ($(LIBTORCH),)
override LIBTORCH := $(abspath $(LIBTORCH))
export LIBTORCH
GET_LIBTORCH := python3 scripts/libtorch.py check "$(LIBTORCH)"
else
ifeq ($(TORCH),cuda)
export LIBTORCH := $(CURDIR)/.libtorch/cuda
else
unexport LIBTORCH # .cargo/config.toml sets it to .libtorch/cpu
endif
GET_LIBTORCH := python3 scripts/libtorch.py fetch $(TORCH)
# While it is fetched, `make build` compiles what does not need it. The rest fails, and is compiled afterwards.
build: MEANWHILE := --meanwhile "$(CARGO) build $(PROFILE) --keep-going --quiet 2> /dev/null"
endif

.PHONY: help run build install wheel test faults lint verify relock book libtorch tools clean

help: ## print this list
	@sed -n 's/^\([a-z<>%-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sed 's/%/<name>/' | expand -t 16
	@echo
	@echo "TORCH=cuda make build       builds against libtorch for NVIDIA GPUs"
	@echo "LIBTORCH=/path make build   builds against a libtorch that you already have"

run: build ## build, then run the quickstart pipeline
	target/release/pipe run pipelines/quickstart.yaml

build: libtorch ## build pipe and pipe-worker into target/release
	$(CARGO) build $(PROFILE)

# Where `make install` puts the programs. DESTDIR is put in front of it, for those who build packages.
PREFIX ?= /usr/local
PLACE := $(DESTDIR)$(PREFIX)

install: build ## install pipe and pipe-worker, with completions, below $PREFIX
	install -d $(PLACE)/bin $(PLACE)/share/bash-completion/completions $(PLACE)/share/zsh/site-functions \
	    $(PLACE)/share/fish/vendor_completions.d
	install target/release/pipe target/release/pipe-worker $(PLACE)/bin
	target/release/pipe completions bash > $(PLACE)/share/bash-completion/completions/pipe
	target/release/pipe completions zsh > $(PLACE)/share/zsh/site-functions/_pipe
	target/release/pipe completions fish > $(PLACE)/share/fish/vendor_completions.d/pipe.fish

WHEEL_ENV := .wheel-env

wheel: build ## build a wheel with pipe and pipe-worker into target/wheels
	@test -x $(WHEEL_ENV)/bin/maturin || { python3 -m venv $(WHEEL_ENV) && $(WHEEL_ENV)/bin/pip install --quiet 'maturin>=1.9,<2'; }
	rm -rf target/wheel target/wheels
	mkdir -p target/wheel/scripts
	strip -o target/wheel/scripts/pipe-worker target/release/pipe-worker
	$(WHEEL_ENV)/bin/maturin build $(PROFILE) --compatibility linux --out target/wheels
	@echo "install it with: pip install $$(ls target/wheels/*.whl)"

# `pipe-faults` is a program of its own and not a test of the package: as a dev-dependency it would change features of
# crates that everything uses, and all of it, with the C++ binding of libtorch, would be compiled twice.
test: build ## run all tests, and inject faults for a minute
	$(CARGO) test $(PROFILE)
	$(CARGO) run $(PROFILE) -p pipe-faults -- run --budget 40s --seed 1 \
	    --only kill,kill-edit,signal,kill-call,damage,input,clock,upkeep

# The time for trials, and what the faults are drawn from.
BUDGET ?= 10m
SEED ?= 1

faults: build ## inject faults for $BUDGET, drawn from $SEED, and check that pipe recovers (docs/faults.md)
	$(CARGO) run $(PROFILE) -p pipe-faults -- run --budget $(BUDGET) --seed $(SEED)

lint: libtorch ## check formatting, lints and the licences of dependencies; warnings are errors
	$(CARGO) fmt --all --check
	scripts/check-dependencies
	$(CARGO) clippy $(PROFILE) --all-targets -- -D warnings

verify: build ## check the pipelines against their locks, and compute the quickstart twice
	docs/ci/verify.sh pull-request

relock: build ## run $PIPELINES, or all pipelines with a lock, and rewrite their locks
	docs/ci/verify.sh relock $(PIPELINES)

bench-%: build ## run benches/<name>, which prints its values last, as `name value unit`
	@test -x benches/$* || { echo "there is no benchmark '$*'; the benchmarks are in benches/" >&2; exit 1; }
	@benches/$* $(ARGS)

book: ## build the documentation as a book in target/book; needs mdbook
	@command -v mdbook > /dev/null || { echo "mdbook is missing; install it with: cargo install mdbook" >&2; exit 1; }
	mdbook build docs

libtorch: tools ## fetch libtorch into .libtorch, if it is not there
	@$(GET_LIBTORCH) $(MEANWHILE)

tools:
	@scripts/check-tools

clean: ## remove the build; keep .libtorch and the cache
	$(CARGO) clean --target-dir target
