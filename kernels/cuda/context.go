//go:build cuda && cgo && linux

package cuda

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -L${SRCDIR}/link -Wl,--as-needed -ldl -lpthread
#include "driver.h"
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/weft-ml/weft/kernels"
)

// Built tells whether this program can use GPUs.
const Built = true

// openDriver loads the driver library, once in the life of the program.
func openDriver() (Driver, error) {
	s := C.weft_driver_open()
	library, detail := C.GoString(s.library), C.GoString(s.detail)
	if library == "" {
		if path := os.Getenv("WEFT_CUDA_DRIVER"); path != "" {
			return Driver{}, kernels.Errorf(kernels.ErrDevice, "open", "WEFT_CUDA_DRIVER names no driver library: %s", detail)
		}
		return Driver{}, kernels.Errorf(kernels.ErrDevice, "open",
			"no NVIDIA driver found (%s); install the driver (nvidia-smi must work), and in a container pass the GPU in (docker run --gpus all)", detail)
	}
	if s.status != C.CUDA_SUCCESS {
		return Driver{}, kernels.Errorf(kernels.ErrDevice, "open", "the NVIDIA driver %s does not work: %s", library, initFailure(int(s.status), detail))
	}
	return Driver{library, max(cu.Version(), 0)}, nil
}

// initFailure says what a failure of cuInit means and what to do.
func initFailure(code int, detail string) string {
	switch code {
	case C.CUDA_ERROR_NO_DEVICE:
		if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
			return "it sees no GPU; CUDA_VISIBLE_DEVICES=" + v + " may hide them"
		}
		return "it sees no GPU; is one plugged in, and does nvidia-smi list it?"
	case C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
		return "its version differs from the kernel module's (803); restart the machine after an update of the driver"
	case C.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		return "it is a compatibility package that this GPU does not support (804); remove it from LD_LIBRARY_PATH"
	case C.CUDA_ERROR_SYSTEM_NOT_READY:
		return "the system is not ready (802); on machines with NVSwitch the service nvidia-fabricmanager must run"
	case C.CUDA_ERROR_STUB_LIBRARY:
		return "it is the stub library of a toolkit (34), which is only for linking; take its directory out of LD_LIBRARY_PATH"
	case C.CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
		return detail
	case C.CUDA_ERROR_UNKNOWN:
		return "cuInit failed with an unknown error (999); is the kernel module loaded (nvidia-modprobe), may this user open /dev/nvidia*?"
	}
	return "cuInit failed: " + describe(code)
}

// describe names an error code: "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered".
func describe(code int) string {
	text := "CUDA error"
	if name := C.GoString(C.weft_error_name(C.CUresult(code))); name != "" {
		text = name
	}
	text += " (" + itoa(code) + ")"
	if s := C.GoString(C.weft_error_text(C.CUresult(code))); s != "" {
		text += ": " + s
	}
	return text
}

// codeOf is the error code in an error of package cu, which does not export its type.
func codeOf(err error) int {
	if err == nil {
		return C.CUDA_SUCCESS
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return int(v.Int())
	}
	return C.CUDA_ERROR_UNKNOWN
}

// Devices lists the GPUs, also those that are too old ([GPU.Check] tells). The error, of kind [kernels.ErrDevice],
// says why there is none and what to do about it.
func Devices() ([]GPU, Driver, error) {
	driver, err := openDriver()
	if err != nil {
		return nil, driver, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, driver, kernels.Errorf(kernels.ErrDevice, "open", "the NVIDIA driver does not count its GPUs: %s", describe(codeOf(err)))
	}
	if n == 0 {
		return nil, driver, kernels.Errorf(kernels.ErrDevice, "open", "the NVIDIA driver is there, but %s", initFailure(C.CUDA_ERROR_NO_DEVICE, ""))
	}
	all := make([]GPU, n)
	for i := range all {
		if all[i], err = queryGPU(i, n); err != nil {
			return nil, driver, kernels.Errorf(kernels.ErrDevice, "open", "the NVIDIA driver does not describe cuda:%d: %s", i, describe(codeOf(err)))
		}
	}
	return all, driver, nil
}

// queryGPU reads the description of one of n GPUs.
func queryGPU(ordinal, n int) (g GPU, err error) {
	g.Ordinal = ordinal
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return g, err
	}
	if g.Name, err = dev.Name(); err != nil {
		return g, err
	}
	memory, err := dev.TotalMem()
	if err != nil {
		return g, err
	}
	g.Memory = int(memory)
	var domain, bus, slot int
	for _, a := range []struct {
		to        *int
		attribute cu.DeviceAttribute
	}{
		{&g.Major, cu.ComputeCapabilityMajor}, {&g.Minor, cu.ComputeCapabilityMinor}, {&g.SMs, cu.MultiprocessorCount},
		{&g.ClockMHz, cu.ClockRate}, {&g.MemoryClockMHz, cu.MemoryClockRate}, {&g.MemoryBusBits, cu.GlobalMemoryBusWidth},
		{&domain, cu.PciDomainID}, {&bus, cu.PciBusID}, {&slot, cu.PciDeviceID},
	} {
		if *a.to, err = dev.Attribute(a.attribute); err != nil {
			return g, err
		}
	}
	g.ClockMHz, g.MemoryClockMHz = g.ClockMHz/1000, g.MemoryClockMHz/1000
	g.PCI = fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, slot)
	for peer := range n {
		other, err := cu.GetDevice(peer)
		if err != nil || peer == ordinal {
			continue
		}
		if can, err := dev.CanAccessPeer(other); err == nil && can != 0 {
			rank, err := dev.P2PAttribute(cu.PerformanceRank, other)
			atomics, err2 := dev.P2PAttribute(cu.P2PNativeAomicSupported, other)
			g.Peers = append(g.Peers, peer)
			g.Links = append(g.Links, Link{err == nil && err2 == nil, rank, atomics != 0})
		}
	}
	return g, nil
}

// context is a GPU's primary context, which it shares with other CUDA code of the process.
type context struct {
	dev    cu.Device
	handle C.CUcontext
}

// retain makes the primary context of a GPU, or takes a share in it.
func retain(ordinal int) (context, error) {
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return context{}, err
	}
	ctx, err := dev.RetainPrimaryCtx()
	return context{dev, handleOf[C.CUcontext](ctx)}, err
}

// release gives the share back; the last one destroys the context.
func (c context) release() error {
	return c.dev.ReleasePrimaryCtx()
}

// do calls f on a thread on which the context is current, for functions of package cu. The error code is that of f.
func (c context) do(f func() error) int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if rc := C.cuCtxSetCurrent(c.handle); rc != C.CUDA_SUCCESS {
		return int(rc)
	}
	return codeOf(f())
}

// handleOf is the driver's handle in a value of package cu, which is a struct around it.
func handleOf[H, T any](v T) H {
	var h H
	if unsafe.Sizeof(h) != unsafe.Sizeof(v) {
		panic("cuda: gorgonia.org/cu has changed the layout of its handles")
	}
	return *(*H)(unsafe.Pointer(&v))
}
