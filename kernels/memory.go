package kernels

// MemorySizes are amounts of device memory in bytes. Each of the first four contains the one before.
type MemorySizes struct {
	Requested int // asked for by tensors
	Allocated int // in the blocks that tensors have, rounding included
	Active    int // the same, and blocks that were freed while another stream still used them
	Reserved  int // taken from the device
	Inactive  int // reserved and not active: cached for the next request
}

// MemoryStats describes a memory pool at one moment.
type MemoryStats struct {
	MemorySizes             // now
	Peak        MemorySizes // the largest of each since the pool was made or its peaks were reset
	Total       MemorySizes // bytes handed out, and taken from the device, since the pool was made; of Inactive: 0

	Kept   int // of Allocated: tensors that belong to no step, such as parameters, until Go's collector frees them
	Blocks int // blocks that steps have: those of Kept are not counted
	Limit  int // of Reserved; 0: none

	Categories [MemoryCategories]CategorySizes // of Allocated, by what it is for

	// Events since the pool was made.
	Allocs, Frees             int // blocks handed out, and come back
	Hits                      int // allocations that the pool served
	SourceAllocs, SourceFrees int // calls of the device that took memory, and that gave memory back
	Retries, OOMs             int // allocations that reached the limit or a full device at first, and that failed
}

// CategorySizes are the bytes of one category: now, their largest number, and all that were handed out.
type CategorySizes struct{ Allocated, Peak, Total int }

// InSteps is the active bytes beside kept ones, which come back as Go's collector finds out.
func (s *MemoryStats) InSteps() int { return s.Active - s.Kept }

// DriverCalls is how often the device was asked for memory or given memory back. In a loop it stays as it is.
func (s *MemoryStats) DriverCalls() int { return s.SourceAllocs + s.SourceFrees }

// Fragmentation is the share of the reserved memory that was not in use at the peaks: 1 - peak active/peak reserved.
func (s *MemoryStats) Fragmentation() float64 {
	if s.Peak.Reserved == 0 {
		return 0
	}
	return 1 - float64(s.Peak.Active)/float64(s.Peak.Reserved)
}

// MemoryCategory says what memory is for.
type MemoryCategory uint8

// The categories.
const (
	Activations      MemoryCategory = iota // results of operations of a step
	Gradients                              // what a backward pass makes, and gradients that steps have committed
	Parameters                             // parameters and state of models
	Optimizer                              // what an optimizer remembers
	Workspace                              // copies of parameters in half precision, snapshots: what the library makes
	Data                                   // copies of host data and of tensors of other devices
	MemoryCategories = iota                // how many there are
)

// String is the name in reports.
func (c MemoryCategory) String() string {
	names := [...]string{"activations", "gradients", "parameters", "optimizer", "workspace", "data"}
	if int(c) >= len(names) {
		return "category " + string('0'+rune(c%10))
	}
	return names[c]
}
