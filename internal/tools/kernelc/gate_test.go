package main

import (
	"fmt"
	"strings"
	"testing"
)

// These texts are what the compilers write, shortened. Each fault is planted into a text that passes.

const goodPTX = `.version 8.4
.target sm_80
.address_size 64

.visible .entry scale_f32(
	.param .u64 scale_f32_param_0,
	.param .f32 scale_f32_param_1
)
.maxntid 256, 1, 1
.minnctapersm 4
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<4>;
	// demoted variable
	.shared .align 16 .b8 _ZZ9scale_f32E4tile[1024];

	ld.global.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd4];
	mul.rn.f32 	%f5, %f1, %f2;
	@%p1 bra 	$L__BB0_2;
	fma.rn.f32 	%f6, %f5, %f1, %f2;
	{ add.rn.f32 %f7, %f5, %f6; }
	st.global.f32 	[%rd4], %f7;

$L__BB0_2:
	ret;

}
`

const goodLog = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'scale_f32' for 'sm_86'
ptxas info    : Function properties for scale_f32
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 1024 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 13.667 ms
ptxas warning : Value of threads per SM for entry scale_f32 is out of range. .minnctapersm will be ignored
`

// goodSASS is a loop that reads and writes 16 bytes a turn, with an entry and an exit before it.
const goodSASS = `	.section	.text.scale_f32,"ax",@progbits
.text.scale_f32:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   ISETP.GE.U32.AND P0, PT, R0, c[0x0][0x170], PT ;
        /*0020*/               @P0 EXIT ;
.L_x_0:
        /*0030*/                   LDG.E.128.CONSTANT R4, [R2.64] ;
        /*0040*/                   FFMA R4, R4, R5, R6 ;
        /*0050*/                   STG.E.128 [R8.64], R4 ;
        /*0060*/               @P1 BRA ` + "`(.L_x_2) ;" + `
        /*0070*/                   IADD3 R2, R2, 0x10, RZ ;
.L_x_2:
        /*0080*/              @!P0 BRA ` + "`(.L_x_0) ;" + `
        /*0090*/                   EXIT ;
.L_x_1:
        /*00a0*/                   BRA ` + "`(.L_x_1);" + `
        /*00b0*/                   NOP;
`

const goodBudget = "scale_*  registers=32 blocks=4 element=3 width=16 flight=32768 code=256 must=FFMA,LDG\n"

// facts are the texts of one kernel.
type facts struct {
	ptx, free, log, sass, budget string
}

var good = facts{goodPTX, goodPTX, goodLog, goodSASS, goodBudget}

// faultsOf passes the texts of scale_f32 through all gates.
func faultsOf(t *testing.T, f facts) []string {
	t.Helper()
	limits, err := parseBudget(f.budget)
	if err != nil {
		t.Fatal(err)
	}
	s := &source{family: "scale", targets: []string{"sm_80", "compute_80"}}
	u := &unit{
		source: s, name: "scale_f32", symbols: []string{"scale_f32"},
		code: map[string][]byte{"compute_80": []byte(f.ptx)}, logs: map[string]string{"sm_80": f.log},
		contracted: map[string]string{"compute_80": f.free},
	}
	g := &gates{budget: limits}
	g.listed([]*unit{u})
	g.unit(u)
	ops := readSass(f.sass)["scale_f32"]
	g.sass("scale_f32", "sm_80", ops, f.ptx)
	functions, _ := readLog(f.log)
	row := newRow("scale_f32", "sm_80", functions["scale_f32"], entries(f.ptx)[0].threads, ops, limits[0], nil)
	g.way(&row)
	var names []string
	for _, fault := range g.faults {
		names = append(names, fault.String())
	}
	return names
}

func TestGoodKernelPasses(t *testing.T) {
	if faults := faultsOf(t, good); len(faults) > 0 {
		t.Errorf("faults in a good kernel: %q", faults)
	}
}

func TestGatesCatch(t *testing.T) {
	// Each plant replaces a piece of the good texts, and exactly the fault that begins as given must be found.
	for _, plant := range []struct {
		want     string
		old, new string
		in       func(f *facts) *string
	}{
		{"registers: scale_f32 (sm_80): 33 registers, budget 32", "Used 24", "Used 33", (*facts).logOf},
		{"spill: scale_f32 (sm_80): 8 bytes of stores and 0 of loads",
			"0 bytes spill stores", "8 bytes spill stores", (*facts).logOf},
		{"spill: scale_f32 (sm_80): 0 bytes of stores and 4 of loads",
			"0 bytes spill loads", "4 bytes spill loads", (*facts).logOf},
		{"local: scale_f32 (sm_80): 160 bytes of local memory", "0 bytes stack", "160 bytes stack", (*facts).logOf},
		{"local: reduce (sm_80): 16 bytes of local memory", "ptxas info    : Compile time",
			"ptxas info    : Function properties for reduce\n" +
				"    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n" +
				"ptxas info    : Compile time", (*facts).logOf},
		{"remark: scale_f32 (sm_80): ptxas info    : (C7515) Potential Performance Loss: wgmma",
			"ptxas info    : Compile time",
			"ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized\n" +
				"ptxas info    : Compile time", (*facts).logOf},
		{"remark: scale_f32 (sm_80): ptxas warning : setmaxnreg ignored", "ptxas info    : Compile time",
			"ptxas warning : setmaxnreg ignored to maintain minimum register requirement\n" +
				"ptxas info    : Compile time", (*facts).logOf},
		{"log: scale_f32 (sm_80): the assembler does not say",
			"function 'scale_f32'", "function 'other'", (*facts).logOf},
		{"occupancy: scale_f32 (sm_80): 1 blocks on a multiprocessor of sm_80, budget 4",
			"1024 bytes smem", "100000 bytes smem", (*facts).logOf},
		{"occupancy: scale_f32 (sm_80): 2 blocks on a multiprocessor of sm_86, budget 3",
			"1024 bytes smem", "40000 bytes smem", (*facts).logOf},

		{"alignment: scale_f32 (compute_80): shared memory _ZZ9scale_f32E4tile is aligned to 4 bytes",
			"align 16", "align 4", (*facts).ptxOf},
		{"rounding: scale_f32 (compute_80): mul.f32", "mul.rn.f32", "mul.f32", (*facts).ptxOf},
		{"rounding: scale_f32 (compute_80): add.f32", "add.rn.f32", "add.f32", (*facts).ptxOf},
		{"rounding: scale_f32 (compute_80): sub.f64", "add.rn.f32", "sub.f64", (*facts).ptxOf},
		{"subnormals: scale_f32 (compute_80): mul.rn.ftz.f32", "mul.rn.f32", "mul.rn.ftz.f32", (*facts).ptxOf},
		{"local: scale_f32 (compute_80): variables in local memory",
			"	.reg .pred", "	.local .align 4 .b8 	__local_depot0[16];\n	.reg .pred", (*facts).ptxOf},

		{"contraction: scale_f32 (compute_80): 1 fma.rn.f32, and 2 where",
			"mul.rn.f32 	%f5, %f1, %f2;", "fma.rn.f32 	%f5, %f1, %f2, %f3;", (*facts).freeOf},
		{"contraction: scale_f32 (sm_80): 1 instructions FFMA, and no fma in the PTX",
			"fma.rn.f32 	%f6", "mov.f32 	%f6", (*facts).bothOf},

		{"local: scale_f32 (sm_80): 1 instructions STL", "MOV R1, c[0x0][0x28]", "STL [R1], R2", (*facts).sassOf},
		{"local: scale_f32 (sm_80): 1 instructions LDL", "MOV R1, c[0x0][0x28]", "LDL.64 R2, [R1]", (*facts).sassOf},
		{"instructions: scale_f32 (sm_80): no FFMA", "FFMA R4", "FADD R4", (*facts).sassOf},
		{"element: scale_f32 (sm_80): 5.0 instructions for each element, budget 3",
			"G.E.128", "G.E", (*facts).sassOf},
		{"width: scale_f32 (sm_80): most bytes move in accesses of 2 bytes, budget 16", "E.128", "E.U16",
			(*facts).sassOf},
		{"flight: scale_f32 (sm_80): a multiprocessor waits for 4096 bytes at once, budget 32768", "LDG.E.128",
			"LDG.E.U16", (*facts).sassOf},
		{"flight: scale_f32 (sm_80): a multiprocessor waits for 16384 bytes at once, budget 32768",
			"Used 24", "Used 64", (*facts).logOf},
		{"code: scale_f32 (sm_80): 464 bytes of code, budget 256", "        /*0040*/",
			strings.Repeat("        /*0035*/                   FADD R10, R10, R11 ;\n", 20) + "        /*0040*/",
			(*facts).sassOf},
		{"path: scale_f32 (sm_80): no path moves elements", "G.E.128", "S.E.128", (*facts).sassOf},

		{"listed: scale_f32: it has no line", "scale_*", "scales_*", (*facts).budgetOf},
		{"listed: tiled_*: budget.txt has a line for it", "scale_*", "tiled_* registers=8\nscale_*", (*facts).budgetOf},
	} {
		f := good
		text := plant.in(&f)
		if !strings.Contains(*text, plant.old) {
			t.Fatalf("%s: the text has no %q", plant.want, plant.old)
		}
		*text = strings.ReplaceAll(*text, plant.old, plant.new)
		if plant.in(&f) == &f.ptx && strings.HasPrefix(plant.want, "contraction") {
			f.free = f.ptx
		}
		found := false
		for _, fault := range faultsOf(t, f) {
			found = found || strings.HasPrefix(fault, plant.want)
		}
		if !found {
			t.Errorf("not found: %s; found %q", plant.want, faultsOf(t, f))
		}
	}
}

func (f *facts) logOf() *string    { return &f.log }
func (f *facts) ptxOf() *string    { return &f.ptx }
func (f *facts) bothOf() *string   { return &f.ptx }
func (f *facts) freeOf() *string   { return &f.free }
func (f *facts) sassOf() *string   { return &f.sass }
func (f *facts) budgetOf() *string { return &f.budget }

func TestAllowedInstructionsPass(t *testing.T) {
	f := good
	f.ptx = strings.ReplaceAll(f.ptx, "mul.rn.f32", "mul.rn.ftz.f32")
	f.free = f.ptx
	f.budget = strings.TrimSpace(f.budget) + " allow=ex2.approx.ftz.f32,mul.rn.ftz.f32\n"
	if faults := faultsOf(t, f); len(faults) > 0 {
		t.Errorf("faults in a kernel that is allowed to flush: %q", faults)
	}
}

func TestResident(t *testing.T) {
	for _, c := range []struct {
		target                     string
		threads, registers, shared int
		want                       string
	}{
		{"sm_80", 256, 16, 0, "8 threads"},
		{"sm_80", 32, 16, 0, "32 blocks"},
		{"sm_80", 128, 255, 65536, "2 registers"},
		{"sm_90", 384, 168, 229504, "1 registers"},
		{"sm_90", 128, 64, 65536, "3 shared"},
		{"sm_86", 256, 16, 0, "6 threads"},
		{"sm_86", 256, 16, 101 << 10, "0 shared"},
		{"sm_80", 0, 16, 0, "0 unknown"},
	} {
		n, limit := resident(c.target, c.threads, c.registers, c.shared)
		if got := fmt.Sprint(n, " ", limit); got != c.want {
			t.Errorf("%s, %d threads, %d registers, %d bytes: %s, want %s", c.target, c.threads, c.registers, c.shared,
				got, c.want)
		}
	}
}

func TestBudget(t *testing.T) {
	b, err := parseBudget("a_f32 registers=8 # small\n\na_* registers=16 dynamic=1024 allow=x,y\n")
	if err != nil {
		t.Fatal(err)
	}
	if l := b.of("a_f32"); l == nil || l.registers != 8 {
		t.Errorf("a_f32 has the budget %+v", l)
	}
	if l := b.of("a_bf16"); l == nil || l.registers != 16 || l.dynamic != 1024 || len(l.allow) != 2 {
		t.Errorf("a_bf16 has the budget %+v", l)
	}
	if l := b.of("b"); l != nil {
		t.Errorf("b has the budget %+v", l)
	}
	for _, wrong := range []string{"a", "a blocks=1", "a registers=many", "a registers=1 speed=9", "[ registers=1"} {
		if _, err := parseBudget(wrong); err == nil {
			t.Errorf("%q is taken for a budget", wrong)
		}
	}
}

func TestRecord(t *testing.T) {
	r := record{
		"a_f32 compute_80": {"aa",
			map[string]int{"sm_80": 16, "sm_86": 16, "sm_89": 16, "sm_90": 17, "sm_90a": 17, "sm_100": 18,
				"sm_120": 19}},
		"b_f32 compute_90a": {"bb", map[string]int{"sm_90a": 168}},
	}
	back, err := parseRecord(r.String())
	if err != nil || back.String() != r.String() {
		t.Errorf("%v; read back:\n%s\nwritten:\n%s", err, back, r)
	}
	u := &unit{symbols: []string{"a_f32"}}
	if !back.has(u, "compute_80", "aa") || back.has(u, "compute_80", "ab") || back.has(u, "compute_90a", "aa") {
		t.Error("the record does not tell texts apart")
	}
	if _, err := parseRecord("a_f32 compute_80 aa 1 2\n"); err == nil {
		t.Error("a short line is taken")
	}
}
