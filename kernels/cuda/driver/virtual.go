//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

// Virtual memory is for the segments of the memory pool: one reserved range of addresses, to which memory is mapped as
// it grows, so that nothing moves. All sizes are multiples of the granularity. Nothing here waits for work that uses
// the memory.

// memory describes the memory that is mapped.
func (c Context) memory() C.CUmemAllocationProp {
	return C.CUmemAllocationProp{_type: C.CU_MEM_ALLOCATION_TYPE_PINNED,
		location: C.CUmemLocation{_type: C.CU_MEM_LOCATION_TYPE_DEVICE, id: C.int(c.dev)}}
}

// Granularity is that of virtual memory.
func (c Context) Granularity() (int, Result) {
	var n C.size_t
	memory := c.memory()
	rc := c.call(func() C.CUresult {
		return C.cuMemGetAllocationGranularity(&n, &memory, C.CU_MEM_ALLOC_GRANULARITY_MINIMUM)
	})
	return int(n), rc
}

// Reserve takes a range of addresses without memory.
func (c Context) Reserve(n int) (p Ptr, rc Result) {
	rc = c.call(func() C.CUresult {
		return C.cuMemAddressReserve((*C.CUdeviceptr)(&p), C.size_t(n), 0, 0, 0)
	})
	return p, rc
}

// Map puts new memory behind reserved addresses, which the peers, devices by ordinal, reach, too.
func (c Context) Map(p Ptr, n int, peers []int) Result {
	memory, at, size := c.memory(), C.CUdeviceptr(p), C.size_t(n)
	access := make([]C.CUmemAccessDesc, 1+len(peers))
	for i := range access {
		access[i] = C.CUmemAccessDesc{location: memory.location, flags: C.CU_MEM_ACCESS_FLAGS_PROT_READWRITE}
		if i > 0 {
			access[i].location.id = C.int(peers[i-1])
		}
	}
	return c.call(func() C.CUresult {
		var made C.CUmemGenericAllocationHandle
		rc := C.cuMemCreate(&made, size, &memory, 0)
		if rc != C.CUDA_SUCCESS {
			return rc
		}
		rc = C.cuMemMap(at, size, 0, made, 0)
		C.cuMemRelease(made) // the mapping holds it from now on
		if rc != C.CUDA_SUCCESS {
			return rc
		}
		if rc = C.cuMemSetAccess(at, size, &access[0], C.size_t(len(access))); rc != C.CUDA_SUCCESS {
			C.cuMemUnmap(at, size)
		}
		return rc
	})
}

// MemoryInfo is the free memory of the device, and all of it, in bytes.
func (c Context) MemoryInfo() (free, total int, rc Result) {
	var f, t C.size_t
	rc = c.call(func() C.CUresult { return C.cuMemGetInfo(&f, &t) })
	return int(f), int(t), rc
}

// Unmap gives the memory behind addresses back.
func (c Context) Unmap(p Ptr, n int) Result {
	return c.call(func() C.CUresult { return C.cuMemUnmap(C.CUdeviceptr(p), C.size_t(n)) })
}

// Unreserve gives addresses back.
func (c Context) Unreserve(p Ptr, n int) Result {
	return c.call(func() C.CUresult { return C.cuMemAddressFree(C.CUdeviceptr(p), C.size_t(n)) })
}
