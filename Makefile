SHELL := /bin/bash
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Without templates and traces, which nothing here uses, the linker leaves out methods that nobody calls: a fifth of each program.
TAGS := grpcnotrace,urfave_cli_no_template
GOBUILD := CGO_ENABLED=0 go build -trimpath -tags $(TAGS) -ldflags "-s -w -X main.version=$(VERSION)"

.PHONY: help build demo demo-loss matrix demo-drain demo-kubernetes bench chaos soak test unit lint fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## both programs, static, into bin/
	$(GOBUILD) -o bin/quiesce ./plugin
	$(GOBUILD) -o bin/quiesce-installer ./installer

demo: ## the main job on a throwaway real node: the story, out/demo.json and out/evidence/ (needs root)
	go run ./test/demo

demo-loss: ## 50 exit codes over 20 restarts, and the same without quiesce: out/loss.json, out/evidence/ (needs root)
	go run ./test/loss/demo

demo-drain: ## PostgreSQL and 100 pods while a node's services stop, with quiesce and as people stop nodes today: out/drain.json, out/drain.svg (needs root)
	go run ./test/drain/demo

demo-kubernetes: ## the reported Job on real Kubernetes nodes, with and without quiesce: out/kubernetes.json, out/evidence/ (needs root)
	go run ./test/kubernetes/demo

bench: ## quiesce against its peers and the floor: a table, and out/bench.json; BENCH_LINES=1,3 measures a part (needs root, and a quiet machine)
	go run ./test/bench

chaos: ## look for a promise that does not hold: out/chaos.json; CHAOS_SEED=N gives the same again, MUTANT=NAME breaks one (needs root)
	go run ./test/chaos

matrix: ## edits of 69 real configs on every containerd: out/matrix.json; MATRIX_DIR names another directory of configs (needs root)
	go run ./test/matrix

soak: ## two hours of pods and changes that come and go: out/soak.json, out/soak.svg; SOAK=10m for less (needs root)
	go run ./test/soak -time $(or $(SOAK),2h)

test: ## all tests, those on real nodes included; out/test.json has them as JSON (needs root)
	go run ./test/node/prepare -all
	go build -race ./...
	go run ./test/gotest -json-file out/test.json -- -p 1 -race -shuffle=on -timeout 60m ./... # the nodes of one package are enough for two cores

unit: ## the tests that need no node
	go test -race -shuffle=on -short ./plugin/... ./installer/... ./manifests/... ./test/repo/...

lint: ## go vet and golangci-lint
	go vet ./...
	go run ./test/lint

fuzz: ## 20 seconds of each fuzz target; FUZZTIME=10m for more, FUZZ=PATTERN for some
	go run ./test/chaos -out out/fuzz -parts fuzz -fuzztime $(or $(FUZZTIME),20s)

clean: ## remove what make made; the cache of tools and root file systems stays
	rm -rf bin out
