//go:build emu && cgo && linux

package emu

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A plant is a kernel with a fault. Lines that a report must name carry a marker such as //@a.
type plant struct {
	name   string
	report string // a regular expression; @a stands for the file and line of marker a
	code   string // the body of a kernel with the parameters float* x, float* y, of 64 elements each
}

var plants = []plant{
	{"missing barrier", `race: shared memory at \d+: read by thread 0 at @b is not ordered with the write by thread ` +
		`32 at @a|uninitialised read: shared memory at \d+, by thread 0 at @b`, `
	SHARED(float, s, [64]);
	s[threadIdx.x] = x[threadIdx.x]; //@a
	y[threadIdx.x] = s[63 - threadIdx.x]; //@b
`},
	{"missing barrier before a second write", `race: shared memory at \d+: (write by thread \d+ at @b is not ` +
		`ordered with the read by thread \d+ at @a|read by thread \d+ at @a is not ordered with the write by thread ` +
		`\d+ at @b)`, `
	SHARED(float, s, [64]);
	s[threadIdx.x] = x[threadIdx.x];
	__syncthreads();
	const float v = s[63 - threadIdx.x]; //@a
	s[threadIdx.x] = v; //@b
	__syncthreads();
	y[threadIdx.x] = s[threadIdx.x];
`},
	{"read behind an array", `read out of bounds: 4 bytes at shared memory at \d+, by thread 63 at @a`, `
	SHARED(float, s, [64]);
	s[threadIdx.x] = x[threadIdx.x];
	__syncthreads();
	const float* p = s;
	y[threadIdx.x] = p[threadIdx.x + 1]; //@a
`},
	{"write behind an allocation", `write out of bounds: 4 bytes at byte 256 of an allocation of 256, by thread 63 ` +
		`at @a`, `
	y[threadIdx.x + 1] = x[threadIdx.x]; //@a
`},
	{"uninitialised shared memory", `uninitialised read: shared memory at \d+, by thread 1 at @a`, `
	SHARED(float, s, [64]);
	if (threadIdx.x != 1) s[threadIdx.x] = x[threadIdx.x];
	y[threadIdx.x] = s[threadIdx.x]; //@a
`},
	{"uninitialised global memory", `uninitialised read: byte 0 of an allocation of 256, by thread 0 at @a`, `
	x[threadIdx.x] = y[threadIdx.x]; //@a
`},
	{"misaligned vector", `misaligned read: 16 bytes at byte 4 of an allocation of 256, at @a`, `
	if (threadIdx.x == 0) y[0] = load<float4>(x + 1).x; //@a
`},
	{"race between blocks", `race between blocks: byte 0 of an allocation of 256, write at @a, and write by block ` +
		`number 0 of the launch at @a`, `
	if (threadIdx.x == 0) y[0] = 1; //@a
`},
	{"blocks without release", `race between blocks: byte 0 of an allocation of 256, write at @b, and write by block ` +
		`number 0 of the launch at @a`, `
	if (blockIdx.x == 0) {
		y[threadIdx.x] = 1; //@a
		__syncthreads();
		if (threadIdx.x == 0) signal((uint32_t*)x, 1);
	} else {
		if (threadIdx.x == 0) wait_acquire((uint32_t*)x, 1);
		__syncthreads();
		y[threadIdx.x] = 2; //@b
	}
`},
	{"blocks without a barrier before the release", `race between blocks: byte \d+ of an allocation of 256, write at ` +
		`@b, and write by block number 0 of the launch at @a`, `
	if (blockIdx.x == 0) {
		y[threadIdx.x] = 1; //@a
		if (threadIdx.x == 0) store_release((uint32_t*)x, 1);
	} else {
		if (threadIdx.x == 0) wait_acquire((uint32_t*)x, 1);
		__syncthreads();
		y[threadIdx.x] = 2; //@b
	}
`},
	{"blocks without a barrier behind the wait", `race between blocks: byte 4 of an allocation of 256, write at ` +
		`@b, and write by block number 0 of the launch at @a`, `
	if (blockIdx.x == 0) {
		y[threadIdx.x] = 1; //@a
		__syncthreads();
		if (threadIdx.x == 0) store_release((uint32_t*)x, 1);
	} else {
		if (threadIdx.x == 0) wait_acquire((uint32_t*)x, 1);
		y[threadIdx.x] = 2; //@b
	}
`},
	{"blocks that wait for each other", `deadlock between blocks: block \(\d,0,0\) of plant\d+ waits at @a ` +
		`for \d, found 0`, `
	if (threadIdx.x == 0) wait_acquire((uint32_t*)x, blockIdx.x + 1); //@a
	__syncthreads();
	if (threadIdx.x == 0) store_release((uint32_t*)x, blockIdx.x);
`},
	{"an ordinary write beside an atomic", `race: byte 0 of an allocation of 256: write by thread (32 at @b is not ` +
		`ordered with the write by thread 0 at @a|0 at @a is not ordered with the write by thread 32 at @b)`, `
	if (threadIdx.x == 0) atomic_min((uint64_t*)y, 1); //@a
	if (threadIdx.x == 32) y[0] = 1; //@b
`},
	{"an atomic behind an allocation", `write out of bounds: 8 bytes at byte 256 of an allocation of 256, by thread ` +
		`0 at @a`, `
	if (threadIdx.x == 0) atomic_min((uint64_t*)y + 32, 1); //@a
`},
	{"divergent barriers", `__syncthreads at @b while other threads wait in the one at @a`, `
	if (threadIdx.x < 32) {
		__syncthreads(); //@a
	} else {
		__syncthreads(); //@b
	}
`},
	{"divergent warp", `warp divergence: lane 16 is in __syncwarp at @b, other lanes wait in shfl.sync at @a`, `
	if (threadIdx.x % 32 < 16) {
		y[threadIdx.x] = shuffle_xor(x[threadIdx.x], 1); //@a
	} else {
		__syncwarp(); //@b
	}
`},
	{"lanes that have left", `a thread returns while lanes 00000001 of its warp wait for it in shfl.sync at @a`, `
	if (threadIdx.x % 2) return;
	y[threadIdx.x] = shuffle_xor(x[threadIdx.x], 1); //@a
`},
	{"no wait for a copy", `uninitialised read: shared memory at \d+, by thread 0 at @a`, `
	SHARED(float, s, [64]);
	cp_async<4>(shared_address(&s[threadIdx.x]), x + threadIdx.x, 4);
	cp_async_commit();
	y[threadIdx.x] = s[threadIdx.x]; //@a
`},
	{"no barrier after a copy", `race: shared memory at \d+: read by thread 0 at @b is not ordered with the write ` +
		`by cp.async of thread 32 at @a|uninitialised read: shared memory at \d+, by thread 0 at @b`, `
	SHARED(float, s, [64]);
	cp_async<4>(shared_address(&s[threadIdx.x]), x + threadIdx.x, 4); //@a
	cp_async_commit();
	cp_async_wait<0>();
	y[threadIdx.x] = s[(threadIdx.x + 32) % 64]; //@b
`},
	{"copy from behind an allocation", `read out of bounds: 4 bytes at byte 256 of an allocation of 256, by ` +
		`cp.async of thread 63 at @a`, `
	SHARED(float, s, [64]);
	cp_async<4>(shared_address(&s[threadIdx.x]), x + threadIdx.x + 1, 4); //@a
	cp_async_commit();
	cp_async_wait<0>();
	y[threadIdx.x] = s[threadIdx.x];
`},
	{"product not collected", `mma at @a: its result is never collected`, `
	float d[4] = {0, 0, 0, 0};
	const uint32_t a[4] = {1, 2, 3, 4};
	mma(f16{}, d, a, 5, 6); //@a
	y[threadIdx.x] = d[0];
`},
	{"index outside of a local array", `index outside of an array at @a`, `
	float v[4];
	for (int i = 0; i < 4; i++) v[i] = x[i];
	y[threadIdx.x] = v[threadIdx.x % 5]; //@a
`},
	{"index outside of a row", `index outside of an array at @a`, `
	SHARED(float, s, [8][8]);
	s[threadIdx.x / 8][threadIdx.x % 8] = 0;
	__syncthreads();
	y[threadIdx.x] = s[threadIdx.x / 16][threadIdx.x % 16]; //@a
`},
	{"shift", `shift by more than the width at @a`, `
	y[threadIdx.x] = (float)(1 << (threadIdx.x + (uint32_t)x[0])); //@a
`},
	{"conversion", `conversion to an integer out of range at @a`, `
	y[threadIdx.x] = (float)(int)((threadIdx.x + 1) * 0x1p31f); //@a
`},
	{"trap", `trap at @a`, `
	if (threadIdx.x == 5) trap(); //@a
`},
	{"missing proxy fence", `missing fence.proxy.async: shared memory at \d+ was written by thread \d+ with an ` +
		`ordinary store and is read by wgmma of warp 0 at @a`, `
	SHARED_DYNAMIC(s);
	for (int i = threadIdx.x; i < 4096; i += 128) ((float*)s)[i] = 0;
	__syncthreads();
	float d[32] = {};
	wgmma_fence();
	wgmma(f16{}, d, descriptor128(shared_address(s)), descriptor128(shared_address(s) + 8192), 1); //@a
	wgmma_commit();
	wgmma_wait<0>();
	y[threadIdx.x % 64] = d[0];
`},
	{"wgmma in flight", `a warp returns with the wgmma of @a in flight`, `
	SHARED_DYNAMIC(s);
	for (int i = threadIdx.x; i < 4096; i += 128) ((float*)s)[i] = 0;
	fence_proxy_async();
	__syncthreads();
	float d[32] = {};
	wgmma_fence();
	wgmma(f16{}, d, descriptor128(shared_address(s)), descriptor128(shared_address(s) + 8192), 1); //@a
	wgmma_commit();
`},
	{"missing wgmma.fence", `missing wgmma.fence: other instructions may have used the registers of the wgmma at @a`, `
	SHARED_DYNAMIC(s);
	for (int i = threadIdx.x; i < 4096; i += 128) ((float*)s)[i] = 0;
	fence_proxy_async();
	__syncthreads();
	float d[32] = {};
	wgmma_fence();
	for (int k = 0; k < 2; k++) {
		wgmma(f16{}, d, descriptor128(shared_address(s)), descriptor128(shared_address(s) + 8192), 1); //@a
		wgmma_commit();
		wgmma_wait<0>();
	}
	y[threadIdx.x % 64] = d[0];
`},
	{"descriptor inside a pattern", `wgmma at @a: descriptor \w+: the start is not at the start of a swizzle pattern`, `
	SHARED_DYNAMIC(s);
	float d[32] = {};
	wgmma_fence();
	wgmma(f16{}, d, descriptor128(shared_address(s) + 128), descriptor128(shared_address(s) + 8192), 1); //@a
	wgmma_commit();
	wgmma_wait<0>();
`},
	{"missing fence behind mbarrier.init", `missing fence: TMA load at @a uses the mbarrier at shared address \d+, ` +
		`which thread 0 has initialised without fence.mbarrier_init or fence.proxy.async behind it`, `
	SHARED_DYNAMIC(s);
	SHARED(uint64_t, b, [1]);
	if (threadIdx.x == 0) mbarrier_init(shared_address(b), 1);
	if (threadIdx.x == 1) mbarrier_fence();
	__syncthreads();
	if (threadIdx.x == 0) tma_load(shared_address(s), (const TensorMap*)x, 0, 0, shared_address(b)); //@a
`},
	{"mbarrier outside an array", `write out of bounds: 8 bytes at shared memory at \d+, by thread 0 at @a`, `
	SHARED(uint64_t, s, [1]);
	if (threadIdx.x == 0) mbarrier_init(shared_address(s) + 8, 1); //@a
`},
	{"use of an mbarrier's memory", `write out of bounds: 8 bytes at shared memory at \d+, by thread 0 at @a`, `
	SHARED(uint64_t, s, [2]);
	if (threadIdx.x > 0) return;
	mbarrier_init(shared_address(s) + 8, 1);
	s[1] = 1; //@a
`},
	{"too many arrivals", `mbarrier.arrive at @a: more arrivals in a phase than the count, 1`, `
	SHARED(uint64_t, s, [1]);
	if (threadIdx.x > 0) return;
	mbarrier_init(shared_address(s), 1);
	mbarrier_expect(shared_address(s), 16);
	mbarrier_arrive(shared_address(s)); //@a
`},
	{"nobody arrives", `deadlock: 128 threads in mbarrier.try_wait at @a; 0 returned`, `
	SHARED(uint64_t, s, [1]);
	if (threadIdx.x == 0) mbarrier_init(shared_address(s), 1);
	__syncthreads();
	mbarrier_wait(shared_address(s), 0); //@a
`},
	{"no barrier initialised", `mbarrier.try_wait at @a: no mbarrier was initialised`, `
	SHARED(uint64_t, s, [1]);
	mbarrier_wait(shared_address(s), 0); //@a
`},
	{"too many registers", `setmaxnreg at @a: the block would hold 131072 registers of 65536`, `
	setmaxnreg_inc<256>(); //@a
	for (int i = 0; i < 7; i++) __syncwarp();
`},
}

// firstOfHopper is the first plant that runs with 128 threads and 16 KB of shared memory.
var firstOfHopper = slices.IndexFunc(plants, func(p plant) bool { return p.name == "missing proxy fence" })

// planted is one source with all plants, and the lines of their markers.
func planted() (text string, markers map[string]string) {
	var b strings.Builder
	b.WriteString("#include \"prim_atomic.cuh\"\n#include \"prim_turns.cuh\"\n#include \"prim_tma.cuh\"\n")
	markers = map[string]string{}
	for i, p := range plants {
		line := 1 + strings.Count(b.String(), "\n")
		code := fmt.Sprintf("KERNEL(plant%d, 512, 1)(float* x, float* y) {%s}\nEXPORT(plant%d);\n", i, p.code, i)
		for k, s := range strings.Split(code, "\n") {
			if _, marker, found := strings.Cut(s, "//@"); found {
				markers[fmt.Sprint(i, marker)] = fmt.Sprintf(`planted\.cu:%d`, line+k)
			}
		}
		b.WriteString(code)
	}
	return b.String(), markers
}

// TestPlanted runs kernels with faults in the checked build: each is named, with its place.
func TestPlanted(t *testing.T) {
	text, markers := planted()
	module := compiled(t, fresh(t, checkedDriver), "planted.cu", text)
	for i, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			d := fresh(t, checkedDriver, "copies", "late")
			x := upload(t, d, make([]float32, 64))
			y, err := d.Alloc(256)
			must(t, err)
			f, err := d.Function(module, fmt.Sprint("plant", i))
			must(t, err)
			grid, threads, shared := [3]uint32{1, 1, 1}, uint32(64), 0
			if strings.Contains(p.name, "blocks") {
				grid[0] = 2
			}
			if i >= firstOfHopper {
				threads, shared = 128, 16384
			}
			if strings.Contains(p.name, "registers") {
				threads = 512
			}
			must(t, d.Launch(f, grid, [3]uint32{threads, 1, 1}, shared, 0, x, y))
			err = d.Synchronize()
			if err == nil {
				t.Fatal("no report")
			}
			want := regexp.MustCompile(`@(\w)`).ReplaceAllStringFunc(p.report,
				func(m string) string { return markers[fmt.Sprint(i, m[1:])] })
			if !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("report\n%v\nwant\n%s", err, want)
			}
		})
	}
}

// correct is a kernel that uses what the plants misuse, rightly.
const correct = `#include "prim.cuh"
KERNEL(correct, 64, 1)(float* x, float* y) {
	SHARED(float, s, [64]);
	const uint32_t t = threadIdx.x;
	for (int round = 0; round < 3; round++) {
		cp_async<4>(shared_address(&s[t]), x + t, 4);
		cp_async_commit();
		cp_async_wait<0>();
		__syncthreads();
		const float v = s[63 - t];
		__syncthreads();
		s[t] = v + shuffle_xor(v, 1) - shuffle_xor(v, 1);
		__syncwarp();
		y[64 * blockIdx.x + t] = s[t ^ 1];
		__syncthreads();
	}
}
EXPORT(correct);
`

// TestNoFalseAlarm runs a correct kernel under many schedules.
func TestNoFalseAlarm(t *testing.T) {
	for _, d := range []*Driver{plain, checkedDriver} {
		module := compiled(t, fresh(t, d), "correct.cu", correct)
		for _, order := range []string{"fifo", "lifo", "random", "skewed"} {
			for _, copies := range []string{"early", "late", "random"} {
				for seed := range 10 {
					d := fresh(t, d, "order", order, "copies", copies, "seed", fmt.Sprint(seed), "threads", "2")
					data := random(64)
					x, y := upload(t, d, data), upload(t, d, make([]float32, 128))
					f, err := d.Function(module, "correct")
					must(t, err)
					must(t, d.Launch(f, [3]uint32{2, 1, 1}, [3]uint32{64, 1, 1}, 0, 0, x, y))
					for i, got := range download[float32](t, d, y, 128) {
						if want := data[63-(i%64)^1]; got != want {
							t.Fatalf("order %s, copies %s, seed %d: element %d is %v, want %v", order, copies, seed, i,
								got, want)
						}
					}
				}
			}
		}
	}
}

// turns is a kernel whose blocks take turns, in the order of tickets or of their numbers.
const turns = `#include "prim_turns.cuh"
KERNEL(turns, 64, 1)(uint32_t* words, float* y, int tickets) {
	SHARED(uint32_t, mine, [1]);
	if (threadIdx.x == 0) {
		mine[0] = tickets ? take_ticket(words + 1) : blockIdx.x;
		wait_acquire(words, mine[0]);
	}
	__syncthreads();
	const uint32_t turn = mine[0], i = (threadIdx.x + turn) % 64;
	y[i] = __fadd_rn(__fmul_rn(y[i], 0.5f), (float)turn);
	__syncthreads();
	if (threadIdx.x == 0) store_release(words, turn + 1);
}
EXPORT(turns);
`

// TestTurns: blocks see what those before them wrote, in any schedule, and the checker knows. Blocks that wait for
// others by their number find that some of these have not begun.
func TestTurns(t *testing.T) {
	const blocks = 20
	want := float32(0)
	for turn := range blocks {
		want = want/2 + float32(turn)
	}
	for _, d := range []*Driver{plain, checkedDriver} {
		module := compiled(t, fresh(t, d), "turns.cu", turns)
		run := func(tickets int32, settings ...string) (Ptr, error) {
			d := fresh(t, d, settings...)
			words, y := upload(t, d, make([]uint32, 2)), upload(t, d, make([]float32, 64))
			f, err := d.Function(module, "turns")
			must(t, err)
			must(t, d.Launch(f, [3]uint32{blocks, 1, 1}, [3]uint32{64, 1, 1}, 0, 0, words, y, tickets))
			return y, d.Synchronize()
		}
		for seed := range 40 {
			order, threads := []string{"fifo", "lifo", "random", "skewed"}[seed%4], fmt.Sprint(1+seed/4%3)
			y, err := run(1, "order", order, "seed", fmt.Sprint(seed), "threads", threads)
			must(t, err)
			for i, got := range download[float32](t, d, y, 64) {
				if got != want {
					t.Fatalf("order %s, %s threads, seed %d: element %d is %v, want %v", order, threads, seed, i, got,
						want)
				}
			}
		}
		for _, threads := range []string{"1", "3"} {
			_, err := run(0, "order", "lifo", "threads", threads)
			if err == nil || !strings.Contains(err.Error(), "deadlock between blocks: block (") {
				t.Errorf("blocks by number, the last first: %v", err)
			}
		}
	}
}

// random are small integers, so that sums are exact.
func random(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i * 7 % 31)
	}
	return x
}

// TestSchedulesFindRaces: in the plain build a missing barrier gives wrong numbers under the skewed order, though not
// under fifo.
func TestSchedulesFindRaces(t *testing.T) {
	d := fresh(t, plain)
	module := compiled(t, d, "race.cu", `#include "prim.cuh"
KERNEL(race, 64, 1)(float* x, float* y) {
	SHARED(float, s, [64]);
	s[threadIdx.x] = x[threadIdx.x];
	__syncthreads();
	const float v = s[63 - threadIdx.x];
	__syncwarp();
	s[threadIdx.x] = v + 1;
	__syncthreads();
	y[threadIdx.x] = s[threadIdx.x];
}
EXPORT(race);
`)
	wrong := func(settings ...string) bool {
		d := fresh(t, plain, settings...)
		data := random(64)
		x, y := upload(t, d, data), upload(t, d, data)
		f, err := d.Function(module, "race")
		must(t, err)
		must(t, d.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{64, 1, 1}, 0, 0, x, y))
		for i, got := range download[float32](t, d, y, 64) {
			if got != data[63-i]+1 {
				return true
			}
		}
		return false
	}
	found := 0
	for seed := range 20 {
		if wrong("order", "skewed", "seed", fmt.Sprint(seed)) {
			found++
		}
	}
	if found == 0 {
		t.Error("20 skewed schedules show nothing")
	}
}

// TestStatistics counts the sectors and wavefronts of accesses with known patterns.
func TestStatistics(t *testing.T) {
	d := fresh(t, checkedDriver, "count", "1")
	module := compiled(t, d, "counted.cu", `#include "prim.cuh"
KERNEL(counted, 32, 1)(const float* x, float* y) {
	SHARED(float, s, [32][32]);
	const uint32_t t = threadIdx.x;
	const float a = x[t];
	const float b = x[8 * t];
	s[0][t] = a;
	__syncwarp();
	s[t][1] = b;
	y[t] = a + b;
}
EXPORT(counted);
`)
	x, y := upload(t, d, make([]float32, 256)), upload(t, d, make([]float32, 32))
	f, err := d.Function(module, "counted")
	must(t, err)
	d.Statistics()
	must(t, d.Launch(f, [3]uint32{3, 1, 1}, [3]uint32{32, 1, 1}, 0, 0, x, y))
	if err := d.Synchronize(); err == nil || !strings.Contains(err.Error(), "race between blocks") {
		t.Fatalf("three blocks write one result: %v", err)
	}
	must(t, d.Reset())
	d.Statistics()
	x, y = upload(t, d, make([]float32, 256)), upload(t, d, make([]float32, 32))
	must(t, d.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, 0, x, y))
	must(t, d.Synchronize())
	want := map[string]string{
		"counted.cu:5\tglobal\tread":   "4\t1\t128\t4\t4",
		"counted.cu:6\tglobal\tread":   "4\t1\t128\t32\t4",
		"counted.cu:7\tshared\twrite":  "4\t1\t128\t1\t1",
		"counted.cu:9\tshared\twrite":  "4\t1\t128\t32\t1",
		"counted.cu:10\tglobal\twrite": "4\t1\t128\t4\t4",
	}
	got := d.Statistics()
	for line := range strings.Lines(got) {
		f := strings.SplitN(strings.TrimSpace(line), "\t", 5)
		key := strings.Join(f[1:4], "\t")
		if want[key] != f[4] {
			t.Errorf("%s: %s, want %s", key, f[4], want[key])
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("nothing about %v in\n%s", want, got)
	}
}

// limited has a time limit for waits at barriers. In blocks after the first, phase number `missing` does not end.
const limited = `#define WEFT_BARRIER_LIMIT 1000000
#include "prim_tma.cuh"
KERNEL(limited, 64, 1)(float* y, int32_t missing) {
	SHARED(uint64_t, s, [2]);
	const uint32_t b = shared_address(s + 1);
	if (threadIdx.x == 0) mbarrier_init(b, 32);
	mbarrier_fence();
	__syncthreads();
	for (int i = 0; i < 4; i++) {
		if (threadIdx.x < 32)
			mbarrier_wait(b, i & 1);
		else if (blockIdx.x == 0 || i != missing)
			mbarrier_arrive(b);
		__syncthreads();
	}
	y[64 * blockIdx.x + threadIdx.x] = threadIdx.x;
}
EXPORT(limited);
`

// A kernel that hangs says where, in a build with a time limit; one that does not is none the worse for it.
func TestBarrierLimit(t *testing.T) {
	for _, driver := range []**Driver{&plain, &checkedDriver} {
		for _, order := range []string{"fifo", "lifo", "random", "skewed"} {
			d := fresh(t, *driver, "order", order)
			f, err := d.Function(compiled(t, d, "limited.cu", limited), "limited")
			must(t, err)
			y := upload(t, d, make([]float32, 128))
			must(t, d.Launch(f, [3]uint32{2, 1, 1}, [3]uint32{64, 1, 1}, 0, 0, y, int32(-1)))
			must(t, d.Synchronize())
			if got := download[float32](t, d, y, 128); got[127] != 63 {
				t.Errorf("%s: the kernel did not end: %v", order, got)
			}
			must(t, d.Launch(f, [3]uint32{2, 1, 1}, [3]uint32{64, 1, 1}, 0, 0, y, int32(3)))
			err = d.Synchronize()
			want := `mbarrier.try_wait at limited.cu:11: the mbarrier at shared address \d+ does not end its phase ` +
				`with parity 1 in time \[limited, block \(1,0,0\), thread`
			if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("%s: error %v", order, err)
			}
		}
	}
}
