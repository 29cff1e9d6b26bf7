// Package bench holds the speed table: matrix products, pointwise and row operations, training steps and the host's
// cost of an operation, each beside PyTorch and compiled JAX on the same machine, in the same run and in turn.
//
//	go test -run '^$' -bench Table -timeout 2h ./bench  # all lines; half an hour with all peers
//	go test -run '^$' -bench Table/gelu ./bench          # one line
//	go test -run '^$' -bench Table -benchtime 5s -timeout 4h ./bench -out results/new.jsonl
//	go test ./bench -run README -update                  # the README's table, from the run that readme_test.go names
//
// Every line is measured in turns: Weft, products and the GPT also in half precision, then each peer, then Weft again,
// for -benchtime (default 1 s) and at least five turns. The best and the median call are reported. The ceiling of a
// line is measured in the same turns: the rate of the multiply-add units for products and training steps, the rate of
// copying arrays of that size for the others.
//
// The peers are Python, peer.py, run by $WEFT_PEER (PyTorch) and $WEFT_PEER_JAX, or else /usr/bin/python3 or python3;
// where one is missing, or PyTorch has another BLAS than OpenBLAS and MKL, the table says SKIPPED. PyTorch comes from
// Debian (python3-torch with libopenblas0, python3-torchvision for ResNet-18) or PyPI, JAX from PyPI. They run in
// several variants on every line, and Weft's ratio is that to the fastest of them, because what they lose in these
// ways says nothing about kernels:
//
//   - Their malloc returns memory to the system, so each new output or temporary costs page faults: above 32 MB always,
//     and with 4 MB in PyTorch's AdamW, 1,900 faults a step. "--keep-memory" and "out=reuse" avoid that.
//   - Builds such as Debian's 1.13 choose AVX2 kernels on processors with AVX-512. ATEN_CPU_CAPABILITY selects others.
//   - OpenMP's threads spin when they wait, which takes most of their time on a busy machine:
//     "--passive" lets them sleep.
//
// Results are JSON lines with commit, processor, tier, clock and versions, in results/. The table printed at the end is
// made from the same records. In processing order: table_test.go and layers_test.go list the lines, peer_test.go speaks
// with other processes, measure_test.go takes turns and reports, readme_test.go makes the README's table.
package bench
