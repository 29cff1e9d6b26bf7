package vec

import "golang.org/x/sys/cpu"

// missing lists the processor features that tier t needs and this machine lacks.
func missing(t Tier) []string {
	type feature struct {
		name string
		has  bool
	}
	var need []feature
	switch t {
	case NEON:
		return []string{"an arm64 processor"}
	case AVX2:
		need = []feature{{"AVX2", cpu.X86.HasAVX2}, {"FMA", cpu.X86.HasFMA}, {"F16C", cpu.X86.HasF16C}}
	case AVX512:
		need = []feature{
			{"AVX512F", cpu.X86.HasAVX512F}, {"AVX512DQ", cpu.X86.HasAVX512DQ},
			{"AVX512BW", cpu.X86.HasAVX512BW}, {"AVX512VL", cpu.X86.HasAVX512VL},
			{"BMI2", cpu.X86.HasBMI2},
		}
	}
	var lacks []string
	for _, f := range need {
		if !f.has {
			lacks = append(lacks, f.name)
		}
	}
	return lacks
}
