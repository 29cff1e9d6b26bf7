//go:build !amd64

package vec

// missing lists the processor features that tier t needs and this machine lacks.
func missing(t Tier) []string {
	if t == Portable {
		return nil
	}
	return []string{"an amd64 processor"}
}
