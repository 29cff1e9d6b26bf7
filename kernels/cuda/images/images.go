package images

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// Image is one kernel, or a few that are always used together, compiled for one target.
type Image struct {
	Family  string   // the source file without .cu, such as "softmax"
	Symbols []string // the entry points, such as "softmax_fwd_bf16"

	// Target is sm_80 for a cubin of GPUs 8.0 and later 8.x, sm_90a for one of exactly 9.0, and compute_80 for
	// PTX text, which the driver compiles for any GPU from 8.0 on.
	Target string

	Registers int    // of a thread: the most that the budget allows, whoever compiles
	Sum       string // SHA-256 of the code, in hexadecimal
	Text      string // SHA-256 of the source, if that was generated, such as the source of an expression
	Packed    []byte // the code, compressed with the code of Before as dictionary
	Before    *Image // of the same family and target; nil for none
}

// inRow is how many images at most are unpacked to get the code of the last one.
const inRow = 8

// link sets Before: kernels with neighbouring names are much alike.
func link(all []*Image) {
	type group struct{ family, target string }
	last, n := map[group]*Image{}, map[group]int{}
	for _, m := range all {
		g := group{m.Family, m.Target}
		if m.Before = nil; n[g]%inRow > 0 {
			m.Before = last[g]
		}
		last[g] = m
		n[g]++
	}
}

// Pack compresses the codes of images, which are sorted as in a manifest. The same codes give the same bytes.
func Pack(all []*Image, code func(*Image) ([]byte, error)) error {
	link(all)
	for _, m := range all {
		var dictionary []byte
		own, err := code(m)
		if m.Before != nil && err == nil {
			dictionary, err = code(m.Before)
		}
		if err != nil {
			return err
		}
		var b bytes.Buffer
		w, err := flate.NewWriterDict(&b, flate.BestCompression, dictionary)
		if err == nil {
			_, err = w.Write(own)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			return err
		}
		m.Packed = b.Bytes()
	}
	return nil
}

// Code is the cubin or the PTX text.
func (m *Image) Code() ([]byte, error) {
	var dictionary []byte
	var err error
	if m.Before != nil {
		if dictionary, err = m.Before.Code(); err != nil {
			return nil, err
		}
	}
	code, err := io.ReadAll(flate.NewReaderDict(bytes.NewReader(m.Packed), dictionary))
	if err != nil {
		return nil, fmt.Errorf("image %s for %s: %w", m.Symbols[0], m.Target, err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(code)); sum != m.Sum {
		return nil, fmt.Errorf("image %s for %s: the code is not that of the manifest", m.Symbols[0], m.Target)
	}
	return code, nil
}

//go:embed manifest.txt
var manifest string

var all = sync.OnceValue(func() []*Image {
	m, err := Parse(manifest, packs)
	if err != nil {
		panic("kernels/cuda/images: " + err.Error()) // of a damaged build; a test reads what is committed
	}
	return m.Images
})

// All returns the images of this build, which belong to the package.
func All() []*Image { return all() }

// Manifest describes a set of images.
type Manifest struct {
	Compiler string            // with version and options
	Sources  map[string]string // by family, the SHA-256 of its source and of what that includes
	Images   []*Image          // by family, first symbol and target
}

// Parse reads a manifest and takes the images out of the packs of their families. The lines of a manifest are
//
//	compiler TEXT
//	family NAME HASH
//	image SYMBOL[,SYMBOL...] TARGET BYTES REGISTERS HASH [HASH OF A GENERATED SOURCE]
//
// An image is of the family above it, and begins in the pack where the image above it ends.
func Parse(text string, packs map[string][]byte) (*Manifest, error) {
	m := &Manifest{Sources: map[string]string{}}
	var family string
	rest := map[string][]byte{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		kind, value, _ := strings.Cut(line, " ")
		fields := strings.Fields(value)
		switch {
		case kind == "" || kind == "#":
		case kind == "compiler":
			m.Compiler = value
		case kind == "family" && len(fields) == 2:
			family = fields[0]
			if _, twice := m.Sources[family]; twice {
				return nil, fmt.Errorf("manifest: family %s twice", family)
			}
			m.Sources[family] = fields[1]
			rest[family] = packs[family]
		case kind == "image" && len(fields) >= 5:
			size, err := strconv.Atoi(fields[2])
			registers, err2 := strconv.Atoi(fields[3])
			if err := errors.Join(err, err2); err != nil {
				return nil, fmt.Errorf("manifest: %s: %w", line, err)
			}
			g := &Image{Family: family, Symbols: strings.Split(fields[0], ","), Target: fields[1],
				Registers: registers, Sum: fields[4]}
			if len(fields) > 5 {
				g.Text = fields[5]
			}
			pack := rest[family]
			if size < 0 || size > len(pack) {
				return nil, fmt.Errorf("%s.pack ends before the image of %s for %s", family, fields[0], g.Target)
			}
			g.Packed, rest[family] = pack[:size:size], pack[size:]
			m.Images = append(m.Images, g)
		default:
			return nil, fmt.Errorf("manifest: %s", line)
		}
	}
	for family, pack := range rest {
		if len(pack) > 0 {
			return nil, fmt.Errorf("%s.pack has %d bytes more than its images", family, len(pack))
		}
	}
	link(m.Images)
	return m, nil
}

// Lines are the manifest as Parse reads it.
func (m *Manifest) Lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Code generated by make kernels. DO NOT EDIT.\ncompiler %s\n", m.Compiler)
	var family string
	for _, g := range m.Images {
		if g.Family != family {
			family = g.Family
			fmt.Fprintf(&b, "family %s %s\n", family, m.Sources[family])
		}
		line := fmt.Sprintf("image %s %s %d %d %s %s", strings.Join(g.Symbols, ","), g.Target, len(g.Packed),
			g.Registers, g.Sum, g.Text)
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
