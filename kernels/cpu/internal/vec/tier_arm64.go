package vec

// missing lists what tier t needs and this processor lacks: nothing for NEON, which all arm64 processors have.
func missing(t Tier) []string {
	if t == Portable || t == NEON {
		return nil
	}
	return []string{"an amd64 processor"}
}
