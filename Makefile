# The front door. `make` lists what there is; `make run` and `make test` work on a fresh Debian 12 machine.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PROMPT ?= In one sentence, what is a key-value cache?
MODEL ?= models/SmolLM2-135M-Instruct.Q4_1.gguf
DEFAULT_MODEL := models/SmolLM2-135M-Instruct.Q4_1.gguf
ARGS ?=
SECONDS_EACH ?= 60
PREFIX ?= /usr/local

# A word as one argument of the shell, whatever is in it: $(call quoted,NAME) quotes the variable NAME.
quoted = '$(subst ','\'',$(value $1))'

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

.PHONY: deps
deps: ## install the Debian packages that are missing (with sudo where not root)
	@tools/install-deps

.PHONY: build-deps
build-deps:
	@tools/install-deps build test

.PHONY: build
build: build-deps ## build the program, build/quire
	@tools/build release quire

.PHONY: default-model
default-model:
	@$(if $(filter $(DEFAULT_MODEL),$(MODEL)),tools/fetch-models,:)

.PHONY: run
run: build default-model ## answer a prompt: make run PROMPT="..." (also MODEL=FILE, ARGS="--temperature 0")
	@build/quire run -m $(call quoted,MODEL) $(ARGS) -- $(call quoted,PROMPT)

.PHONY: chat
chat: build default-model ## talk with the model at the terminal (also MODEL=FILE, ARGS=...)
	@build/quire run -m $(call quoted,MODEL) $(ARGS)

.PHONY: models
models: build-deps ## fetch every model that the tests use into models/
	@tools/fetch-models --all

.PHONY: test
test: build-deps models ## build and pass all tests, in the release and in the checked build
	@status=0; tools/run-tests release || status=1; tools/run-tests dev || status=1; exit $$status

.PHONY: sanitize
sanitize: build-deps ## the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/run-tests asan-ubsan --unit

.PHONY: tsan
tsan: build-deps ## the unit tests under ThreadSanitizer
	@tools/run-tests tsan --unit

.PHONY: fuzz
fuzz: deps ## every fuzz target for a minute (SECONDS_EACH=60)
	@tools/fuzz $(SECONDS_EACH)

.PHONY: check
check: deps ## the rules that a compiler does not hold: format, layers, sizes, ... (tools/check --list)
	@tools/build release build.ninja
	@tools/check

.PHONY: format
format: deps ## format all C++ sources in place
	@tools/check --fix format

.PHONY: bench
bench: build default-model ## measure prefill and decode of the default model (also MODEL=FILE, ARGS=...)
	@build/quire bench engine -m $(call quoted,MODEL) $(ARGS)

.PHONY: install
install: build ## install the program under PREFIX (/usr/local)
	@install -D -m 755 build/release/quire $(DESTDIR)$(PREFIX)/bin/quire
	@echo "installed $(DESTDIR)$(PREFIX)/bin/quire"

.PHONY: clean
clean: ## remove all that was built; models stay
	@rm -rf build
