package philox

import "math"

// Normal sets dst to the numbers first, first+1, ... of the stream as standard normal numbers: two words become two of
// them by the method of Box and Muller (1958), four in each block. They are computed in float64 and then rounded to T.
func Normal[T float32 | float64](dst []T, s Source, first uint64) {
	for i := 0; i < len(dst); {
		w := s.Block((first + uint64(i)) / 4)
		var z [4]float64
		z[0], z[1] = boxMuller(w[0], w[1])
		z[2], z[3] = boxMuller(w[2], w[3])
		for k := (first + uint64(i)) % 4; k < 4 && i < len(dst); k++ {
			dst[i] = T(z[k])
			i++
		}
	}
}

// boxMuller turns the uniform u = (a + 1/2)/2^32 and the angle b/2^32 of a full turn into a point whose coordinates are
// normal: its distance is sqrt(-2 log u).
func boxMuller(a, b uint32) (x, y float64) {
	r := math.Sqrt(-2 * log((float64(a)+0.5)/(1<<32)))
	sin, cos := turn(b)
	return float64(r * cos), float64(r * sin)
}

// The functions below are sums of products that a compiler could contract; the conversions forbid it (Go specification,
// Floating-point operators), so that all platforms round alike.

// log is the natural logarithm of a positive normal number: x = 2^e m with m in [sqrt(1/2), sqrt(2)) and
// log m = 2 atanh(t), t = (m-1)/(m+1), by the series of atanh, |t| < 0.172.
func log(x float64) float64 {
	u := math.Float64bits(x)
	e := int(u>>52) - 1023
	m := math.Float64frombits(u&(1<<52-1) | 1023<<52)
	if m >= math.Sqrt2 {
		m /= 2
		e++
	}
	t := (m - 1) / (m + 1)
	t2 := float64(t * t)
	series := 0.0
	for _, term := range &odd { // 1 + t^2/3 + t^4/5 + ...
		series = float64(series*t2) + term
	}
	return float64(float64(e)*math.Ln2) + float64(2*t*series)
}

// odd are 1/21, 1/19, ... 1: a division for each number would take longer than all else.
var odd = [11]float64{1. / 21, 1. / 19, 1. / 17, 1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3, 1}

// factors are k(k+1) and k(k-1), for k = 16, 14, ... 2.
var factors = [8][2]float64{{272, 240}, {210, 182}, {156, 132}, {110, 90}, {72, 56}, {42, 30}, {20, 12}, {6, 2}}

// turn is the sine and the cosine of the angle b/2^32 of a full turn. The two upper bits are the quadrant; the other
// bits, less one half, are an angle of at most pi/4.
func turn(b uint32) (sin, cos float64) {
	quadrant := b >> 30
	x := (float64(b&(1<<30-1))/(1<<30) - 0.5) * (math.Pi / 2)
	x2 := float64(x * x)
	s, c := 0.0, 0.0
	for _, k := range &factors { // the Taylor series from its small end
		s = 1 - float64(float64(x2*s)/k[0])
		c = 1 - float64(float64(x2*c)/k[1])
	}
	s = float64(x * s)
	// The middle of quadrant q is at pi/4 + q pi/2.
	s, c = float64(s+c)*(math.Sqrt2/2), float64(c-s)*(math.Sqrt2/2)
	switch quadrant {
	case 0:
		return s, c
	case 1:
		return c, -s
	case 2:
		return -s, -c
	}
	return -c, s
}
