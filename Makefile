# `make help` lists what there is to make. Every tool is pinned here and built
# once into TOOLS; CI calls the same targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TOOLS  ?= $(CURDIR)/.cache/bin
CACHE  := $(CURDIR)/.cache
DATA   ?= $(CURDIR)/data
ARGS   ?=
export PATH := $(TOOLS):$(PATH)

# Tests that take minutes, or programs that a test run should not need, have
# packages of their own and a target each.
HEAVY    := integration/(chaos|interop|bench|cold)($$|/)
FUZZTIME ?= 10s
CHAOS_TIME ?= 60s
BASE     ?= main

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##
## Run

.PHONY: run
run: ## Start all services in one process, data under ./data (ARGS="--flag …" are passed on)
	go run ./services/sluice/cmd/sluice serve --data-dir "$(DATA)" $(ARGS)

.PHONY: image
image: build bin/etcd bin/ca-certificates.crt ## Build the Docker images sluice and sluice-etcd of what was built here
	DOCKER_BUILDKIT=1 docker build -f deploy/Dockerfile --build-arg BINARIES=prebuilt -t sluice .
	DOCKER_BUILDKIT=1 docker build -f deploy/Dockerfile --build-arg BINARIES=prebuilt --target etcd -t sluice-etcd .

.PHONY: up
up: build bin/ca-certificates.crt ## Start the image in Docker (TELEMETRY=1: beside Prometheus and a trace viewer)
	BINARIES=prebuilt $(if $(TELEMETRY),OTLP_ENDPOINT=jaeger:4317) docker compose $(if $(TELEMETRY),--profile telemetry) up --build $(ARGS)

.PHONY: up-cluster
up-cluster: build bin/etcd bin/ca-certificates.crt ## Start a cluster in Docker: an etcd and two processes of each service
	BINARIES=prebuilt docker compose -f deploy/cluster.yaml up --build $(ARGS)

.PHONY: try-images
try-images: build bin/etcd bin/ca-certificates.crt ## Start images and clusters in Docker, kill and check them (installs what is missing, as root)
	deploy/try.sh

.PHONY: demo
demo: build ## Load this repository's git history into a topic, read it back across a kill -9
	go run ./integration/demo -sluice bin/sluice -repository .

##
## Build and test

.PHONY: build
build: ## Build bin/sluice
	CGO_ENABLED=0 go build -trimpath -o bin/sluice ./services/sluice/cmd/sluice

.PHONY: test
test: $(TOOLS)/.gotestsum $(TOOLS)/etcd ## Run the tests under the race detector (ARGS="-run … -count …")
	ETCD_BINARY=$(TOOLS)/etcd gotestsum --format pkgname-and-test-fails -- -race -tags invariants $(ARGS) $$(go list work | grep -vE '$(HEAVY)')

.PHONY: chaos
chaos: build $(TOOLS)/etcd ## Kill a real server at random moments under writers (CHAOS_TIME=60s for each test)
	CHAOS_TIME=$(CHAOS_TIME) SLUICE_BINARY=$(CURDIR)/bin/sluice ETCD_BINARY=$(TOOLS)/etcd go test -count 1 -timeout 60m -v $(ARGS) ./integration/chaos/...

.PHONY: interop
interop: build $(CACHE)/typescript/.installed $(CACHE)/python/.installed $(CACHE)/serializers/.installed ## Have foreign programs read and write (needs java and mvn)
	SLUICE_BINARY=$(CURDIR)/bin/sluice go test -count 1 -timeout 30m -v $(ARGS) ./integration/interop/...

.PHONY: cold
cold: build $(TOOLS)/.versitygw ## Test cold storage on a real S3 server, also one that refuses, is slow or dies
	SLUICE_BINARY=$(CURDIR)/bin/sluice go test -count 1 -timeout 30m -v $(ARGS) ./integration/cold/...

.PHONY: bench
bench: build ## Measure throughput and latency beside the bare disk and Apache Kafka (ARGS="-bench Engine")
	SLUICE_BINARY=$(CURDIR)/bin/sluice go test -count 1 -timeout 120m -run '^$$' -bench . -benchtime 3s $(ARGS) ./integration/bench/...

.PHONY: fuzz
fuzz: ## Run every fuzz target (FUZZTIME=10s each)
	tools/fuzz.sh $(FUZZTIME)

##
## Lint and format

.PHONY: lint
lint: $(TOOLS)/.golangci-lint $(TOOLS)/.buf proto-deps ## Check Go and protos, protos against main too (BASE=…)
	golangci-lint run --allow-parallel-runners $$(go list -m -f '{{.Dir}}/...')
	go test -count 1 ./tools/lint
	buf lint
	tools/breaking.sh $(BASE)

.PHONY: fmt
fmt: $(TOOLS)/.golangci-lint $(TOOLS)/.buf ## Format Go and protos
	golangci-lint fmt $$(go list -m -f '{{.Dir}}')
	buf format -w proto

##
## Generated code

.PHONY: proto-deps
proto-deps: $(CACHE)/googleapis/google/api/annotations.proto ## Print Google's protos that ours import into .cache

$(CACHE)/googleapis/google/api/annotations.proto: tools/googleapis/main.go tools/go.mod
	go run ./tools/googleapis $(CACHE)/googleapis
	@touch $@

.PHONY: generate
generate: $(TOOLS)/.buf $(TOOLS)/.protoc-gen-go $(TOOLS)/.protoc-gen-go-grpc $(TOOLS)/.protoc-gen-grpc-gateway $(TOOLS)/.protoc-gen-openapiv2 $(CACHE)/typescript/.installed $(CACHE)/python/.installed proto-deps ## Generate gen/ from proto/
	buf generate
	PATH="$(CACHE)/typescript/node_modules/.bin:$$PATH" buf generate --template buf.gen.public.yaml
	go run ./tools/openapi gen/openapi/sluice.swagger.json tools/openapi/patch.json
	rm -rf gen/python && mkdir -p gen/python
	cd proto/public && $(CACHE)/python/bin/python -m grpc_tools.protoc -I . -I $(CACHE)/googleapis \
	  --python_out=$(CURDIR)/gen/python --pyi_out=$(CURDIR)/gen/python --grpc_python_out=$(CURDIR)/gen/python \
	  $$(find sluice -name '*.proto' | sort)

.PHONY: verify-generate
verify-generate: generate ## Fail if gen/ is not what proto/ says
	@if [ -n "$$(git status --porcelain -- gen)" ]; then git status --short -- gen; git diff --stat -- gen; \
	  echo "gen/ is not what proto/ says: commit what 'make generate' made"; exit 1; fi

##
## Tools

.PHONY: tools
tools: $(TOOLS)/.buf $(TOOLS)/.protoc-gen-go $(TOOLS)/.protoc-gen-go-grpc $(TOOLS)/.protoc-gen-grpc-gateway $(TOOLS)/.protoc-gen-openapiv2 $(TOOLS)/.golangci-lint $(TOOLS)/.gotestsum ## Build the pinned Go tools

# $(call tool,name,package,version): TOOLS/.name is newer than this file once
# the tool stands there in the version that this file pins.
define tool
$(TOOLS)/.$(1): Makefile
	@mkdir -p $(TOOLS)
	@[ "$$$$(cat $$@ 2>/dev/null)" = "$(3)" ] && [ -x $(TOOLS)/$(1) ] || { echo "build $(1) $(3)"; GOBIN=$(TOOLS) go install $(2)@$(3); }
	@echo "$(3)" > $$@
endef
$(eval $(call tool,buf,github.com/bufbuild/buf/cmd/buf,v1.75.0))
$(eval $(call tool,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go,v1.36.12))
$(eval $(call tool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc,v1.6.2))
$(eval $(call tool,protoc-gen-grpc-gateway,github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-grpc-gateway,v2.33.0))
$(eval $(call tool,protoc-gen-openapiv2,github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2,v2.33.0))
$(eval $(call tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,v2.15.0))
$(eval $(call tool,gotestsum,gotest.tools/gotestsum,v1.13.0))
# An S3 server, for `make cold`.
$(eval $(call tool,versitygw,github.com/versity/versitygw/cmd/versitygw,v1.8.0))

bin/etcd: $(TOOLS)/etcd
	@mkdir -p bin
	cp $< $@

# Whom the images trust: as this machine does.
bin/ca-certificates.crt:
	@mkdir -p bin
	cp $(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem)) $@

# The etcd that tests of separate services run, in the version that we embed.
$(TOOLS)/etcd: integration/go.mod
	@mkdir -p $(TOOLS)
	CGO_ENABLED=0 go build -trimpath -o $@ go.etcd.io/etcd/server/v3

$(CACHE)/typescript/.installed: tools/typescript/package.json tools/typescript/package-lock.json
	@mkdir -p $(CACHE)/typescript
	cp tools/typescript/package.json tools/typescript/package-lock.json $(CACHE)/typescript
	cd $(CACHE)/typescript && npm ci --silent
	@touch $@

$(CACHE)/serializers/.installed: tools/serializers/requirements.txt
	python3 -m venv $(CACHE)/serializers
	$(CACHE)/serializers/bin/python -m pip install --quiet --disable-pip-version-check -r tools/serializers/requirements.txt
	@touch $@

$(CACHE)/python/.installed: tools/python/requirements.txt
	python3 -m venv $(CACHE)/python
	$(CACHE)/python/bin/python -m pip install --quiet --disable-pip-version-check -r tools/python/requirements.txt
	@touch $@

.PHONY: clean
clean: ## Remove what was built; data and tools stay
	rm -rf bin dist
	find . -name '*.test' -not -path './.cache/*' -delete
