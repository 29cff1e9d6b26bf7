//go:build amd64 || arm64

package vec

func vector1(f func(dst, a *float32, n int)) Kernel {
	return func(dst, a, _, _ []float32) {
		if n := len(dst); n > 0 {
			_ = a[n-1]
			f(&dst[0], &a[0], n)
		}
	}
}

func vector2(f func(dst, a, b *float32, n int)) Kernel {
	return func(dst, a, b, _ []float32) {
		if n := len(dst); n > 0 {
			_, _ = a[n-1], b[n-1]
			f(&dst[0], &a[0], &b[0], n)
		}
	}
}

func vector3(f func(dst, a, b, c *float32, n int)) Kernel {
	return func(dst, a, b, c []float32) {
		if n := len(dst); n > 0 {
			_, _, _ = a[n-1], b[n-1], c[n-1]
			f(&dst[0], &a[0], &b[0], &c[0], n)
		}
	}
}
