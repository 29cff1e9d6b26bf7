package main

// A multiprocessor holds so many blocks as all its limits allow. The figures are in the programming guide, in the
// table of technical specifications by compute capability.
type multiprocessor struct {
	warps, blocks int
	shared        int // bytes for all blocks
}

var multiprocessors = map[string]multiprocessor{
	"sm_80":  {64, 32, 164 << 10},
	"sm_86":  {48, 16, 100 << 10},
	"sm_89":  {48, 24, 100 << 10},
	"sm_90":  {64, 32, 228 << 10},
	"sm_90a": {64, 32, 228 << 10},
	"sm_100": {64, 32, 228 << 10},
	"sm_120": {48, 24, 100 << 10},
}

// runsAs is the GPU whose kernels run on others: cubins of sm_80 on 8.6 and 8.9; and PTX that the driver compiles for
// those behind 9.0, whose code is taken to be like that for sm_90.
var runsAs = map[string][]string{"sm_80": {"sm_86", "sm_89"}, "sm_90": {"sm_100", "sm_120"}}

const (
	instructionBytes = 16
	registerFile     = 64 << 10 // of a multiprocessor, in four parts, one for each scheduler of warps
	registerUnit     = 256      // registers are given to a warp in units of this many
	systemShared     = 1 << 10  // what the system takes of shared memory for each block
	schedulers       = 4
	warpSize         = 32
)

// resident is the number of blocks on a multiprocessor, and what limits it.
func resident(target string, threads, registers, shared int) (blocks int, limit string) {
	sm, ok := multiprocessors[target]
	if !ok || threads == 0 {
		return 0, "unknown"
	}
	warps := (threads + warpSize - 1) / warpSize
	blocks, limit = sm.blocks, "blocks"
	least := func(n int, what string) {
		if n < blocks {
			blocks, limit = n, what
		}
	}
	least(sm.warps/warps, "threads")
	if registers > 0 {
		unit := (registers*warpSize + registerUnit - 1) / registerUnit * registerUnit
		least(registerFile/schedulers/unit*schedulers/warps, "registers")
	}
	least(sm.shared/(shared+systemShared), "shared")
	return blocks, limit
}
