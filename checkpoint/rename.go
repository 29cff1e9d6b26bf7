package checkpoint

import "strings"

// A Rule gives tensors of a file the name that a model has for them, or the other way round.
type Rule struct {
	File      string // the name in the file; each * stands for one part of it, between dots
	Model     string // the name in the model, with as many *; "" leaves the tensor out
	Transpose bool   // the file has the two axes the other way round
}

// GPT2 is for the files of GPT-2 and their relatives of Hugging Face, and [nn.GPT] with TiedHead. Their linear layers
// are [in out] matrices (Conv1D); h.*.attn.bias is the causal mask. Names begin with "transformer." or not.
//
// [nn.GPT]: https://pkg.go.dev/github.com/weft-ml/weft/nn#GPT
var GPT2 = func() []Rule {
	rules := []Rule{
		{"wte.weight", "tok.weight", false},
		{"wpe.weight", "pos.weight", false},
		{"h.*.ln_1.weight", "blocks.*.ln1.weight", false},
		{"h.*.ln_1.bias", "blocks.*.ln1.bias", false},
		{"h.*.attn.c_attn.weight", "blocks.*.attn.qkv.weight", true},
		{"h.*.attn.c_attn.bias", "blocks.*.attn.qkv.bias", false},
		{"h.*.attn.c_proj.weight", "blocks.*.attn.proj.weight", true},
		{"h.*.attn.c_proj.bias", "blocks.*.attn.proj.bias", false},
		{"h.*.ln_2.weight", "blocks.*.ln2.weight", false},
		{"h.*.ln_2.bias", "blocks.*.ln2.bias", false},
		{"h.*.mlp.c_fc.weight", "blocks.*.mlp.fc1.weight", true},
		{"h.*.mlp.c_fc.bias", "blocks.*.mlp.fc1.bias", false},
		{"h.*.mlp.c_proj.weight", "blocks.*.mlp.fc2.weight", true},
		{"h.*.mlp.c_proj.bias", "blocks.*.mlp.fc2.bias", false},
		{"ln_f.weight", "norm.weight", false},
		{"ln_f.bias", "norm.bias", false},
		{"h.*.attn.bias", "", false},
		{"h.*.attn.masked_bias", "", false},
	}
	for _, r := range rules {
		rules = append(rules, Rule{"transformer." + r.File, r.Model, r.Transpose})
	}
	return append(rules, Rule{"lm_head.weight", "", false})
}()

// rename is the name in the model of a tensor that a file calls name, by the first rule that fits. A name for which
// there is no rule stays.
func rename(rules []Rule, name string) (to string, transpose bool) {
	for _, r := range rules {
		if stars, ok := fit(r.File, name); ok {
			return fill(r.Model, stars), r.Transpose
		}
	}
	return name, false
}

// renameBack is the name in a file of a tensor that the model calls name.
func renameBack(rules []Rule, name string) (file string, transpose bool) {
	for _, r := range rules {
		if stars, ok := fit(r.Model, name); ok && r.Model != "" {
			return fill(r.File, stars), r.Transpose
		}
	}
	return name, false
}

// fill puts names in the place of the stars of a pattern.
func fill(pattern string, stars []string) string {
	for _, star := range stars {
		pattern = strings.Replace(pattern, "*", star, 1)
	}
	return pattern
}

// fit compares a name with a pattern and returns what the stars stand for.
func fit(pattern, name string) (stars []string, ok bool) {
	for {
		want, rest, more := strings.Cut(pattern, ".")
		have, tail, left := strings.Cut(name, ".")
		switch {
		case want == "*":
			stars = append(stars, have)
		case want != have:
			return nil, false
		}
		if !more || !left {
			return stars, more == left
		}
		pattern, name = rest, tail
	}
}
