# CI runs `make check`, by .ci/run. `make help` lists all targets.

GO        ?= go
# The race detector needs a C compiler. Without one the tests run without it.
RACE      ?= $(if $(shell command -v $${CC:-gcc}),-race)
FUZZTIME  ?= 20s
BENCHTIME ?= 2s
# Random walks: of whole workers in `make walks` and in `make sim-workers`, and
# of each of some two dozen tests of the core in `make sim-core`.
WALKS     ?= 25
BUBBLES   ?= 2000
CORE      ?= 5000
TREES     ?= 1000
RUNS      ?= 1000000
WAITING   ?= 100000
WORKLOAD  ?= leaf
STYLE     ?= call
DEMO_call  = bin/axe run lead --agents configs/examples "Review this repository's own files"
DEMO_spawn = bin/axe run explorer --agents configs/examples/spawn "What should a newcomer know?"
DEMO_slash = bin/axe run scout --agents configs/examples/slash "What should a newcomer know?"
DEMO_supervised = bin/axe run builder --agents configs/examples/supervised "Mend the cache"
DEMO_tools = configs/examples/mender/demo bin bin/demo
DEMO_mail  = bin/axe run editor --agents configs/examples/mail "What should a newcomer know?"
CHAOS     ?= .
SOAK      ?= 20m

TOOLS := .tmp
LINT  := $(TOOLS)/golangci-lint
CONF  := .ci/golangci.yml
SBOM  := $(TOOLS)/cyclonedx-gomod
VULN  := $(TOOLS)/govulncheck

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## a tree of three levels reviews this repository, offline: no key, no server; STYLE is call, spawn, mail, slash, supervised or tools
	$(if $(DEMO_$(STYLE)),,$(error no STYLE "$(STYLE)": want call, spawn, mail, slash, supervised or tools))
	@echo "building bin/axe, which takes half a minute at the first time" >&2
	@$(GO) build -o bin/ ./cmd/axe ./cmd/agentd
	$(DEMO_$(STYLE)) >bin/answer.md
	@awk 'NR <= 3; END { print "the whole answer: bin/answer.md, " NR " lines" }' bin/answer.md

.PHONY: build
build: ## build bin/agentd, bin/axe-submit and bin/axe
	$(GO) build -o bin/ ./cmd/agentd ./cmd/axe-submit ./cmd/axe

# Three packages run at a time, because many tests wait. The slowest ones are the
# first. Chaos tests are not here but in walks. Make vet reads the tests too, so
# go test need not: it would do so once with the race detector and once without.
PACKAGES = ./agentd ./cmd/internal/web ./cmd ./internal/mcpserver ./bus \
	$$($(GO) list ./... | grep -v '^github.com/axebus/axe/cmd/internal/chaostest$$')

.PHONY: test
test: ## run the tests with the race detector, but for those that take their time
	@echo "packages print as they end; the first ones take a minute to compile" >&2
	.ci/inmemory $(GO) run .ci/test.go -vet=off $(RACE) -short -p 3 -shuffle=on -timeout 20m $(PACKAGES)

# The packages with tests that are skipped with -short, but for those that have
# a line of their own in walks.
RACED = $(filter-out cmd/internal/chaostest $(STARTERS),$(sort $(patsubst %/,%,$(dir \
	$(shell grep -rl --include='*_test.go' 'testing\.Short()' agentd bus client cmd configs internal provider subjects)))))

# The tests of agentd that take random walks, kill a worker at a step, or meet a
# race by chance. With -rapid.checks they leave out no step. They run without the
# race detector, with which they take four times as long. A part of each runs
# with it before: in make test, or with PARTS below. Only the two tests of large
# bodies never do.
THOROUGH = Test(LargeBodies|HostileLargeBodies|ReferencesOnReplicas|CrashAnywhere|ZombieAnywhere|BudgetAfterACrash|DecisionsSurviveCrashes|ReplyAndCallShareOneSlot|MailTakenOnce|SimWorkersDie)$$

# Tests that start programs, or compile, and do little themselves: the race
# detector would see nothing of the programs, and the tests would take twice as
# long.
STARTERS = cmd cmd/internal/bench

# The other ones take five times as long with the race detector, so half of them
# run with it. The id of the commit decides which half. make walks PARTS=1 runs
# all of them with it.
PARTS ?= 2
PART  ?= $(shell printf %d 0x0$$(git rev-parse HEAD 2>/dev/null | cut -c1-7))

# Chaos tests leave more than half of the processors unused. The walks beside
# them have a lower priority, and most take simulated time.
.PHONY: walks
walks: ## run the tests that take their time, kill real processes, kill a worker at each of its steps, and take WALKS (25) random walks of whole workers
	.ci/beside '$(GO) test -vet=off ./cmd/internal/chaostest -count=1' \
		".ci/inmemory $(GO) test -vet=off ./agentd -count=1 -timeout 25m -run '$(THOROUGH)' -rapid.checks=$(WALKS)"
	.ci/inmemory $(GO) run .ci/test.go -vet=off $(RACE) -p 4 -timeout 25m -run "$$(PART=$(PART) PARTS=$(PARTS) .ci/long $(RACED))" $(RACED:%=./%)
	.ci/inmemory $(GO) run .ci/test.go -vet=off -p 4 -timeout 25m -run "$$(.ci/long $(RACED) $(STARTERS))" -skip "$$(PART=$(PART) PARTS=$(PARTS) .ci/long $(RACED))" $(RACED:%=./%) $(STARTERS:%=./%)

.PHONY: check
check: build vet fix format lint arrows tidy licences vuln deploy-check test walks ## everything that CI runs

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

.PHONY: fix
fix: ## fail on an outdated idiom (go fix ./... mends it)
	$(GO) fix -diff ./...

.PHONY: format
format: $(LINT) ## fail on a file that is not formatted
	$(LINT) fmt -c $(CONF) --diff

.PHONY: lint
lint: $(LINT) ## run the linters, and hold comments to 80 columns and to plain words
	$(LINT) run --allow-parallel-runners -c $(CONF)
	$(GO) test -count=1 -run 'Prose|Shape' ./cmd

.PHONY: arrows
arrows: ## fail on an import against the table in cmd/arch_test.go
	$(GO) test -count=1 -run Arrows ./cmd

.PHONY: deploy-check
deploy-check: ## check compose.yaml, the chart and the image with the libraries of Compose, Helm and Kubernetes, and buildah
	cd deploy/check && $(GO) vet ./... && $(GO) test -vet=off -count=1 ./...

.PHONY: tidy
tidy: ## fail on a go.mod that is not tidy
	$(GO) mod tidy -diff

.PHONY: licences
licences: ## fail on a module of the programs with a licence that is not allowed
	$(GO) run -modfile=.ci/licences.mod .ci/licences.go ./cmd/...

.PHONY: vuln
vuln: $(VULN) ## fail on a known vulnerability in code that is called; without the database, say so
	.ci/vuln $(VULN)

.PHONY: bench
bench: build ## measure what runs cost, as ratios to raw JetStream (axe bench), 10,000 idle forks, one stream beside four, groups of writes, and reads after long waits
	-bin/axe bench
	$(GO) test -run '^$$' -bench 'OneSlot|Idle' -benchtime $(BENCHTIME) ./agentd
	$(GO) test -run '^$$' -bench 'Partitions|GroupCommit|ReadSince' -benchtime $(BENCHTIME) ./bus

.PHONY: scale
scale: build ## the same with RUNS (a million) on one stream, WAITING (100,000) of which wait, and 500 agents on a worker; then lists of trees on as many
	bin/axe bench --only scale --runs $(RUNS) --waiting $(WAITING)
	bin/axe bench --only view --runs $(RUNS)

.PHONY: profile
profile: build ## where processor time goes, in each process, while WORKLOAD (leaf) is measured
	rm -rf bin/profile
	-bin/axe bench --only $(WORKLOAD) --for 10s --profile bin/profile
	for cpu in bin/profile/*.cpu.pprof; do $(GO) tool pprof -top -nodecount 25 $$cpu || exit; done

.PHONY: fuzz
fuzz: ## fuzz every target for FUZZTIME (20s)
	.ci/fuzz $(FUZZTIME)

.PHONY: sim
sim: sim-core sim-workers ## random walks, by the thousand, of the core and of whole workers

.PHONY: sim-core
sim-core: ## 100,000 random walks of the core and of the protocol around it, with figures
	.ci/sim ./agentd/run 'TestSim(Apply|Protocol)$$' $(CORE)

.PHONY: sim-workers
sim-workers: ## 2,000 random walks of whole workers that die, with figures (BUBBLES)
	.ci/sim ./agentd 'TestSimWorkersDie$$' $(BUBBLES)

.PHONY: faults
faults: ## plant mistakes, each in a copy of the code of its own: the tests have to find each
	$(GO) test -run 'TestFaults' -count=1 -v -timeout 4h ./cmd -faults

.PHONY: chaos
chaos: ## real processes under random faults, for 75 minutes: TREES (1000) for each scenario, or for CHAOS=kill alone
	AXE_CHAOS_TREES=$(TREES) $(GO) test -run 'TestChaos/$(CHAOS)' -count=1 -v -timeout 4h ./cmd/internal/chaostest

.PHONY: soak
soak: ## trees at a steady rate for SOAK (20m), each kept for KEEP (a quarter of that, at most 5m): messages, bytes, memory and files have to level off
	AXE_SOAK=$(SOAK) AXE_SOAK_KEEP=$(KEEP) $(GO) test -run 'TestSoak$$' -count=1 -v -timeout 0 ./cmd/internal/chaostest

.PHONY: proofs
proofs: ## cancel 300 running runs and 300 commands, a model slower than twenty leases, budgets of a tree, a provider that asks to wait, mail under 1,000 deaths
	$(GO) test -count=1 -v -run 'TestCancelManyAtWork|TestSlowModel$$|TestMax(Agents|Turns|Tokens)|TestRetryAfterStopsAllWorkers' ./agentd
	$(GO) test -count=1 -v -timeout 30m ./agentd -run 'Test(MailTakenOnce|CancelManyCommands)$$' -rapid.checks=250

.PHONY: peers
peers: ## real programs of others, from npm: MCP servers, a fake of model providers, a service of nats.js; needs node
	mkdir -p $(TOOLS)/peers
	cp .ci/peers/package.json .ci/peers/package-lock.json $(TOOLS)/peers
	npm ci --prefix $(TOOLS)/peers --ignore-scripts --no-audit --no-fund
	AXE_PEERS=$(abspath $(TOOLS)/peers) $(GO) test -count=1 -v -run 'Test(Reference|Peer)' ./internal/mcpclient ./cmd

.PHONY: release
release: $(SBOM) ## archives, checksums and SBOMs of this commit in dist/, for PLATFORMS (linux and darwin, amd64 and arm64)
	CYCLONEDX=$(abspath $(SBOM)) .ci/release dist
	@ls -l dist

.PHONY: release-check
release-check: $(SBOM) ## build the release in two clones, the second without a build cache, and compare the checksums
	CYCLONEDX=$(abspath $(SBOM)) .ci/release $(TOOLS)/release
	GOCACHE=$(abspath $(TOOLS)/cache) CYCLONEDX=$(abspath $(SBOM)) .ci/release $(TOOLS)/again
	diff $(TOOLS)/release/SHA256SUMS $(TOOLS)/again/SHA256SUMS
	rm -rf $(TOOLS)/release $(TOOLS)/again $(TOOLS)/cache

# With docker, podman or buildah: the first one that is there.
BUILDER ?= $(shell command -v docker || command -v podman || command -v buildah)

.PHONY: image
image: ## build the image axe, which has the three programs, with docker, podman or buildah
	deploy/docker/context bin/image
	$(BUILDER) build --tag axe bin/image

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist $(TOOLS)

# The tools have a module file of their own, so that they never enter go.mod.
$(LINT): .ci/tools.mod .ci/tools.sum
	$(GO) build -modfile=.ci/tools.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

$(VULN): .ci/vuln.mod .ci/vuln.sum
	$(GO) build -modfile=.ci/vuln.mod -o $@ golang.org/x/vuln/cmd/govulncheck
	@touch $@

$(SBOM): .ci/release.mod .ci/release.sum
	CGO_ENABLED=0 $(GO) build -modfile=.ci/release.mod -trimpath -buildvcs=false -o $@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	@touch $@
