//go:build emu && cgo && linux

package emu

import (
	"embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/x448/float16"
)

//go:embed testdata/*.cu
var testdata embed.FS

// The tests of this file run the kernels of testdata/vectors*.cu, one for each primitive, and compare with its
// definition in the PTX ISA, written as plainly as possible.

// vectors loads one of the files.
func vectors(t *testing.T, d *Driver, name string) uintptr {
	t.Helper()
	text, err := testdata.ReadFile("testdata/" + name)
	must(t, err)
	return compiled(t, d, name, string(text))
}

// launch1 runs one block.
func launch1(t *testing.T, d *Driver, module uintptr, name string, threads, shared int, args ...any) {
	t.Helper()
	f, err := d.Function(module, name)
	must(t, err)
	if shared > 48<<10 {
		must(t, d.Call("cuFuncSetAttribute", f, 8, shared))
	}
	must(t, d.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{uint32(threads), 1, 1}, shared, 0, args...))
}

func eachDriver(t *testing.T, file string, f func(t *testing.T, d *Driver, module uintptr, r *rand.Rand)) {
	for _, d := range []*Driver{plain, checkedDriver} {
		d := fresh(t, d, "copies", "random", "order", "random")
		f(t, d, vectors(t, d, file), rand.New(rand.NewPCG(1, 1)))
	}
}

func words(r *rand.Rand, n int) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		w[i] = r.Uint32()
	}
	return w
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// halves are the 16-bit elements of words.
func halves(w []uint32) []uint16 { return unsafe.Slice((*uint16)(unsafe.Pointer(&w[0])), 2*len(w)) }

// TestPrimitiveMatrixMoves: lane l has elements 2(l mod 4) and the next one of row l/4 of each 8x8 matrix, or of its
// transpose.
func TestPrimitiveMatrixMoves(t *testing.T) {
	eachDriver(t, "vectors.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		in := words(r, 128)
		m := halves(in)
		for transposed := range 2 {
			want := make([]uint32, 128)
			for l := range 32 {
				for i := range 4 {
					row, column := l/4, l%4*2
					at := func(j int) uint16 {
						if transposed == 1 {
							return m[64*i+8*(column+j)+row]
						}
						return m[64*i+8*row+column+j]
					}
					want[4*l+i] = uint32(at(0)) | uint32(at(1))<<16
				}
			}
			out := upload(t, d, make([]uint32, 128))
			launch1(t, d, module, "v_ldmatrix", 32, 0, upload(t, d, in), out, int32(transposed))
			equal(t, fmt.Sprint("ldmatrix, transposed ", transposed), download[uint32](t, d, out, 128), want)
		}
	})
	eachDriver(t, "vectors_hopper.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		in := words(r, 128)
		want := make([]uint32, 128)
		for l := range 32 {
			for i := range 4 {
				halves(want)[64*i+8*(l/4)+l%4*2] = uint16(in[4*l+i])
				halves(want)[64*i+8*(l/4)+l%4*2+1] = uint16(in[4*l+i] >> 16)
			}
		}
		out := upload(t, d, make([]uint32, 128))
		launch1(t, d, module, "v_stmatrix", 32, 0, upload(t, d, in), out)
		equal(t, "stmatrix", download[uint32](t, d, out, 128), want)
	})
}

// small is an integer of -8 to 8 in half precision, and its value.
func small(r *rand.Rand, bfloat bool) (uint16, float32) {
	x := float32(r.IntN(17) - 8)
	if bfloat {
		return uint16(math.Float32bits(x) >> 16), x
	}
	return float16.Fromfloat32(x).Bits(), x
}

// TestPrimitiveMMA: fragments as the PTX ISA lays them out for m16n8k16. Small integers make sums exact in any order.
func TestPrimitiveMMA(t *testing.T) {
	eachDriver(t, "vectors.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		for bfloat := range 2 {
			var a [16][16]float32
			var b [16][8]float32
			in, c, want := make([]uint32, 32*6), make([]float32, 128), make([]float32, 128)
			for l := range 32 {
				g, k := l/4, l%4*2
				for i := range 4 {
					for h := range 2 {
						bits, x := small(r, bfloat == 1)
						in[6*l+i] |= uint32(bits) << (16 * h)
						a[g+i%2*8][k+h+i/2*8] = x
					}
				}
				for i := range 2 {
					for h := range 2 {
						bits, x := small(r, bfloat == 1)
						in[6*l+4+i] |= uint32(bits) << (16 * h)
						b[k+h+8*i][g] = x
					}
				}
			}
			for l := range 32 {
				for i := range 4 {
					row, column := l/4+i/2*8, l%4*2+i%2
					c[4*l+i] = float32(l)
					want[4*l+i] = float32(l)
					for k := range 16 {
						want[4*l+i] += a[row][k] * b[k][column]
					}
				}
			}
			out := upload(t, d, c)
			launch1(t, d, module, "v_mma", 32, 0, upload(t, d, in), upload(t, d, c), out, int32(bfloat))
			equal(t, fmt.Sprint("mma, bfloat ", bfloat), download[float32](t, d, out, 128), want)
		}
	})
}

func TestPrimitiveAsyncCopy(t *testing.T) {
	eachDriver(t, "vectors.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		in := words(r, 128)
		want := make([]byte, 3*512)
		for i := range want {
			want[i] = []byte{0xef, 0xbe, 0xad, 0xde}[i%4]
		}
		for l := range 32 {
			for k, size := range []int{16, 8, 4} {
				from := unsafe.Slice((*byte)(unsafe.Pointer(&in[4*l])), size)
				for i := range size {
					want[512*k+16*l+i] = 0
					if i < l%(size+1) {
						want[512*k+16*l+i] = from[i]
					}
				}
			}
		}
		out := upload(t, d, make([]byte, 1536))
		launch1(t, d, module, "v_cp_async", 32, 0, upload(t, d, in), out)
		equal(t, "cp.async", download[byte](t, d, out, 1536), want)
	})
}

// TestPrimitiveConversions: to nearest, ties to even; NaN becomes 0x7fff.
func TestPrimitiveConversions(t *testing.T) {
	f16 := func(x float32) uint16 {
		if x != x {
			return 0x7fff
		}
		return float16.Fromfloat32(x).Bits()
	}
	bf16 := func(x float32) uint16 {
		u := math.Float32bits(x)
		if x != x {
			return 0x7fff
		}
		return uint16((u + 0x7fff + u>>16&1) >> 16)
	}
	eachDriver(t, "vectors.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		in := append([]float32{65504, 65519.996, 65520, 0x1p-24, 0x1p-25, 0x1.000002p-25, 0x1.002p0, 0x1.006p0,
			0x1.01p0, 0x1.03p0}, specials...)
		for range 1000 {
			in = append(in, math.Float32frombits(r.Uint32()))
		}
		n := len(in)
		var want []uint32
		for i, x := range in {
			y := in[n-1-i]
			want = append(want, uint32(f16(x)), uint32(bf16(x)), uint32(f16(x))|uint32(f16(y))<<16,
				uint32(bf16(x))|uint32(bf16(y))<<16,
				math.Float32bits(float16.Frombits(f16(x)).Float32()), uint32(bf16(x))<<16)
		}
		out := upload(t, d, make([]uint32, 6*n))
		launch1(t, d, module, "v_convert", 32, 0, upload(t, d, in), out, int32(n))
		got := download[uint32](t, d, out, 6*n)
		for i := range got {
			if x := in[i/6]; got[i] != want[i] && !(i%6 >= 4 && x != x) {
				t.Fatalf("conversion %d of %x: %x, want %x", i%6, x, got[i], want[i])
			}
		}
	})
}

// TestExp2: within 2 units in the last place, and 0 in place of subnormal numbers.
func TestExp2(t *testing.T) {
	eachDriver(t, "vectors.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		in := []float32{0, -0x1p-140, 1, -126, -126.5, -149, 127.99999, 128, float32(math.Inf(1)),
			float32(math.Inf(-1)), float32(math.NaN())}
		for range 1000 {
			in = append(in, 300*r.Float32()-160)
		}
		out := upload(t, d, in)
		launch1(t, d, module, "v_exp2", 32, 0, upload(t, d, in), out, int32(len(in)))
		for i, got := range download[float32](t, d, out, len(in)) {
			want := math.Exp2(float64(in[i]))
			switch {
			case want != want:
				if got == got {
					t.Fatalf("2^NaN is %v", got)
				}
			case want < 0x1p-126:
				if got != 0 {
					t.Fatalf("2^%v is %v, want 0", in[i], got)
				}
			case want > math.MaxFloat32:
				if got != float32(math.Inf(1)) {
					t.Fatalf("2^%v is %v, want +Inf", in[i], got)
				}
			case math.Abs(float64(got)-want) > 0x1p-22*want:
				t.Fatalf("2^%v is %v, want %v", in[i], got, want)
			}
		}
	})
}

// TestReciprocal: within a unit in the last place, where neither side is subnormal.
func TestReciprocal(t *testing.T) {
	eachDriver(t, "vectors.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		inf := float32(math.Inf(1))
		in, want := []float32{0, 0x1p-140, -0x1p-140, 0x1.8p126, -inf, inf}, []float32{inf, inf, -inf, 0, 0, 0}
		for range 1000 {
			x := float32(math.Ldexp(1+r.Float64(), r.IntN(250)-125))
			in, want = append(in, x, -x), append(want, 1/x, -1/x)
		}
		out := upload(t, d, in)
		launch1(t, d, module, "v_reciprocal", 32, 0, upload(t, d, in), out, int32(len(in)))
		for i, got := range download[float32](t, d, out, len(in)) {
			if got != want[i] && !(math.Abs(float64(got)-float64(want[i])) <= 0x1p-23*math.Abs(float64(want[i]))) {
				t.Fatalf("1/%v is %v, want %v", in[i], got, want[i])
			}
		}
	})
}

func TestPrimitiveShuffles(t *testing.T) {
	eachDriver(t, "vectors.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		in, want := words(r, 32), make([]uint32, 224)
		votes := uint32(0)
		for l, x := range in {
			if x%3 == 0 {
				votes |= 1 << l
			}
		}
		for l := range 32 {
			for k := range 5 {
				want[32*k+l] = in[l^1<<k]
			}
			want[160+l], want[192+l] = in[(5*l+3)%32], votes
		}
		out := upload(t, d, make([]uint32, 224))
		launch1(t, d, module, "v_shuffle", 32, 0, upload(t, d, in), out)
		equal(t, "shuffles", download[uint32](t, d, out, 224), want)
	})
}

// TestAtomics: the minimum is that of unsigned numbers of 64 bits, whatever the order of lanes. All may write one
// signal.
func TestAtomics(t *testing.T) {
	eachDriver(t, "vectors.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		for _, first := range []uint64{0, 1 << 40, math.MaxUint64} {
			in, want := make([]uint64, 32), first
			for i := range in {
				in[i] = r.Uint64() >> r.IntN(64)
				want = min(want, in[i])
			}
			least, signals := upload(t, d, []uint64{first}), upload(t, d, make([]uint32, 34))
			launch1(t, d, module, "v_atomic", 32, 0, upload(t, d, in), least, signals)
			equal(t, "minimum", download[uint64](t, d, least, 1), []uint64{want})
			seen := make([]uint32, 34)
			for l := range 32 {
				seen[l] = uint32(l + 1)
			}
			seen[32] = 7
			equal(t, "signals", download[uint32](t, d, signals, 34), seen)
		}
	})
}

// tensorMap describes a matrix of 16-bit elements and a box.
func tensorMap(t *testing.T, d *Driver, base Ptr, width, height, pitch, boxWidth, boxHeight, swizzle int) [128]byte {
	t.Helper()
	memory := make([]byte, 256)
	at := -uintptr(unsafe.Pointer(&memory[0])) % 128
	sizes, strides := []uint64{uint64(width), uint64(height)}, []uint64{uint64(pitch)}
	box, steps := []uint32{uint32(boxWidth), uint32(boxHeight)}, []uint32{1, 1}
	number := map[int]int{0: 0, 32: 1, 64: 2, 128: 3}[swizzle]
	must(t, d.Call("cuTensorMapEncodeTiled", &memory[at], 1, 2, uintptr(base), sizes, strides, box, steps, 0, number, 0,
		0))
	return [128]byte(memory[at:])
}

// TestPrimitiveTMA moves boxes inside, across each edge and outside of a matrix, with every swizzle.
func TestPrimitiveTMA(t *testing.T) {
	const width, height, pitch, rows = 100, 70, 208, 32
	eachDriver(t, "vectors_hopper.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		data := make([]uint16, pitch/2*height)
		for i := range data {
			data[i] = uint16(i*7 + 1)
		}
		for _, swizzle := range []int{0, 32, 64, 128} {
			columns := 64
			if swizzle > 0 {
				columns = swizzle / 2
			}
			for _, at := range [][2]int{{0, 0}, {64, 48}, {-8, -5}, {96, 69}, {200, 0}, {8, 3}, {3, 2}} {
				x, y, bytes := at[0], at[1], 2*columns*rows
				// place is where element (row, column) of the box lies in shared memory: 16-byte units are exchanged by
				// the bits above them.
				place := func(row, column int) int {
					b := 2 * (row*columns + column)
					mask := map[int]int{0: 0, 32: 0x10, 64: 0x30, 128: 0x70}[swizzle]
					return (b ^ b>>3&mask) / 2
				}
				inside := func(row, column int) bool {
					return y+row >= 0 && y+row < height && x+column >= 0 && x+column < width
				}
				p := upload(t, d, data)
				m := tensorMap(t, d, p, width, height, pitch, columns, rows, swizzle)
				want := make([]uint16, bytes/2)
				for row := range rows {
					for column := range columns {
						if inside(row, column) {
							want[place(row, column)] = data[(y+row)*pitch/2+x+column]
						}
					}
				}
				out := upload(t, d, make([]uint16, bytes/2))
				launch1(t, d, module, "v_tma_load", 128, bytes, m, out, int32(x), int32(y), int32(bytes))
				equal(t, fmt.Sprint("TMA load, swizzle ", swizzle, " at ", at), download[uint16](t, d, out, bytes/2),
					want)

				tile := halves(words(r, bytes/4))
				after := append([]uint16(nil), data...)
				for row := range rows {
					for column := range columns {
						if inside(row, column) {
							after[(y+row)*pitch/2+x+column] = tile[place(row, column)]
						}
					}
				}
				launch1(t, d, module, "v_tma_store", 128, bytes, m, upload(t, d, tile), int32(x), int32(y),
					int32(bytes))
				equal(t, fmt.Sprint("TMA store, swizzle ", swizzle, " at ", at), download[uint16](t, d, p, len(after)),
					after)
			}
		}
	})
}

// TestPrimitiveTensorMapRules: what the encoder refuses.
func TestPrimitiveTensorMapRules(t *testing.T) {
	d := fresh(t, plain)
	p := upload(t, d, make([]uint16, 1024))
	memory := make([]byte, 256)
	at := -uintptr(unsafe.Pointer(&memory[0])) % 128
	encode := func(skip uintptr, base Ptr, width, pitch uint64, box uint32, swizzle int) error {
		return d.Call("cuTensorMapEncodeTiled", &memory[at+skip], 1, 2, uintptr(base), []uint64{width, 4},
			[]uint64{pitch}, []uint32{box, 2}, []uint32{1, 1}, 0, swizzle, 0, 0)
	}
	must(t, encode(0, p, 64, 128, 64, 3))
	refused := func(err error, why string) {
		t.Helper()
		if realDriver != "" {
			why = "" // it does not say
		}
		fails(t, err, 1, why)
	}
	refused(encode(0, p+2, 64, 128, 64, 3), "the address must be a multiple of 16")
	refused(encode(0, p, 0, 128, 64, 3), "sizes must be")
	refused(encode(0, p, 64, 136, 64, 3), "strides must be multiples of 16")
	refused(encode(0, p, 64, 128, 4, 3), "the inner side of the box must be a multiple of 16")
	refused(encode(0, p, 64, 128, 64, 2), "must not exceed the swizzle")
	if realDriver == "" { // which takes these
		refused(encode(16, p, 64, 128, 64, 3), "a multiple of 64 bytes")
		refused(encode(0, p, 64, 112, 64, 3), "strides must not shrink")
	}
}

// TestPrimitiveWGMMA: lane l of warp w has columns 8j + 2(l mod 4) and the next, rows 16w + l/4 and 8 below. Letters of
// the layout are those of BLAS; operands are panels of 64 rows of A or columns of B, K-major or not, or A is in
// registers.
func TestPrimitiveWGMMA(t *testing.T) {
	eachDriver(t, "vectors_hopper.cu", func(t *testing.T, d *Driver, module uintptr, r *rand.Rand) {
		for _, c := range []struct {
			left   string
			n      int
			half   string
			layout string
		}{{"", 64, "f16", "nt"}, {"", 128, "bf16", "nt"}, {"", 256, "f16", "nt"}, {"", 256, "bf16", "nt"},
			{"", 64, "bf16", "tn"}, {"", 256, "bf16", "nn"}, {"", 256, "f16", "tt"}, {"", 256, "f16", "tn"},
			{"left_", 64, "bf16", "nt"}, {"left_", 64, "f16", "nn"}, {"left_", 128, "bf16", "nn"}} {
			a, aValues := operand(r, 64, c.half == "bf16")
			b, bValues := operand(r, c.n, c.half == "bf16")
			at := func(values []float32, kMajor bool, x, k int) float32 {
				if kMajor {
					return values[64*x+k]
				}
				return values[x/64*4096+64*k+x%64]
			}
			for keep := range 2 {
				want := make([]float32, 64*c.n)
				for th := range 128 {
					w, l := th/32, th%32
					for i := range c.n / 2 {
						row, column := 16*w+l/4+i%4/2*8, i/4*8+l%4*2+i%2
						sum := float32(keep)
						for k := range 64 {
							sum += at(aValues, c.layout[0] == 'n', row, k) * at(bValues, c.layout[1] == 't', column, k)
						}
						want[th*c.n/2+i] = sum
					}
				}
				out := upload(t, d, make([]float32, 64*c.n))
				launch1(t, d, module, fmt.Sprintf("v_wgmma_%s%d_%s_%s", c.left, c.n, c.half, c.layout), 128,
					8192+128*c.n, upload(t, d, a), upload(t, d, b), out, int32(keep))
				equal(t, fmt.Sprint("wgmma ", c, " keep ", keep), download[float32](t, d, out, 64*c.n), want)
			}
		}
	})
}

// operand is rows of 64 small integers.
func operand(r *rand.Rand, rows int, bfloat bool) ([]uint16, []float32) {
	data, values := make([]uint16, 64*rows), make([]float32, 64*rows)
	for i := range data {
		data[i], values[i] = small(r, bfloat)
	}
	return data, values
}

// TestCubin reads limits from a file made like a cubin of CUDA 12: 40 registers, a stack of 16 bytes, 192 threads and
// 256 bytes of shared memory for fill_b4.
func TestCubin(t *testing.T) {
	d := fresh(t, plain)
	m, err := d.Module(cubin(90))
	must(t, err)
	f, err := d.Function(m, "fill_b4")
	must(t, err)
	for attribute, want := range map[int]int32{0: 192, 1: 256, 3: 16, 4: 40, 6: 90} {
		got := new(int32)
		must(t, d.Call("cuFuncGetAttribute", got, attribute, f))
		if *got != want {
			t.Errorf("attribute %d is %d, want %d", attribute, *got, want)
		}
	}
	one := [3]uint32{1, 1, 1}
	fails(t, d.Launch(f, one, [3]uint32{224, 1, 1}, 0, 0, Ptr(0), uint32(0), uint64(0)), 1,
		"224 threads are more than the launch bounds")
	_, err = d.Function(m, "fill_b8")
	fails(t, err, 500, "no kernel fill_b8 in the image")
	_, err = d.Module(cubin(80))
	fails(t, err, 209, "the cubin is for compute capability 8.0")
	whole := cubin(90)
	for _, n := range []int{64, 100, len(whole) / 2, len(whole) - 64} {
		cut := append(append([]byte(nil), whole[:n]...), make([]byte, len(whole)-n)...)
		if _, err := d.Module(cut); err == nil {
			t.Errorf("a cubin cut to %d of %d bytes loads", n, len(whole))
		}
	}
}

// cubin writes an ELF file for a compute capability.
func cubin(capability uint32) []byte {
	le := binary.LittleEndian
	type section struct {
		name string
		data []byte
		link uint32
	}
	attribute := func(number byte, values ...uint32) []byte {
		b := le.AppendUint16([]byte{4, number}, uint16(4*len(values)))
		for _, v := range values {
			b = le.AppendUint32(b, v)
		}
		return b
	}
	symbol := append(le.AppendUint32(make([]byte, 24), 1), make([]byte, 20)...) // symbol 1, whose name is at 1
	sections := []section{
		{"", nil, 0},
		{".strtab", []byte("\x00fill_b4\x00"), 0},
		{".symtab", symbol, 1},
		{".text.fill_b4", make([]byte, 128), 0},
		{".nv.shared.fill_b4", make([]byte, 1024+256), 0},
		{".nv.info", append(attribute(0x2f, 1, 40), attribute(0x12, 1, 16)...), 2},
		{".nv.info.fill_b4", append([]byte{3, 0x1b, 255, 0}, attribute(0x05, 96, 2, 1)...), 2},
		{".shstrtab", nil, 0},
	}
	var names []byte
	var at []int
	for _, s := range sections {
		at = append(at, len(names))
		names = append(append(names, s.name...), 0)
	}
	sections[7].data = names
	file := make([]byte, 64)
	copy(file, "\x7fELF\x02\x01\x01\x33\x07")
	le.PutUint16(file[0x12:], 190)
	le.PutUint32(file[0x30:], capability)
	var headers []byte
	for i, s := range sections {
		h := make([]byte, 64)
		le.PutUint32(h, uint32(at[i]))
		le.PutUint64(h[24:], uint64(len(file)))
		le.PutUint64(h[32:], uint64(len(s.data)))
		le.PutUint32(h[40:], s.link)
		headers = append(headers, h...)
		file = append(file, s.data...)
	}
	le.PutUint64(file[0x28:], uint64(len(file)))
	le.PutUint16(file[0x3c:], uint16(len(sections)))
	le.PutUint16(file[0x3e:], 7)
	return append(file, headers...)
}
