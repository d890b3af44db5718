# `make help` lists what there is. Every call does only what is not done yet.

# cpu or cuda: which libtorch is fetched and built against. LIBTORCH=/path names one of your own.
TORCH ?= cpu
CARGO ?= cargo

# One profile for everything, so that libtorch's C++ binding is compiled once.
PROFILE := --release --locked --target-dir target

ifeq ($(filter cpu cuda,$(TORCH)),)
$(error TORCH=$(TORCH) is not known: use TORCH=cpu or TORCH=cuda)
endif

ifneq ($(LIBTORCH),)
override LIBTORCH := $(abspath $(LIBTORCH))
export LIBTORCH
GET_LIBTORCH := python3 scripts/libtorch.py check "$(LIBTORCH)"
else
ifeq ($(TORCH),cuda)
export LIBTORCH := $(CURDIR)/.libtorch/cuda
else
unexport LIBTORCH # .cargo/config.toml names .libtorch/cpu
endif
GET_LIBTORCH := python3 scripts/libtorch.py fetch $(TORCH)
endif

.PHONY: help run build test lint verify relock libtorch tools clean

help: ## this list
	@sed -n 's/^\([a-z<>%-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sed 's/%/<name>/' | expand -t 16
	@echo
	@echo "TORCH=cuda make build       builds against libtorch for NVIDIA GPUs"
	@echo "LIBTORCH=/path make build   builds against a libtorch that you have"

run: build ## build, then run the quickstart pipeline
	target/release/pipe run pipelines/quickstart.yaml

build: libtorch ## leave pipe and pipe-worker in target/release
	$(CARGO) build $(PROFILE)

test: build ## run all tests
	$(CARGO) test $(PROFILE)

lint: libtorch ## check formatting and lints, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(PROFILE) --all-targets -- -D warnings

verify: build ## hold the pipelines to their locks, and run the quickstart twice
	docs/ci/verify.sh pull-request

relock: build ## compute $PIPELINES, or all that have locks, and write their locks anew
	docs/ci/verify.sh relock $(PIPELINES)

bench-%: build ## run benches/<name>, which prints its figures last, as `name value unit`
	@test -x benches/$* || { echo "there is no benchmark '$*': see benches/" >&2; exit 1; }
	@benches/$* $(ARGS)

libtorch: tools ## fetch libtorch into .libtorch, once
	@$(GET_LIBTORCH)

tools:
	@scripts/check-tools

clean: ## remove what was built; keeps .libtorch and the cache
	$(CARGO) clean --target-dir target
