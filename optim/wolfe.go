package optim

import "math"

// The constants of the strong Wolfe conditions, and the most evaluations of a search.
const (
	enough  = 1e-4 // of the fall that the slope promises
	flatter = 0.9  // than at the start
	most    = 25
)

// search finds a point on the line that meets the strong Wolfe conditions: first an interval that has one, at growing
// distances, then smaller intervals. Where it runs out of evaluations it takes the lowest point.
func (m *minimization) search(start point, t float64) (point, error) {
	low := func(p point) bool { return p.loss <= start.loss+enough*p.t*start.slope }
	flat := func(p point) bool { return math.Abs(p.slope) <= -flatter*start.slope }
	last := start
	p, err := m.evaluate(t, m.at.direction)
	for n := 0; err == nil; n++ {
		switch {
		case n == most:
			return lower(start, p), nil
		case !low(p) || n > 1 && p.loss >= last.loss:
			return m.zoom(last, p, n, low, flat)
		case flat(p):
			return p, nil
		case p.slope >= 0:
			return m.zoom(last, p, n, low, flat)
		}
		next := cubic(last, p, p.t+0.01*(p.t-last.t), 10*p.t)
		last = p
		p, err = m.evaluate(next, m.at.direction)
	}
	return p, err
}

// zoom looks between a and b, after n evaluations.
func (m *minimization) zoom(a, b point, n int, low, flat func(point) bool) (point, error) {
	long, err := m.largest(m.at.direction)
	best, other := a, b
	if lower(a, b) == b {
		best, other = b, a
	}
	for slow := false; err == nil && n < most && math.Abs(a.t-b.t)*long >= m.set.change; n++ {
		from, to := min(best.t, other.t), max(best.t, other.t)
		t := cubic(best, other, from, to)
		// A second time near an end, or at it, the next point is a tenth of the interval away from there.
		if edge := 0.1 * (to - from); min(to-t, t-from) < edge {
			if slow || t >= to || t <= from {
				if to-t < t-from {
					t = to - edge
				} else {
					t = from + edge
				}
				slow = false
			} else {
				slow = true
			}
		} else {
			slow = false
		}
		var p point
		if p, err = m.evaluate(t, m.at.direction); err != nil {
			break
		}
		if !low(p) || p.loss >= best.loss {
			if other = p; p.loss < best.loss {
				best, other = p, best
			}
		} else {
			if flat(p) {
				return p, nil
			}
			if p.slope*(other.t-best.t) >= 0 {
				other = best
			}
			best = p
		}
		a, b = best, other
	}
	return best, err
}

// lower is the point with the lower loss, a if they are equal.
func lower(a, b point) point {
	if a.loss <= b.loss || math.IsNaN(b.loss) {
		return a
	}
	return b
}

// cubic is the lowest point of the cubic polynomial with the values and slopes of a and b, held between from and to, of
// which it is the middle if there is none (Nocedal and Wright 2006, equation 3.59).
func cubic(a, b point, from, to float64) float64 {
	if a.t > b.t {
		a, b = b, a
	}
	d := a.slope + b.slope - 3*(a.loss-b.loss)/(a.t-b.t)
	square := d*d - a.slope*b.slope
	if !(square >= 0) {
		return (from + to) / 2
	}
	root := math.Sqrt(square)
	t := b.t - (b.t-a.t)*((b.slope+root-d)/(b.slope-a.slope+2*root))
	return min(max(t, from), to)
}
