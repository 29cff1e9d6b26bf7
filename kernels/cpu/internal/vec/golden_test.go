package vec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// golden is the hash of the values of all instructions on fixed operands. It is the
// same on every processor; it changes when an algorithm does, and with it the bits
// of training.
const golden = "036c7886b01f52782af6f57ecaf6d75fc0c9a54d7e67b2dabb3e3147c897cad7"

// TestGolden computes the hash in every tier.
func TestGolden(t *testing.T) {
	tiers(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		h := sha256.New()
		for i := range lane.Instrs {
			in := &lane.Instrs[i]
			x, y, z := operand(r, 4096), operand(r, 4096), operand(r, 4096)
			dst := make([]float32, 4096)
			Instr(in.Name)(dst, x, y, z)
			for _, v := range dst {
				bits := math.Float32bits(v)
				if v != v {
					bits = 0x7fc00000
				}
				h.Write(binary.LittleEndian.AppendUint32(nil, bits))
			}
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != golden {
			t.Errorf("hash %s, want %s", got, golden)
		}
	})
}
