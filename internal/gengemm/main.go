package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// target is the folder of package gemm as seen from this module.
const target = "../../kernels/cpu/internal/gemm"

func main() {
	log.SetFlags(0)
	g := build.NewContext()
	for _, set := range []isa{avx512, avx2} {
		for rows := 1; rows <= set.rows; rows++ {
			microKernel(g, set, rows, 2)
			microKernel(g, set, rows, 1)
		}
		copyStrips(g, set)
		peak(g, set)
	}
	tails(g)
	copyPanels(g)
	transpose(g, 8)
	transpose(g, 4)

	file, err := g.Result()
	if err != nil {
		log.Fatal("gengemm: ", err)
	}
	if err := pass.Compile.Execute(file); err != nil {
		log.Fatal("gengemm: ", err)
	}
	config := printer.Config{Pkg: "gemm", Name: "(cd internal/gengemm && go run .)"}
	for name, p := range map[string]printer.Printer{
		"z_amd64.s":  printer.NewGoAsm(config),
		"z_amd64.go": printer.NewStubs(config),
	} {
		text, err := p.Print(file)
		if err != nil {
			log.Fatal("gengemm: ", err)
		}
		if err := os.WriteFile(filepath.Join(target, name), text, 0o644); err != nil {
			log.Fatal("gengemm: ", err)
		}
	}
}
