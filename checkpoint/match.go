package checkpoint

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/tensor"
)

// A MatchError says what of a file does not fit to a model. Nothing has been loaded.
type MatchError struct {
	Path    string
	Missing []string // names of the model that the file does not have
	Extra   []string // names of the file that the model does not have; at most [MaxExtra]
	Wrong   []string // names of both, with what is different: shapes, types

	none bool   // of the model's names the file has none
	hint string // what may load it nevertheless
}

// MaxExtra is the most names of a file that a [MatchError] lists.
const MaxExtra = 1000

// Error lists the first names of each kind.
func (e *MatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "checkpoint: %s does not fit to the model", e.Path)
	list := func(what string, names []string, wayOut string) {
		const most = 8
		if len(names) == 0 {
			return
		}
		fmt.Fprintf(&b, "; %d %s: %s", len(names), what, strings.Join(names[:min(most, len(names))], ", "))
		if len(names) > most {
			b.WriteString(", ...")
		}
		b.WriteString(wayOut)
	}
	list("of the model's are missing", e.Missing, "")
	list("are not in the model", e.Extra, "")
	list("are different", e.Wrong, "")
	if len(e.Missing) > 0 && len(e.Extra) > 0 && e.hint == "" {
		b.WriteString(" (the option Rename gives them other names)")
	}
	b.WriteString(e.hint)
	if len(e.Missing)+len(e.Extra) > 0 && len(e.Wrong) == 0 && !e.none {
		b.WriteString(" (the option Partial loads the rest)")
	}
	return b.String()
}

// A pair is a tensor of a file and where it goes.
type pair struct {
	from      safetensors.Tensor
	to        *tensor.Tensor
	name      string // in the model
	transpose bool
	found     bool // the file has it
}

// match finds for each tensor of a model its tensor in a file.
func match(model any, path string, file iter.Seq[safetensors.Tensor], c config) ([]pair, error) {
	var pairs []pair
	where := map[string]int{}
	engine.Walk(model, func(name string, t *tensor.Tensor) {
		where[name] = len(pairs)
		pairs = append(pairs, pair{to: t, name: name})
	})
	e := &MatchError{Path: path}
	for t := range file {
		used := false
		for _, name := range names(t) {
			if c.key != "" {
				var below bool
				if name, below = strings.CutPrefix(name, c.key+"."); !below {
					used = true
					continue
				}
			}
			to, transpose := rename(c.rules, name)
			i, ok := where[to]
			switch {
			case to == "":
				used = true
			case ok && pairs[i].found:
				e.Wrong = append(e.Wrong, fmt.Sprintf("%s is there as %s and as %s", to, pairs[i].from.Name, name))
			case ok:
				used = true
				pairs[i].from, pairs[i].transpose, pairs[i].found = t, transpose, true
			}
		}
		if !used && len(e.Extra) < MaxExtra {
			e.Extra = append(e.Extra, t.Name)
		}
	}
	found := pairs[:0]
	for _, p := range pairs {
		if !p.found {
			e.Missing = append(e.Missing, p.name)
			continue
		}
		if fault := p.fault(c); fault != "" {
			e.Wrong = append(e.Wrong, p.name+" "+fault)
		}
		found = append(found, p)
	}
	e.none = len(found) == 0 && len(e.Missing) > 0
	if e.none {
		e.hint = keyHint(where, file, c.key)
	}
	if len(e.Wrong) > 0 || e.none || !c.partial && len(e.Missing)+len(e.Extra) > 0 {
		return nil, e
	}
	return found, nil
}

// keyHint says which keys a file has that has none of a model's names: those below which it has all of them or, if one
// was given in vain, the first parts of its names. It is empty if there is nothing to say.
func keyHint(where map[string]int, file iter.Seq[safetensors.Tensor], key string) string {
	longest := 0
	for name := range where {
		longest = max(longest, len(name))
	}
	below, first := map[string]int{}, map[string]bool{}
	given := false // the file has something below the given key
	for t := range file {
		for _, name := range names(t) {
			part, _, _ := strings.Cut(name, ".")
			first[part] = true
			given = given || strings.HasPrefix(name, key+".")
			for at := max(0, len(name)-longest-1); at < len(name); at++ { // each end that may be a name of the model
				if _, ok := where[name[at+1:]]; ok && name[at] == '.' {
					below[name[:at]]++
				}
			}
		}
	}
	maps.DeleteFunc(below, func(_ string, n int) bool { return n < len(where) })
	list := func(keys iter.Seq[string]) string {
		const most = 8
		var all []string
		for i, key := range slices.Sorted(keys) {
			if i == most {
				return strings.Join(all, ", ") + ", ..."
			}
			all = append(all, fmt.Sprintf("%.40q", key))
		}
		return strings.Join(all, ", ")
	}
	switch {
	case len(below) > 0:
		return fmt.Sprintf(" (all are there below %s: the option Key names one to load from)", list(maps.Keys(below)))
	case key != "" && !given:
		return fmt.Sprintf(" (it has nothing below the key %.40q; names there begin with %s)", key,
			list(maps.Keys(first)))
	}
	return ""
}

// fault says why a pair does not fit.
func (p pair) fault(c config) string {
	want := p.to.Shape()
	if p.transpose && len(want) == 2 {
		slices.Reverse(want)
	}
	if !slices.Equal(p.from.Shape, want) || p.transpose && len(want) != 2 {
		return fmt.Sprintf("has shape %v in the file, want %v", p.from.Shape, want)
	}
	have, known := here(p.from.DType)
	switch {
	case known && have == p.to.DType():
		return ""
	case !known || !have.IsFloat() || !p.to.DType().IsFloat():
		return fmt.Sprintf("is %v in the file, want %v", p.from.DType, inFiles[p.to.DType()])
	case !c.convert:
		return fmt.Sprintf("is %v in the file, want %v (the option Convert converts it)", p.from.DType,
			inFiles[p.to.DType()])
	}
	return ""
}
