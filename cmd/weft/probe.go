package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/weft-ml/weft/kernels"
)

const aboutProbe = `
weft probe measures what units of a GPU and its driver do by themselves, in less than 40 seconds, and prints one line of
JSON: the latency of a load from caches and memory, the bandwidth of loads by their width and the bytes in flight on a
multiprocessor, mma.sync, wgmma and fma (a chain alone, and all chains that fit), launches, graphs and a node more,
loading of modules, allocation, copies of pinned memory. What operations reach beside that, scripts/gpu-check measures.

`

// probe prints what a GPU's units and its driver do by themselves.
func probe(args []string, stdout, stderr io.Writer) (err error) {
	f := flag.NewFlagSet("probe", flag.ContinueOnError)
	device := f.String("device", "cuda", "the GPU: cuda, cuda:1, ...")
	small := f.Bool("small", false, "small sizes, for the emulator: the figures mean nothing")
	f.Usage = func() {
		fmt.Fprint(stderr, aboutProbe)
		f.PrintDefaults()
	}
	if err := parse(f, args, stderr); err != nil {
		return err
	}
	dev, err := kernels.Open(*device)
	if err != nil {
		return err
	}
	if c, ok := dev.(io.Closer); ok {
		defer c.Close()
	}
	gpu, ok := dev.(interface {
		Probe(small bool) (map[string]any, error)
	})
	if !ok {
		return fmt.Errorf("%s is no GPU", *device)
	}
	figures, err := gpu.Probe(*small)
	if err != nil {
		return err
	}
	figures["device"], figures["rehearsal"] = dev.Name(), *small
	return json.NewEncoder(stdout).Encode(figures)
}
