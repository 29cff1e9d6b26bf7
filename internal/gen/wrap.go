package main

import (
	"fmt"
	"slices"
	"strings"
)

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// wrapper writes the exported function of a fused kernel, which checks lengths and
// goes to the tier in use.
func (k *kernel) wrapper(b *strings.Builder, tiers []string) {
	vecs := slices.Concat(k.outs, k.ins)
	params := strings.Join(vecs, ", ") + " []float32"
	args := strings.Join(vecs, ", ")
	if len(k.uniforms) > 0 {
		params += ", " + strings.Join(k.uniforms, ", ") + " float32"
		args += ", " + strings.Join(k.uniforms, ", ")
	}
	var rets []string
	for _, r := range k.results {
		rets = append(rets, r.name)
	}
	ret := strings.Join(rets, ", ")
	if ret != "" {
		ret = "(" + ret + " float32)"
	}
	name := title(k.name)
	if len(rets) > 0 {
		k.blocked(b, params, ret, rets, vecs)
		name = k.name + "Block"
	} else {
		k.comment(b)
	}
	fmt.Fprintf(b, "func %s(%s) %s {\n", name, params, ret)
	if len(vecs) > 1 {
		fmt.Fprintf(b, "n := sameLength(%q, len(%s), len(%s)", title(k.name), vecs[0], vecs[1])
		for _, v := range vecs[2:] {
			fmt.Fprintf(b, ", len(%s)", v)
		}
		b.WriteString(")\n")
	} else {
		fmt.Fprintf(b, "n := len(%s)\n", vecs[0])
	}
	lead := "return "
	if ret == "" {
		lead = ""
	}
	if tiers == nil {
		fmt.Fprintf(b, "_ = n\n%s%sPortable(%s)\n}\n\n", lead, k.name, args)
		return
	}
	if len(k.uniforms) > 0 {
		fmt.Fprintf(b, "u := [...]float32{%s}\n", strings.Join(k.uniforms, ", "))
	}
	b.WriteString("switch current {\n")
	for _, t := range tiers {
		fmt.Fprintf(b, "case %s:\n%s%s%s(", t, lead, k.name, t)
		for _, v := range vecs {
			fmt.Fprintf(b, "unsafe.SliceData(%s), ", v)
		}
		if len(k.uniforms) > 0 {
			b.WriteString("&u[0], ")
		}
		b.WriteString("n)\n")
	}
	fmt.Fprintf(b, "default:\n%s%sPortable(%s)\n}\n}\n\n", lead, k.name, args)
}

// comment writes the documentation of the exported function.
func (k *kernel) comment(b *strings.Builder) {
	fmt.Fprintf(b, "// %s %s\n", title(k.name), strings.ReplaceAll(k.doc, "\n", "\n// "))
}

// blocked writes the exported function of a kernel with results: blocks of the
// canonical order, and their results combined.
func (k *kernel) blocked(b *strings.Builder, params, ret string, rets, vecs []string) {
	k.comment(b)
	fmt.Fprintf(b, "func %s(%s) %s {\n", title(k.name), params, ret)
	call := func(lo string) string {
		var args []string
		for _, v := range vecs {
			args = append(args, v+lo)
		}
		return fmt.Sprintf("%sBlock(%s)", k.name, strings.Join(append(args, k.uniforms...), ", "))
	}
	fmt.Fprintf(b, "n := len(%s)\nif n <= Block {\nreturn %s\n}\n", vecs[0], call(""))
	for _, v := range vecs[1:] {
		fmt.Fprintf(b, "sameLength(%q, n, len(%s))\n", title(k.name), v)
	}
	var tmp []string
	for i, r := range k.results {
		fmt.Fprintf(b, "t%d := %sTotal{}\n", i, r.kind.name)
		tmp = append(tmp, fmt.Sprintf("r%d", i))
	}
	fmt.Fprintf(b, "for lo := 0; lo < n; lo += Block {\nhi := min(lo+Block, n)\n%s := %s\n", strings.Join(tmp, ", "), call("[lo:hi]"))
	var totals []string
	for i := range k.results {
		fmt.Fprintf(b, "t%d.add(r%d)\n", i, i)
		totals = append(totals, fmt.Sprintf("t%d.value()", i))
	}
	fmt.Fprintf(b, "}\nreturn %s\n}\n\n", strings.Join(totals, ", "))
}
