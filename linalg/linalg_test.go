package linalg_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/linalg"
	"github.com/weft-ml/weft/tensor"
)

func open(t testing.TB) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// random are values from -1 to 1, with more on the diagonal.
func random(seed uint64, shape ...int) *tensor.Tensor {
	n, m := shape[len(shape)-2], shape[len(shape)-1]
	eye := tensor.Full(1.5, tensor.Float64, n, m).Tril(0).Triu(0)
	return tensor.Uniform(tensor.Seed(seed), -1, 1, shape...).To(tensor.Float64).Add(eye)
}

type tensors = []*tensor.Tensor

func symmetrized(x *tensor.Tensor) *tensor.Tensor { return x.Add(x.Transpose(-1, -2)).Scale(0.5) }

func gram(x *tensor.Tensor) *tensor.Tensor { return x.MatMul(x.Transpose(-1, -2)) }

// all are calls of which first and second derivatives are checked.
var all = []struct {
	name string
	f    func(x tensors) *tensor.Tensor
	in   [][]int
}{
	{"solve", func(x tensors) *tensor.Tensor { return linalg.Solve(x[0], x[1]) }, [][]int{{2, 3, 3}, {3, 2}}},
	{"solve vector", func(x tensors) *tensor.Tensor { return linalg.Solve(x[0], x[1].Select(-1, 0)) },
		[][]int{{3, 3}, {3, 2}}},
	{"solve_triangular upper", func(x tensors) *tensor.Tensor { return linalg.SolveTriangular(x[0], x[1], true) },
		[][]int{{3, 3}, {2, 3, 2}}},
	{"solve_triangular lower", func(x tensors) *tensor.Tensor { return linalg.SolveTriangular(x[0], x[1], false) },
		[][]int{{2, 3, 3}, {3, 2}}},
	{"inv", func(x tensors) *tensor.Tensor { return linalg.Inv(x[0]) }, [][]int{{2, 3, 3}}},
	{"inv size 1", func(x tensors) *tensor.Tensor { return linalg.Inv(x[0]) }, [][]int{{1, 1}}},
	{"inv strided", func(x tensors) *tensor.Tensor { return linalg.Inv(x[0].Transpose(0, 2).Slice(0, 0, 3, 2)) },
		[][]int{{3, 3, 3}}},
	{"det", func(x tensors) *tensor.Tensor { return linalg.Det(x[0]) }, [][]int{{2, 3, 3}}},
	{"slogdet", func(x tensors) *tensor.Tensor { _, l := linalg.Slogdet(x[0]); return l }, [][]int{{2, 3, 3}}},
	{"cholesky", func(x tensors) *tensor.Tensor { return linalg.Cholesky(gram(x[0])) }, [][]int{{2, 3, 3}}},
	{"cholesky_solve", func(x tensors) *tensor.Tensor {
		return linalg.CholeskySolve(x[0], linalg.Cholesky(gram(x[1])))
	}, [][]int{{3, 2}, {3, 3}}},
	{"qr tall", func(x tensors) *tensor.Tensor { q, r := linalg.QR(x[0]); return q.Sin().MatMul(r) },
		[][]int{{4, 3}}},
	{"qr wide", func(x tensors) *tensor.Tensor { q, r := linalg.QR(x[0]); return q.Sin().MatMul(r) },
		[][]int{{2, 2, 3}}},
	{"eigh values", func(x tensors) *tensor.Tensor { w, _ := linalg.Eigh(symmetrized(x[0])); return w },
		[][]int{{2, 3, 3}}},
	{"eigh vectors", func(x tensors) *tensor.Tensor {
		w, v := linalg.Eigh(symmetrized(x[0]))
		return v.Mul(w.Exp().Unsqueeze(-2)).MatMul(v.Transpose(-1, -2)).Add(v.Square())
	}, [][]int{{3, 3}}},
	{"svd values", func(x tensors) *tensor.Tensor { _, s, _ := linalg.SVD(x[0]); return s }, [][]int{{2, 3, 4}}},
	{"svd tall", svdOf, [][]int{{4, 3}}},
	{"svd wide", svdOf, [][]int{{2, 3}}},
	{"pinv tall", func(x tensors) *tensor.Tensor { return linalg.Pinv(x[0]) }, [][]int{{2, 4, 3}}},
	{"pinv wide", func(x tensors) *tensor.Tensor { return linalg.Pinv(x[0]) }, [][]int{{3, 4}}},
	{"lstsq", func(x tensors) *tensor.Tensor { return linalg.Lstsq(x[0], x[1]) }, [][]int{{4, 3}, {4, 2}}},
	{"nuclear", func(x tensors) *tensor.Tensor { return linalg.MatrixNorm(x[0], linalg.Nuclear) }, [][]int{{3, 4}}},
	{"frobenius", func(x tensors) *tensor.Tensor { return linalg.MatrixNorm(x[0], linalg.Frobenius) },
		[][]int{{2, 3, 4}}},
	{"einsum network", func(x tensors) *tensor.Tensor { return linalg.Einsum("aij,bjk,kk->bai", x...) },
		[][]int{{2, 3, 4}, {2, 4, 3}, {3, 3}}},
	{"tensordot", func(x tensors) *tensor.Tensor { return linalg.Tensordot(x[0], x[1], []int{0, 2}, []int{2, 0}) },
		[][]int{{2, 3, 4}, {4, 3, 2}}},
	{"kron", func(x tensors) *tensor.Tensor { return linalg.Kron(x[0], x[1]) }, [][]int{{2, 3}, {3, 2}}},
}

func svdOf(x tensors) *tensor.Tensor {
	u, s, vt := linalg.SVD(x[0])
	return u.Mul(s.Sin().Unsqueeze(-2)).MatMul(vt).Sum().Add(u.Square().Mul(u.Square()).Sum()).Add(
		vt.Square().Mul(vt.Square()).Mul(s.Unsqueeze(-1)).Sum())
}

func TestGradients(t *testing.T) {
	dev := open(t)
	for _, c := range all {
		var in tensors
		for i, shape := range c.in {
			in = append(in, random(uint64(i+3), shape...))
		}
		if err := autograd.Gradcheck(dev, c.f, in...); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := autograd.GradGradcheck(dev, c.f, in...); err != nil {
			t.Errorf("%s, second derivative: %v", c.name, err)
		}
	}
}

// What decompositions promise of their results, for many sizes, in both types.
func TestProperties(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
		tol := map[tensor.DType]float64{tensor.Float64: 1e-11, tensor.Float32: 2e-4}[dt]
		same := func(what string, n int, a, b *tensor.Tensor) {
			t.Helper()
			if !a.AllClose(b, tol, tol) {
				t.Errorf("%s of size %d, %v: not equal within %g", what, n, dt, tol)
			}
		}
		for n := 1; n <= 40; n += 3 {
			a, wide := random(uint64(n), 2, n, n).To(dt), random(uint64(n), n, n+2).To(dt)
			eye := tensor.Full(1, dt, n, n).Tril(0).Triu(0)
			twice := tensor.Stack(0, eye, eye)
			q, r := linalg.QR(a)
			same("q r", n, q.MatMul(r), a)
			same("qᵀ q", n, q.Transpose(-1, -2).MatMul(q), twice)
			same("r", n, r, r.Triu(0))
			w, v := linalg.Eigh(symmetrized(a))
			same("v w vᵀ", n, v.Mul(w.Unsqueeze(-2)).MatMul(v.Transpose(-1, -2)), symmetrized(a))
			same("vᵀ v", n, v.Transpose(-1, -2).MatMul(v), twice)
			u, s, vt := linalg.SVD(wide)
			same("u s vt", n, u.Mul(s).MatMul(vt), wide)
			same("vt vtᵀ", n, gram(vt), eye)
			l := linalg.Cholesky(gram(wide))
			same("l lᵀ", n, gram(l), gram(wide))
			same("a pinv", n, wide.MatMul(linalg.Pinv(wide)), eye)
		}
	}
}

// The gradient of the determinant of a singular matrix is that of the polynomial.
func TestDetOfSingular(t *testing.T) {
	dev := open(t)
	for _, v := range [][]float64{{1, 2, 3, 4, 5, 6, 2, 4, 6}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, make([]float64, 9)} {
		err := autograd.Gradcheck(dev, func(x tensors) *tensor.Tensor { return linalg.Det(x[0]) },
			tensor.FromSlice(v, 3, 3))
		if err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// The gradient of the determinant of matrices with an inverse, of those that nearly have none, and where it underflows
// is that by minors.
func TestDetGradient(t *testing.T) {
	dev := open(t)
	for _, scale := range []float64{1, 1e-9, 0, 1e-110} {
		v := []float64{2, 1, 0.5, -1, 3, 1, 2, 1, 0.5 + scale} // the third row is nearly the first
		if scale == 1e-110 {
			v = []float64{scale, 0, 0, 0, scale, 0, 0, 0, 3 * scale}
		}
		want, largest := make([]float64, 9), 0.0
		for i := range 3 {
			for j := range 3 {
				at := func(r, c int) float64 { return v[(i+r)%3*3+(j+c)%3] }
				want[3*i+j] = at(1, 1)*at(2, 2) - at(1, 2)*at(2, 1)
				largest = max(largest, math.Abs(want[3*i+j]))
			}
		}
		err := dev.Step(func(s *tensor.Scope) error {
			x := autograd.Watch(s, s.In(tensor.FromSlice(v, 3, 3)))
			g := autograd.Grad(linalg.Det(x), tensors{x})[0]
			if !g.AllClose(tensor.FromSlice(want, 3, 3), 0, 1e-13*largest) {
				t.Errorf("%v: gradient %v, want %v", v, tensor.ToSlice[float64](g), want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Equal eigenvalues and singular values: gradients of the values are finite.
func TestEqualValues(t *testing.T) {
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, s.In(tensor.Full(2, tensor.Float64, 4, 4).Tril(0).Triu(0)))
		w, _ := linalg.Eigh(x)
		_, values, _ := linalg.SVD(x)
		for _, y := range []*tensor.Tensor{w.Sum(), values.Sum()} {
			g := autograd.Grad(y, tensors{x}, autograd.Retain())[0]
			if !g.AllClose(tensor.Full(1, tensor.Float64, 4, 4).Tril(0).Triu(0), 1e-12, 1e-12) {
				t.Errorf("gradient %v, want the identity", g)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestErrors(t *testing.T) {
	dev := open(t)
	square, wide := random(1, 2, 3, 3), random(1, 3, 4)
	for name, c := range map[string]struct {
		kind  error
		parts []string
		f     func(s *tensor.Scope)
	}{
		"inv: not square": {tensor.ErrShape, []string{"inv", "3 rows and 4 columns"},
			func(*tensor.Scope) { linalg.Inv(wide) }},
		"inv: no matrix": {tensor.ErrShape, []string{"inv", "has 1 axes"},
			func(*tensor.Scope) { linalg.Inv(tensor.Of(1.0).Unsqueeze(0)) }},
		"inv: singular": {linalg.ErrSingular, []string{"inv", "the matrix is singular: number 1 of the batch"},
			func(s *tensor.Scope) {
				linalg.Inv(s.In(tensor.Stack(0, square.Select(0, 0), tensor.Full(1, tensor.Float64, 3, 3))))
			}},
		"inv: half": {tensor.ErrDType, []string{"inv: operands [float16[2 3 3]];", "float64 or all float32"},
			func(*tensor.Scope) { linalg.Inv(square.To(tensor.Float16)) }},
		"solve: rows": {tensor.ErrShape, []string{"solve", "has 3 rows, b", "has 4"},
			func(*tensor.Scope) { linalg.Solve(square, random(1, 4, 2)) }},
		"solve: batches": {tensor.ErrShape, []string{"solve", "batches", "2 and 5 on axis -3"},
			func(*tensor.Scope) { linalg.Solve(square, random(1, 5, 3, 2)) }},
		"solve: types": {tensor.ErrDType, []string{"solve"},
			func(s *tensor.Scope) { linalg.Solve(s.In(square), random(1, 3, 2).To(tensor.Float32)) }},
		"solve_triangular: singular": {linalg.ErrSingular, []string{"solve_triangular"},
			func(*tensor.Scope) { linalg.SolveTriangular(square.Tril(-1), square, false) }},
		"cholesky": {linalg.ErrNotPositiveDefinite, []string{"cholesky", "number 0"},
			func(s *tensor.Scope) { linalg.Cholesky(s.In(square.Neg())) }},
		"svd: infinite": {tensor.ErrValue, []string{"svd", "not finite"},
			func(*tensor.Scope) { linalg.SVD(wide.Scale(math.Inf(1))) }},
		"eigh: NaN": {tensor.ErrValue, []string{"eigh", "not finite"},
			func(*tensor.Scope) { linalg.Eigh(square.Scale(math.NaN())) }},
		"pinv: rtol":       {tensor.ErrValue, []string{"rtol", "-1"}, func(*tensor.Scope) { linalg.RTol(-1) }},
		"matrix_norm: ord": {tensor.ErrValue, []string{"norm 99"}, func(*tensor.Scope) { linalg.MatrixNorm(wide, 99) }},
		"matrix_norm: empty": {tensor.ErrShape, []string{"no singular values"},
			func(*tensor.Scope) { linalg.MatrixNorm(tensor.Zeros(tensor.Float64, 0, 3), linalg.Spectral) }},
		"lstsq": {tensor.ErrShape, []string{"lstsq", "has 3 rows, b", "has 5"},
			func(*tensor.Scope) { linalg.Lstsq(wide, random(1, 5, 1)) }},
		"einsum: operands": {tensor.ErrShape, []string{`"ij,jk"`, "2 operands, got 1"},
			func(*tensor.Scope) { linalg.Einsum("ij,jk", wide) }},
		"einsum: rank": {tensor.ErrShape, []string{"operand 0", `"ijk"`, "3 axes"},
			func(*tensor.Scope) { linalg.Einsum("ijk", wide) }},
		"einsum: sizes": {tensor.ErrShape, []string{"axis 0 of operand 1", "size 3", "j had 4"},
			func(*tensor.Scope) { linalg.Einsum("ij,jk", wide, wide) }},
		"einsum: diagonal": {tensor.ErrShape, []string{"axis 1 of operand 0"},
			func(*tensor.Scope) { linalg.Einsum("ii", wide) }},
		"einsum: diagonal of size 1": {tensor.ErrShape, []string{"axis 1 of operand 0"},
			func(*tensor.Scope) { linalg.Einsum("ii", random(1, 1, 3)) }},
		"einsum: unknown": {tensor.ErrShape, []string{"no operand has the axis k"},
			func(*tensor.Scope) { linalg.Einsum("ij->ik", wide) }},
		"einsum: twice": {tensor.ErrShape, []string{"axis i twice"},
			func(*tensor.Scope) { linalg.Einsum("ij->ii", wide) }},
		"einsum: letters": {tensor.ErrValue, []string{"'1'", "no letter"},
			func(*tensor.Scope) { linalg.Einsum("i1", wide) }},
		"einsum: dots": {tensor.ErrValue, []string{"'.'"}, func(*tensor.Scope) { linalg.Einsum("..ij", wide) }},
		"einsum: dots twice": {tensor.ErrValue, []string{"'.'"},
			func(*tensor.Scope) { linalg.Einsum("...i...", wide) }},
		"einsum: result's dots": {tensor.ErrShape, []string{"..."},
			func(*tensor.Scope) { linalg.Einsum("...ij->ij", random(1, 2, 2)); linalg.Einsum("ijk->...", wide) }},
		"einsum: arrows": {tensor.ErrValue, []string{"'-'"}, func(*tensor.Scope) { linalg.Einsum("ij->i->j", wide) }},
		"einsum: nil":    {tensor.ErrValue, []string{"einsum"}, func(*tensor.Scope) { linalg.Einsum("ij", nil) }},
		"tensordot": {tensor.ErrShape, []string{"tensordot", "axis 0", "sizes differ"},
			func(*tensor.Scope) { linalg.Tensordot(wide, wide, []int{0}, []int{1}) }},
		"tensordot: twice": {tensor.ErrShape, []string{"given twice"},
			func(*tensor.Scope) { linalg.Tensordot(wide, wide, []int{0, 0}, []int{0, 0}) }},
		"tensordot: axis": {tensor.ErrShape, []string{"no axis 5"},
			func(*tensor.Scope) { linalg.Tensordot(wide, wide, []int{5}, []int{0}) }},
		"kron": {tensor.ErrShape, []string{"10"},
			func(*tensor.Scope) { linalg.Kron(tensor.Zeros(tensor.Float64, 1, 1, 1, 1, 1), wide) }},
	} {
		err := dev.Step(func(s *tensor.Scope) error { c.f(s); return nil })
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: error %v is not %v", name, err, c.kind)
			continue
		}
		for _, part := range append(c.parts, "linalg_test.go:") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q lacks %q", name, err, part)
			}
		}
	}
}

// Empty batches and matrices, and numbers that MatMul does not take.
func TestEdges(t *testing.T) {
	for _, c := range []struct {
		got  *tensor.Tensor
		want string
	}{
		{linalg.Inv(tensor.Zeros(tensor.Float64, 0, 3, 3)), "[0 3 3]"},
		{linalg.Inv(tensor.Zeros(tensor.Float32, 2, 0, 0)), "[2 0 0]"},
		{linalg.Det(tensor.Zeros(tensor.Float64, 0, 0)), "[] 1"},
		{linalg.Pinv(tensor.Zeros(tensor.Float64, 0, 3)), "[3 0]"},
		{linalg.MatrixRank(tensor.Zeros(tensor.Float64, 2, 0, 3)), "[2] 0 0"},
		{linalg.Einsum("ij,jk", tensor.Zeros(tensor.Float64, 2, 0), tensor.Zeros(tensor.Float64, 0, 1)), "[2 1] 0 0"},
		{linalg.Einsum("ij,jk", tensor.FromSlice([]int64{1, 2}, 1, 2), tensor.FromSlice([]int64{3, 4}, 2, 1)),
			"[1 1] 11"},
		{linalg.Einsum("ij,ij->i", tensor.FromSlice([]float64{1, 2, 3, 4, 5, 6}, 2, 3),
			tensor.FromSlice([]float64{10, 100}, 2, 1)), "[2] 60 1500"},
		{linalg.Einsum("...ij,...jk->ik", tensor.Full(1, tensor.Float64, 2, 1, 4),
			tensor.Full(1, tensor.Float64, 1, 4, 2)),
			"[1 2] 8 8"},
	} {
		got := fmt.Sprint(c.got.Shape())
		for _, v := range tensor.ToSlice[float64](c.got) {
			got += fmt.Sprint(" ", v)
		}
		if got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	u, s, vt := linalg.SVD(tensor.Zeros(tensor.Float32, 3, 0))
	if fmt.Sprint(u.Shape(), s.Shape(), vt.Shape()) != "[3 0] [0] [0 0]" {
		t.Errorf("svd %v %v %v", u, s, vt)
	}
}

// Under autocast decompositions run in float32.
func TestAutocast(t *testing.T) {
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, s.In(random(1, 3, 3).To(tensor.Float32)))
		y := linalg.Inv(x.MatMul(x))
		if y.DType() != tensor.Float32 {
			t.Errorf("the inverse is %v", y)
		}
		g := autograd.Grad(y.Sum(), tensors{x})[0]
		if g.DType() != tensor.Float32 || !g.IsFinite().All().To(tensor.Bool).AllEqual(s.Full(1, tensor.Bool)) {
			t.Errorf("the gradient is %v", g)
		}
		return nil
	}, amp.Autocast(tensor.BFloat16))
	if err != nil {
		t.Fatal(err)
	}
}

// What a decomposition saves outlives the region in which it was called, and second derivatives see it.
func TestRegions(t *testing.T) {
	dev := open(t)
	err := dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, s.In(random(5, 3, 3)))
		var y *tensor.Tensor
		s.Region("layer", func() []*tensor.Tensor {
			q, r := linalg.QR(linalg.Solve(x, linalg.Inv(x)))
			y = q.MatMul(r)
			return []*tensor.Tensor{y}
		})
		g := autograd.Grad(y.Sum(), tensors{x}, autograd.CreateGraph())[0]
		h := autograd.Grad(g.Sum(), tensors{x})[0]
		want := autograd.Grad(autograd.Grad(linalg.Inv(x.MatMul(x)).Sum(), tensors{x}, autograd.CreateGraph())[0].Sum(),
			tensors{x})[0]
		if !h.AllClose(want, 1e-9, 1e-9) {
			t.Errorf("second derivative %v, want %v", h, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
