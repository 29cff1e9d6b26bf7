package tensor

import (
	"fmt"
	"math"
	"strings"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/kernels"
)

// Anomaly checks the result of every operation, forward and backward. The step fails at the first result with a NaN, or
// with an infinity that neither operands nor attributes bring in. The error names the operation, the line and the
// layer, and in a backward pass the line of the operation whose gradient it is. With a function the step goes on, and
// the function gets the error of the first such operation of a step: this shows what overflows where a loss scaler then
// skips the update. It is for debugging: the host waits for every operation.
func Anomaly(report ...func(err error)) Option {
	if len(report) > 1 {
		fail(ErrValue, "anomaly", "%d functions are to get the error; one can", len(report))
	}
	if len(report) == 0 {
		return Option{func(m *mode) { m.onAnomaly(func(e *Error) { panic(e) }) }}
	}
	given("anomaly", "the function", report[0])
	return Option{func(m *mode) {
		found := false
		m.onAnomaly(func(e *Error) {
			if !found {
				found = true
				report[0](e)
			}
		})
	}}
}

// onAnomaly makes steps call f with the error of every anomaly.
func (m *mode) onAnomaly(f func(e *Error)) {
	previous := m.observe
	m.observe = func(path string, c *ctx) {
		if previous != nil {
			previous(path, c)
		}
		if e := c.anomaly(path); e != nil {
			f(e)
		}
	}
}

// anomaly is an error if a result has a NaN, or an infinity that was not there before. If the operation is on the tape,
// its node gets the line and the layer, for the errors of its gradient.
func (c *ctx) anomaly(path string) *Error {
	if n := c.Out[0].node; n != nil && &n.ctx == c {
		n.made = caller.Site()
		if path != "" {
			n.made += " in " + path
		}
	}
	if c.Op.View != nil {
		return nil
	}
	for _, y := range c.Out {
		if bad := y.notFinite(); bad.nan > 0 || bad.inf > 0 && !c.hadInfinity() {
			e := kernels.Errorf(ErrValue, c.Op.Name, "the result %s has %v%s", y, bad, c.sources())
			if n := c.scope.derived; n != nil && n.made != "" {
				e.Msg += "; this is the gradient of " + n.Op.Name + " at " + n.made
			}
			e.Site, e.In = caller.Site(), path
			return e
		}
	}
	return nil
}

// hadInfinity tells whether operands or attributes have an infinity or a NaN.
func (c *ctx) hadInfinity() bool {
	for _, v := range c.Floats {
		if v-v != 0 {
			return true
		}
	}
	for _, x := range c.In {
		if x.notFinite() != (notFinite{}) {
			return true
		}
	}
	return false
}

// sources says which operands have NaNs or infinities.
func (c *ctx) sources() string {
	var had []string
	for i, x := range c.In {
		if bad := x.notFinite(); bad != (notFinite{}) {
			had = append(had, fmt.Sprintf("%s %s has %v", c.argName(i), x, bad))
		}
	}
	if had == nil {
		return "; the operands are finite"
	}
	return "; " + strings.Join(had, ", ")
}

// notFinite counts the NaNs and the infinities among the elements of a tensor, and has the index of the first.
type notFinite struct{ nan, inf, of, first int }

// String is such as "2 NaN and 1 infinite of 12 elements, the first at position 3".
func (b notFinite) String() string {
	return fmt.Sprintf("%d NaN and %d infinite of %d elements, the first at position %d", b.nan, b.inf, b.of, b.first)
}

// notFinite asks the device first: the sum of 0*x is 0 unless x has a NaN or an infinity.
func (t *Tensor) notFinite() (b notFinite) {
	if !t.dtype.IsFloat() || t.Len() == 0 || t.Detach().To(Float32).Scale(0).Sum().Item() == 0 {
		return b
	}
	v := ToSlice[float64](t)
	for i, x := range v {
		if x-x == 0 {
			continue
		}
		if b.nan+b.inf == 0 {
			b.first, b.of = i, len(v)
		}
		if math.IsNaN(x) {
			b.nan++
		} else {
			b.inf++
		}
	}
	return b
}
