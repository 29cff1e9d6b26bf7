//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// mustNotOpen opens a device, which must fail with the right kind and a sentence that contains all of want.
func mustNotOpen(t *testing.T, name string, want ...string) {
	t.Helper()
	dev, err := kernels.Open(name)
	var e *kernels.Error
	if dev != nil || !errors.As(err, &e) || !errors.Is(err, kernels.ErrDevice) {
		t.Fatalf("%s opened: %v, %v", name, dev, err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", name, err, w)
		}
	}
	t.Log(err)
}

func TestOpenFails(t *testing.T) {
	needBare(t)
	t.Run("no driver", func(t *testing.T) {
		// The variable set to nothing means the usual places; LD_LIBRARY_PATH cannot add one here.
		if inChild(t, "WEFT_CUDA_DRIVER=") {
			if _, err := os.Stat("/dev/nvidiactl"); err == nil {
				t.Skip("this machine has a driver")
			}
			mustNotOpen(t, "cuda", "no NVIDIA driver found", "libcuda.so.1", "install the driver")
		}
	})
	t.Run("wrong path", func(t *testing.T) {
		if inChild(t, "WEFT_CUDA_DRIVER=/nowhere/libcuda.so") {
			mustNotOpen(t, "cuda", "WEFT_CUDA_DRIVER", "/nowhere/libcuda.so")
		}
	})
	t.Run("other library", func(t *testing.T) {
		if inChild(t, "WEFT_CUDA_DRIVER=libm.so.6") {
			mustNotOpen(t, "cuda", "libm.so.6 does not work", "no function cuInit")
		}
	})
	for _, c := range []struct{ name, code, want string }{
		{"no GPU", "100", "sees no GPU"},
		{"versions", "803", "restart the machine"},
		{"compatibility package", "804", "LD_LIBRARY_PATH"},
		{"not ready", "802", "nvidia-fabricmanager"},
		{"stub", "34", "stub library"},
		{"unknown", "999", "nvidia-modprobe"},
		{"other", "3", "cuInit failed: CUDA error (3)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if inChild(t, "WEFT_EMU=init="+c.code) {
				mustNotOpen(t, "cuda", "does not work", c.want)
			}
		})
	}
	t.Run("hidden GPUs", func(t *testing.T) {
		if inChild(t, "WEFT_EMU=init=100", "CUDA_VISIBLE_DEVICES=-1") {
			mustNotOpen(t, "cuda", "CUDA_VISIBLE_DEVICES=-1 may hide them")
		}
	})
	t.Run("no devices", func(t *testing.T) {
		t.Setenv("WEFT_EMU", "devices=0")
		mustNotOpen(t, "cuda", "the NVIDIA driver is there", "sees no GPU")
	})
	t.Run("old", func(t *testing.T) {
		t.Setenv("WEFT_EMU", "capability=75")
		mustNotOpen(t, "cuda", "cuda:0, Weft emulator 7.5, has compute capability 7.5 (Turing)", "8.0 (Ampere)")
	})
	t.Run("one device", func(t *testing.T) {
		mustNotOpen(t, "cuda:1", "one GPU, cuda:0, not cuda:1")
	})
	t.Run("ordinal", func(t *testing.T) {
		t.Setenv("WEFT_EMU", "devices=3")
		mustNotOpen(t, "cuda:3", "3 GPUs, cuda:0 to cuda:2, not cuda:3")
	})
	t.Run("context", func(t *testing.T) {
		t.Setenv("WEFT_EMU", "fail=cuDevicePrimaryCtxRetain:1:101")
		mustNotOpen(t, "cuda", "making a context on cuda:0", "(101)")
	})
	t.Run("GPU in use", func(t *testing.T) {
		if inChild(t) { // alone, so that only this could keep the GPU from being opened later
			t.Setenv("WEFT_EMU", "fail=cuDevicePrimaryCtxRetain:1:46")
			mustNotOpen(t, "cuda", "makes no context on cuda:0", "CUDA_ERROR_DEVICE_UNAVAILABLE (46)",
				"another process", "nvidia-smi -i 0 -c 0")
			if b := device(t); b.Synchronize(0) != nil {
				t.Error("the GPU that has become free does not work")
			}
		}
	})
	t.Run("context without memory", func(t *testing.T) {
		t.Setenv("WEFT_EMU", "fail=cuDevicePrimaryCtxRetain:1:2")
		if _, err := kernels.Open("cuda"); !errors.Is(err, kernels.ErrMemory) {
			t.Errorf("error %v, want one of memory", err)
		}
	})
}

func TestDevices(t *testing.T) {
	needBare(t)
	t.Setenv("WEFT_EMU", "devices=2,capability=89")
	gpus, _, err := Devices()
	if err != nil || len(gpus) != 2 {
		t.Fatalf("%v, %v", gpus, err)
	}
	g := gpus[1]
	if g.Ordinal != 1 || g.Name != "Weft emulator 8.9" || g.Capability() != "8.9" || g.Generation() != "Ada Lovelace" ||
		g.Memory != 1<<30 ||
		g.SMs != 132 || g.ClockMHz != 1980 || g.MemoryClockMHz != 3201 || g.MemoryBusBits != 6144 ||
		len(g.Peers) != 1 || g.Peers[0] != 0 {
		t.Errorf("%+v", g)
	}
	if g.PCI != "0001:f1:02.0" || len(g.Links) != 1 || g.Links[0] != (driver.Link{Known: true, Atomics: true}) {
		t.Errorf("address %s, links %v", g.PCI, g.Links)
	}
	t.Setenv("WEFT_EMU", "devices=2,pcie=1,driver=12030")
	gpus, library, err := Devices()
	if err != nil || gpus[0].Links[0] != (driver.Link{Known: true, Rank: 1}) {
		t.Errorf("%+v, %v", gpus, err)
	}
	if err := library.Check(gpus); err != nil {
		t.Errorf("driver %v, for GPUs with machine code: %v", library, err)
	}
	t.Setenv("WEFT_EMU", "driver=12030,capability=100")
	if gpus, library, err = Devices(); err != nil || !said(library.Check(gpus), "CUDA 12.3", "12.4 of driver 550") {
		t.Errorf("driver %v, for GPUs with PTX: %v, %v", library, library.Check(gpus), err)
	}
	t.Setenv("WEFT_EMU", "driver=11080")
	if gpus, library, err = Devices(); err != nil || !said(library.Check(gpus), "CUDA 11.8", "12.0 of driver 525") {
		t.Errorf("driver %v: %v, %v", library, library.Check(gpus), err)
	}
	t.Setenv("WEFT_EMU", "devices=2,fail=cuDeviceGetP2PAttribute:2:801")
	if gpus, _, err = Devices(); err != nil || gpus[0].Links[0].Known || !gpus[1].Links[0].Known {
		t.Errorf("%+v, %v", gpus, err)
	}
	t.Setenv("WEFT_EMU", "driver=12040")
	if gpus, library, err = Devices(); err != nil || library.Check(gpus) != nil {
		t.Errorf("library %v: %v, %v", library, err, library.Check(gpus))
	}
	t.Setenv("WEFT_EMU", "")
	if _, library, err = Devices(); err != nil {
		t.Fatal(err)
	}
	if library.Version != 13000 || !strings.HasSuffix(library.String(), "CUDA 13.0") {
		t.Errorf("library %v", library)
	}
}

// said tells whether an error says all of some texts.
func said(err error, texts ...string) bool {
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			return false
		}
	}
	return true
}

// What the driver does not tell of a GPU does not keep it from being used, nor other GPUs; but for its capability.
func TestSilentDriver(t *testing.T) {
	for call := 1; call <= 9; call++ {
		fakeImages(t)
		t.Setenv("WEFT_EMU", "leaks=1,devices=2,fail=cuDeviceGetAttribute:"+itoa(call)+":801")
		gpus, _, err := Devices()
		if err != nil || len(gpus) != 2 || gpus[1].Check() != nil || (gpus[0].Check() != nil) != (call == 1) {
			t.Errorf("attribute %d: %v, %v", call, gpus, err)
		}
	}
	t.Setenv("WEFT_EMU", "leaks=1,fail=cuDeviceGetAttribute:1:801")
	mustNotOpen(t, "cuda", "does not tell the compute capability of cuda:0, Weft emulator 9.0")
	for _, call := range []string{"cuDeviceGetName", "cuDeviceTotalMem"} {
		t.Run(call, func(t *testing.T) {
			t.Setenv("WEFT_EMU", "leaks=1,fail="+call+":1:801")
			b := device(t)
			t.Setenv("WEFT_EMU", "leaks=1,fail=cuDeviceGetAttribute:1:801") // shared memory of a block
			if err := run(b, noopOp, alloc(t, b, 4)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The driver is found where containers and NixOS have it, and the dynamic loader does not look. The test puts it there
// in a view of the file system of its own.
func TestDriverFolders(t *testing.T) {
	needBare(t)
	if os.Getenv(childVariable) != "" {
		_, library, err := Devices()
		if err != nil || !strings.HasPrefix(library.Path, os.Getenv("WEFT_TEST_FOLDER")) {
			t.Errorf("%v, %v", library, err)
		}
		return
	}
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("this machine has a driver")
	}
	try := exec.Command("unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/run")
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("needs user namespaces: %v %s", err, out)
	}
	for _, folder := range []string{"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/run/opengl-driver/lib",
		"/run/nvidia/driver/usr/lib64"} {
		top := "/usr/local"
		if strings.HasPrefix(folder, "/run") {
			top = "/run"
		}
		cmd := exec.Command("unshare", "-rm", "sh", "-ec", `mount -t tmpfs tmpfs "$1"; mkdir -p "$2"
			cp "$3" "$2/libcuda.so.1"; exec "$4" -test.run '^TestDriverFolders$' -test.v`,
			"sh", top, folder, os.Getenv("WEFT_CUDA_DRIVER"), os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+t.Name(), "WEFT_TEST_FOLDER="+folder, "WEFT_CUDA_DRIVER=")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%s: %v\n%s", folder, err, out)
		}
	}
}

// With WEFT_BLOCKING_WAITS no wait of the host spins, also where other code has made the context before.
func TestBlockingWaits(t *testing.T) {
	needBare(t)
	if !inChild(t, "WEFT_BLOCKING_WAITS=1", "WEFT_EMU=leaks=1,blocking=1") {
		return
	}
	b := device(t)
	m := alloc(t, b, 100)
	b.Fill(m, 1)
	got := make([]byte, 100)
	if err := b.Read(0, got, m, 0); err != nil || got[99] != 1 {
		t.Error(got, err)
	}
	if err := b.Synchronize(0); err != nil {
		t.Error(err)
	}
	other, rc := driver.Retain(0, true) // the context is there
	if rc != driver.Success {
		t.Error(rc)
	}
	other.Release()
	t.Setenv("WEFT_EMU", "leaks=1,devices=2,fail=cuDevicePrimaryCtxSetFlags:1:999")
	mustNotOpen(t, "cuda:1", "making a context")
}

// A device is open as long as one of those who opened it has not closed it, and then can be opened anew.
func TestReopen(t *testing.T) {
	first, err := kernels.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	second, err := kernels.Open("cuda:0")
	if err != nil || first != second {
		t.Fatalf("%p, %p, %v", first, second, err)
	}
	if err := first.(*Backend).Close(); err != nil {
		t.Fatal(err)
	}
	m := alloc(t, second.(*Backend), 100)
	second.CopyIn(0, m, 0, make([]byte, 100))
	if err := second.(*Backend).Close(); err != nil { // with memory, pinned memory and work left behind
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"run": run(second.(*Backend), noopOp, m), "synchronize": second.Synchronize(0),
		"alloc": func() error { _, err := second.Alloc(1); return err }(),
	} {
		if !errors.Is(err, kernels.ErrDevice) || !strings.Contains(err.Error(), "cuda:0 was closed") {
			t.Errorf("%s after close: %v", what, err)
		}
	}
	if done, err := second.Record(0).Done(); done || !errors.Is(err, kernels.ErrDevice) {
		t.Errorf("an event of a closed device: %v, %v", done, err)
	}
	second.Free(m) // as the garbage collector may

	third := device(t)
	if kernels.Backend(third) == second {
		t.Fatal("a closed device was opened again")
	}
	if err := third.Synchronize(0); err != nil {
		t.Error(err)
	}
}
