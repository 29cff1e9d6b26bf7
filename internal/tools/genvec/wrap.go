package main

import (
	"fmt"
	"slices"
	"strings"
)

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// namedFile writes the exported functions of the named kernels.
func namedFile(ks []*kernel, constraint string, tiers []string) string {
	var b strings.Builder
	header(&b, constraint)
	if tiers != nil {
		b.WriteString("import \"unsafe\"\n")
	}
	for _, k := range ks {
		if k.rows {
			k.rowsWrapper(&b, tiers)
		} else {
			k.wrapper(&b, tiers)
		}
	}
	return b.String()
}

// rowsWrapper writes the exported function of a kernel for rows. The portable tier takes
// row by row, and so do all for rows of several blocks.
func (k *kernel) rowsWrapper(b *strings.Builder, tiers []string) {
	one := title(strings.TrimSuffix(k.name, "Rows"))
	var results, row, pointers []string
	r, u := "nil", "nil"
	call := ""
	if len(k.results) > 0 {
		results, r, call = []string{"r"}, "unsafe.SliceData(r)", "r[i] = "
	}
	for _, v := range slices.Concat(k.outs, k.ins) {
		row = append(row, v+"[i*n:(i+1)*n]")
		pointers = append(pointers, "unsafe.SliceData("+v+")")
	}
	for _, s := range k.uniforms {
		row = append(row, s+"[i]")
		u = "unsafe.SliceData(" + s + ")"
	}
	perRow := slices.Concat(results, k.uniforms)
	params := slices.Concat(k.outs, results, k.ins, k.uniforms)
	fmt.Fprintf(b, "// %s runs [%s] on each row of n elements", title(k.name), one)
	if len(k.uniforms) > 0 {
		fmt.Fprintf(b, ", row i with %s[i]", k.uniforms[0])
	}
	if len(results) > 0 {
		b.WriteString("; r[i] is the result of row i")
	}
	fmt.Fprintf(b, ".\nfunc %s(%s []float32, n int) {\n", title(k.name), strings.Join(params, ", "))
	fmt.Fprintf(b, "rows := len(%s)\n", perRow[0])
	if len(perRow) > 1 {
		fmt.Fprintf(b, "sameLength(%q, rows, len(%s))\n", title(k.name), perRow[1])
	}
	fmt.Fprintf(b, "sameLength(%q, rows*n, len(%s))\n", title(k.name),
		strings.Join(slices.Concat(k.outs, k.ins), "), len("))
	loop := fmt.Sprintf("for i := range rows {\n%s%s(%s)\n}\n", call, one, strings.Join(row, ", "))
	if tiers == nil {
		b.WriteString(loop + "}\n\n")
		return
	}
	fmt.Fprintf(b, "if current == Portable || n > Block {\n%sreturn\n}\nif rows == 0 {\nreturn\n}\n", loop)
	fmt.Fprintf(b, "ptrs := [...]*float32{%s}\n", strings.Join(pointers, ", "))
	for i, t := range tiers {
		call := fmt.Sprintf("%s%s(&ptrs[0], %s, %s, rows, n)\n", k.name, t, u, r)
		if i < len(tiers)-1 {
			call = fmt.Sprintf("if current == %s {\n%sreturn\n}\n", t, call)
		}
		b.WriteString(call)
	}
	b.WriteString("}\n\n")
}

// wrapper writes the exported function of a named kernel, which checks lengths and
// goes to the tier in use.
func (k *kernel) wrapper(b *strings.Builder, tiers []string) {
	vecs := k.vectors()
	params := strings.Join(vecs, ", ") + " []float32"
	if len(k.uniforms) > 0 {
		params += ", " + strings.Join(k.uniforms, ", ") + " float32"
	}
	args := strings.Join(slices.Concat(vecs, k.uniforms), ", ")
	var rets []string
	for range k.results {
		rets = append(rets, "float32")
	}
	ret := ""
	if len(rets) > 0 {
		ret = "(" + strings.Join(rets, ", ") + ")"
	}
	name := title(k.name)
	if len(rets) > 0 {
		k.blocked(b, params, ret, vecs)
		name = k.name + "Block"
	} else {
		k.comment(b)
	}
	fmt.Fprintf(b, "func %s(%s) %s {\n", name, params, ret)
	k.checkLengths(b, vecs)
	lead := "return "
	if ret == "" {
		lead = ""
	}
	if tiers == nil {
		fmt.Fprintf(b, "%s%sPortable(%s)\n}\n\n", lead, k.name, args)
		return
	}
	b.WriteString("if current == Portable {\n")
	if ret == "" {
		fmt.Fprintf(b, "%sPortable(%s)\nreturn\n}\n", k.name, args)
	} else {
		fmt.Fprintf(b, "return %sPortable(%s)\n}\n", k.name, args)
	}
	fmt.Fprintf(b, "ptrs := [...]*float32{unsafe.SliceData(%s)}\n", strings.Join(vecs, "), unsafe.SliceData("))
	scalars := "nil"
	if len(k.uniforms) > 0 {
		fmt.Fprintf(b, "args := [...]float32{%s}\n", strings.Join(k.uniforms, ", "))
		scalars = "&args[0]"
	}
	for i, t := range tiers {
		call := fmt.Sprintf("%s%s%s(&ptrs[0], %s, len(%s))\n", lead, k.name, t, scalars, vecs[0])
		switch {
		case i == len(tiers)-1:
			b.WriteString(call)
		case ret == "":
			fmt.Fprintf(b, "if current == %s {\n%sreturn\n}\n", t, call)
		default:
			fmt.Fprintf(b, "if current == %s {\n%s}\n", t, call)
		}
	}
	b.WriteString("}\n\n")
}

// checkLengths writes that slices must have the same length.
func (k *kernel) checkLengths(b *strings.Builder, vecs []string) {
	if len(vecs) == 1 {
		return
	}
	var differ []string
	for _, v := range vecs[1:] {
		differ = append(differ, fmt.Sprintf("len(%s) != len(%s)", v, vecs[0]))
	}
	fmt.Fprintf(b, "if %s {\nsameLength(%q, len(%s))\n}\n", strings.Join(differ, " || "), title(k.name),
		strings.Join(vecs, "), len("))
}

// comment writes the documentation of the exported function.
func (k *kernel) comment(b *strings.Builder) {
	fmt.Fprintf(b, "// %s %s\n", title(k.name), k.doc)
}

// blocked writes the exported function of a kernel with results: blocks of the
// canonical order, and their results combined.
func (k *kernel) blocked(b *strings.Builder, params, ret string, vecs []string) {
	k.comment(b)
	fmt.Fprintf(b, "func %s(%s) %s {\n", title(k.name), params, ret)
	call := func(part string) string {
		var args []string
		for _, v := range vecs {
			args = append(args, v+part)
		}
		return fmt.Sprintf("%sBlock(%s)", k.name, strings.Join(append(args, k.uniforms...), ", "))
	}
	fmt.Fprintf(b, "n := len(%s)\nif n <= Block {\nreturn %s\n}\n", vecs[0], call(""))
	k.checkLengths(b, vecs)
	var parts, totals []string
	for i, r := range k.results {
		fmt.Fprintf(b, "var t%d %sTotal\n", i, r.kind.name)
		parts = append(parts, fmt.Sprintf("r%d", i))
		totals = append(totals, fmt.Sprintf("t%d.value()", i))
	}
	fmt.Fprintf(b, "for lo := 0; lo < n; lo += Block {\nhi := min(lo+Block, n)\n%s := %s\n", strings.Join(parts, ", "),
		call("[lo:hi]"))
	for i := range k.results {
		fmt.Fprintf(b, "t%d.add(r%d)\n", i, i)
	}
	fmt.Fprintf(b, "}\nreturn %s\n}\n\n", strings.Join(totals, ", "))
}

// fusedFile writes the table of the kernels of pointwise operations: for each tier a function that calls the kernel
// with its arguments. The calls are direct, so that arrays of pointers stay on the stack.
func fusedFile(ks []fusion, constraint string, tiers []string) string {
	var b strings.Builder
	header(&b, constraint)
	if tiers != nil {
		b.WriteString("import \"unsafe\"\n\n")
	}
	b.WriteString("var fused = map[string]*Fused{\n")
	const signature = "func(outs, ins [][]float32, u []float32)"
	for _, k := range ks {
		vecs := slices.Concat(elements("outs", len(k.outs)), elements("ins", len(k.ins)))
		args := slices.Concat(vecs, elements("u", len(k.uniforms)))
		fmt.Fprintf(&b, "%q: {%q, %d, %d, %d, ", k.name, k.name, len(k.outs), len(k.ins), len(k.uniforms))
		fmt.Fprintf(&b, "[numTiers]fusedRun{\nPortable: %s {\n%sPortable(%s)\n},\n", signature, k.kernel.name,
			strings.Join(args, ", "))
		for _, t := range slices.Backward(tiers) {
			fmt.Fprintf(&b, "%s: %s {\np := [...]*float32{unsafe.SliceData(", t, signature)
			fmt.Fprintf(&b, "%s)}\n", strings.Join(vecs, "), unsafe.SliceData("))
			fmt.Fprintf(&b, "%s%s(&p[0], unsafe.SliceData(u), len(outs[0]))\n},\n", k.kernel.name, t)
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// elements names the first n elements of a slice.
func elements(slice string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s[%d]", slice, i))
	}
	return names
}
