# "make test" and "make check" need Go and a POSIX shell. Lanes that need more say SKIPPED where it is missing.
#
#   make test     formatting, vet, build and tests with -short: what to run before a commit (two minutes)
#   make check    form and size: formatting, vet, staticcheck, lines by package
#   make ci       every lane and all tests (CONTRIBUTING.md); "make test ci" runs what both have once
#   make bench    benchmarks; BENCH=regexp selects
#   make gen      rewrite all generated files: assembly and docs
#   make docs     rewrite the generated docs only
#   make size     lines by package and their budget; "go run ./internal/tools/size -update" lowers it
#
#   make test-long      what takes a night: absurd calls, losses of power, fuzzing, mutants ("scripts/check-long -list")
#   make kernels        compile the CUDA kernels that have changed (the compilers come from PyPI)
#   make kernels-check  compile all of them again and look at their machine code (docs/KERNEL-IMAGES.md)
#
# Each lane is a target too, such as "make race".

LANE       := scripts/lane
GENERATORS := $(patsubst %/go.mod,%,$(wildcard internal/tools/*/go.mod))
BENCH      := .

# What depends on the tier of CPU kernels, tested with -short but in test-long, and what uses several
# goroutines. The training runs of the examples are in "tests" alone. "race" leaves out the arithmetic
# of kernels, which is slow there and tested elsewhere, and with -short long runs.
TIERED := ./kernels/cpu/... ./tensor/... ./autograd/... ./amp/... ./nn/... ./optim/...
SHORT  := -short
RACED  := ./internal/pool ./kernels/cpu ./kernels/cpu/internal/par ./tensor/... ./autograd/... ./amp/... ./nn/... \
          ./optim/... ./data/... ./checkpoint ./examples/server ./train ./internal/testing/faults

# The lanes of "make test", and what "make ci" has beside them, the cheapest first.
TEST := format vet build tests
MORE := vet-all static size platforms modules generated lattice whole portable avx2 avx512 arm64 race safetensors emu cuda cuda-header images

.PHONY: test check ci test-long bench gen docs start kernels kernels-check $(TEST) $(MORE)
.NOTPARALLEL:

test: start $(TEST)
	@$(LANE) --report

check: start format vet vet-all static size

ci: start $(TEST) $(MORE)
	@$(LANE) --report

start:
	@mkdir -p build; rm -f build/lanes.txt

format:
	@$(LANE) gofmt scripts/check-format
vet:
	@$(LANE) vet go vet ./...
vet-all:
	@$(LANE) vet-all scripts/check-vet
static:
	@$(LANE) staticcheck scripts/check-static
size:
	@$(LANE) size go run ./internal/tools/size
build:
	@$(LANE) build go build ./...
platforms:
	@$(LANE) platforms scripts/check-platforms
modules:
	@$(LANE) modules scripts/check-modules
generated:
	@$(LANE) generated scripts/check-generated
lattice:
	@$(LANE) lattice go test -count=1 ./internal/testing/lattice
tests:
	@$(LANE) tests go test -short ./...
whole:
	@$(LANE) whole scripts/check-whole
portable avx2 avx512:
	@$(LANE) $@ scripts/check-tier $@ $(SHORT) $(TIERED)
arm64:
	@$(LANE) arm64 scripts/check-arm64
race:
	@$(LANE) race scripts/check-race $(RACED)
safetensors:
	@$(LANE) safetensors scripts/check-safetensors
emu:
	@$(LANE) emu scripts/check-emu
cuda:
	@$(LANE) cuda scripts/check-cuda
cuda-header:
	@$(LANE) cuda-header scripts/check-cuda-header
images:
	@$(LANE) images scripts/check-kernels

test-long: start
	@$(LANE) long scripts/check-long

bench:
	go test -run '^$$' -bench '$(BENCH)' -timeout 1h ./bench

gen:
	for dir in $(GENERATORS); do (cd $$dir && go run .) || exit 1; done
	go run ./internal/tools/gencuda
	$(MAKE) docs

docs:
	go run ./internal/tools/opsdoc

kernels:
	scripts/cuda-toolchain
	go run ./internal/tools/kernelc build

kernels-check:
	scripts/cuda-toolchain
	go run ./internal/tools/kernelc check
