package profile_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/weft-ml/weft/profile"
	"github.com/weft-ml/weft/tensor"
)

// What a step holds, for "go tool pprof -top f.pb.gz".
func Example() {
	dev, err := tensor.Open("cpu")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	memory, err := profile.Memory(dev)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = dev.Step(func(s *tensor.Scope) error {
		s.Region("noise", func() []*tensor.Tensor { return []*tensor.Tensor{s.Randn(1000, 1000)} })
		return nil
	})
	memory.Stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	path := filepath.Join(os.TempDir(), "f.pb.gz")
	file, err := os.Create(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(path)
	fmt.Println(memory.Write(file), file.Close())
	// Output: <nil> <nil>
}
