package main

import "fmt"

// generation is the name of a processor's microarchitecture, by the numbers that CPUID gives: "Zen 3"; for an unknown
// one the numbers. AMD and Intel publish them in revision guides, and arch/x86 of the Linux kernel lists them.
func generation(vendor string, family, model, stepping int) string {
	for _, g := range generations[vendor] {
		if g.family == family && g.first <= model && model <= g.last && stepping >= g.stepping {
			return g.name
		}
	}
	return fmt.Sprintf("family %d, model %d", family, model)
}

// models are a range of models of a family, from a stepping on.
type models struct {
	family, first, last, stepping int
	name                          string
}

var generations = map[string][]models{
	"AuthenticAMD": {
		{23, 0x08, 0x08, 0, "Zen+"},
		{23, 0x18, 0x18, 0, "Zen+"},
		{23, 0x00, 0x2f, 0, "Zen"},
		{23, 0x50, 0x5f, 0, "Zen"},
		{23, 0x30, 0xaf, 0, "Zen 2"},
		{25, 0x10, 0x1f, 0, "Zen 4"},
		{25, 0x60, 0xaf, 0, "Zen 4"},
		{25, 0x00, 0x5f, 0, "Zen 3"},
		{26, 0x00, 0x4f, 0, "Zen 5"},
		{26, 0x60, 0x7f, 0, "Zen 5"},
	},
	"GenuineIntel": {
		{6, 0x2a, 0x2a, 0, "Sandy Bridge"}, {6, 0x2d, 0x2d, 0, "Sandy Bridge"},
		{6, 0x3a, 0x3a, 0, "Ivy Bridge"}, {6, 0x3e, 0x3e, 0, "Ivy Bridge"},
		{6, 0x3c, 0x3c, 0, "Haswell"}, {6, 0x3f, 0x3f, 0, "Haswell"}, {6, 0x45, 0x46, 0, "Haswell"},
		{6, 0x3d, 0x3d, 0, "Broadwell"}, {6, 0x47, 0x47, 0, "Broadwell"}, {6, 0x4f, 0x4f, 0, "Broadwell"},
		{6, 0x56, 0x56, 0, "Broadwell"},
		{6, 0x4e, 0x4e, 0, "Skylake"}, {6, 0x5e, 0x5e, 0, "Skylake"},
		{6, 0x55, 0x55, 10, "Cooper Lake"}, {6, 0x55, 0x55, 5, "Cascade Lake"}, {6, 0x55, 0x55, 0, "Skylake-X"},
		{6, 0x8e, 0x8e, 0, "Kaby Lake or a later Skylake"}, {6, 0x9e, 0x9e, 0, "Kaby Lake or a later Skylake"},
		{6, 0xa5, 0xa6, 0, "Comet Lake"},
		{6, 0x6a, 0x6a, 0, "Ice Lake"}, {6, 0x6c, 0x6c, 0, "Ice Lake"}, {6, 0x7d, 0x7e, 0, "Ice Lake"},
		{6, 0x8c, 0x8d, 0, "Tiger Lake"},
		{6, 0xa7, 0xa7, 0, "Rocket Lake"},
		{6, 0x97, 0x97, 0, "Alder Lake"}, {6, 0x9a, 0x9a, 0, "Alder Lake"},
		{6, 0xb7, 0xb7, 0, "Raptor Lake"}, {6, 0xba, 0xba, 0, "Raptor Lake"}, {6, 0xbf, 0xbf, 0, "Raptor Lake"},
		{6, 0xaa, 0xaa, 0, "Meteor Lake"},
		{6, 0xc5, 0xc6, 0, "Arrow Lake"},
		{6, 0xbd, 0xbd, 0, "Lunar Lake"},
		{6, 0x8f, 0x8f, 0, "Sapphire Rapids"},
		{6, 0xcf, 0xcf, 0, "Emerald Rapids"},
		{6, 0xad, 0xae, 0, "Granite Rapids"},
		{6, 0xaf, 0xaf, 0, "Sierra Forest"},
	},
}

// armCore is the name of an arm64 core by the numbers of its implementer and part, as Linux writes them.
func armCore(implementer, part string) string {
	if name := armCores[implementer+" "+part]; name != "" {
		return name
	}
	return "implementer " + implementer + ", part " + part
}

var armCores = map[string]string{
	"0x41 0xd08": "Cortex-A72", "0x41 0xd0b": "Cortex-A76",
	"0x41 0xd0c": "Neoverse N1", "0x41 0xd49": "Neoverse N2", "0x41 0xd8e": "Neoverse N3",
	"0x41 0xd40": "Neoverse V1", "0x41 0xd4f": "Neoverse V2", "0x41 0xd84": "Neoverse V3",
}
