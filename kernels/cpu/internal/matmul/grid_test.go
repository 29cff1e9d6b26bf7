package matmul

import "testing"

// The blocks of a grid cover C, none is empty, and there is one for each worker if C has that many rows and strips.
func TestChooseGrid(t *testing.T) {
	const width, blockCols = 32, 1024
	for _, m := range []int{1, 3, 12, 50, 128, 145, 1000, 5000} {
		for _, n := range []int{1, 31, 33, 128, 784, 1025, 4100} {
			for _, workers := range []int{1, 2, 7, 64} {
				g := chooseGrid(m, n, width, blockCols, workers)
				if g.down*g.rows < m || (g.down-1)*g.rows >= m || g.across*g.cols < n || (g.across-1)*g.cols >= n {
					t.Errorf("%d x %d for %d workers: %+v does not fit", m, n, workers, g)
				}
				if g.rows > blockRows || g.cols > blockCols || g.cols%width != 0 {
					t.Errorf("%d x %d for %d workers: %+v has blocks of a wrong size", m, n, workers, g)
				}
				if m >= 1000 && n >= 784 && g.down*g.across < workers {
					t.Errorf("%d x %d for %d workers: %+v has too few blocks", m, n, workers, g)
				}
			}
		}
	}
}
