package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// target is the folder of package matmul as seen from this module.
const target = "../../../kernels/cpu/internal/matmul"

// command is what makes the files.
const command = "(cd internal/tools/genmatmul && go run .)"

func main() {
	log.SetFlags(0)
	files, err := generate()
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(target, name), text, 0o644)
		}
	}
	if err != nil {
		log.Fatal("genmatmul: ", err)
	}
}

// generate returns the generated files by name.
func generate() (map[string][]byte, error) {
	g := build.NewContext()
	for _, set := range []isa{avx512, avx2} {
		for rows := 1; rows <= set.rows; rows++ {
			microKernel(g, set, rows, 2)
			microKernel(g, set, rows, 1)
			double(g, set, rows)
		}
		copyStrips(g, set)
		gatherStrip(g, set)
		copyPieces(g, set)
		for taps := 1; taps <= mostTaps; taps++ {
			correlate(g, set, taps)
		}
		for rows := 1; rows <= set.pixels; rows++ {
			pixels(g, set, rows)
		}
		slide(g, set)
		peak(g, set)
	}
	copyPanels(g)
	gatherPanel(g)
	copyPlane(g, 1)
	copyPlane(g, 2)
	putPlane(g)
	maskedPlane(g, 1, false)
	maskedPlane(g, 2, false)
	maskedPlane(g, 2, true)
	transpose(g, 8)
	transpose(g, 4)
	tails(g)
	halves(g)
	laneBits(g)

	file, err := g.Result()
	if err != nil {
		return nil, err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return nil, err
	}
	config := printer.Config{Pkg: "matmul", Name: command}
	code, err := printer.NewGoAsm(config).Print(file)
	if err != nil {
		return nil, err
	}
	stubs, err := printer.NewStubs(config).Print(file)
	if err != nil {
		return nil, err
	}
	all := generateNEON()
	all["z_amd64.s"], all["z_amd64.go"] = code, stubs
	return all, nil
}
