package cpu

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

var negativeInfinity = float32(math.Inf(-1))

// addMask adds the mask of row r of matrix i, from key lo on, to scores.
func (a *attention) addMask(scores []float32, i, r, lo int) {
	if a.mask.data == nil || len(scores) == 0 {
		return
	}
	m := a.rows(&a.mask, i, r)
	if m.ColStride == 1 {
		vecAdd(scores, scores, m.Data[lo:][:len(scores)], nil)
		return
	}
	for j := range scores {
		scores[j] += m.Data[(lo+j)*m.ColStride]
	}
}

// keptElements are the elements of p that dropout keeps; without data: all.
type keptElements struct {
	data                  []bool
	batch, head, row, col int        // strides
	factors               [2]float32 // of elements that are dropped and kept
}

// keptOf reads an operand [B H T S] and the probability of dropout.
func keptOf(a kernels.Arg, dropout float64) keptElements {
	if a.Len() == 0 {
		return keptElements{}
	}
	st := a.Strides
	return keptElements{Slice[bool](a), st[0], st[1], st[2], st[3], [2]float32{0, float32(1 / (1 - dropout))}}
}

// apply multiplies elements of row r of matrix i, from key lo on, by their factors, for which there is memory.
func (k *keptElements) apply(row, factors []float32, a *attention, i, r, lo int) {
	if k.data == nil || len(row) == 0 {
		return
	}
	kept := k.data[i/a.heads*k.batch+i%a.heads*k.head+r*k.row:]
	factors = factors[:len(row)]
	for j := range factors {
		if kept[(lo+j)*k.col] {
			factors[j] = k.factors[1]
		} else {
			factors[j] = k.factors[0]
		}
	}
	vecMul(row, row, factors, nil)
}
