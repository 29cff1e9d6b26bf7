package main

import (
	"regexp"
	"slices"
	"strings"
)

// A guard is a predicate register in an instruction's condition. Values are numbered anew where it is set.
type guard struct {
	register string
	value    int
}

// off are the accesses of a way whose condition is false on it. A forward branch that the way passes says what its
// condition is. Where accesses depend on a predicate and others on its opposite, the wider ones are executed.
func (g *graph) off(order []int) map[*sassOp]bool {
	values := map[string]int{}
	known := map[guard]bool{}
	accesses := map[guard]*[2][]*sassOp{} // by whether they are executed where the predicate is true
	for i, at := range order {
		for k := g.blocks[at].first; k < g.blocks[at].end; k++ {
			o := &g.ops[k]
			register, negated := o.guard()
			of := guard{register, values[register]}
			switch {
			case register != "" && width(o) > 0:
				if accesses[of] == nil {
					accesses[of] = &[2][]*sassOp{}
				}
				accesses[of][truth(!negated)] = append(accesses[of][truth(!negated)], o)
			case register != "" && o.branches() && len(o.targets) < 2 && i+1 < len(order):
				if backward := len(o.targets) == 1 && o.targets[0] <= k; !backward {
					passed := order[i+1] == at+1
					known[of] = passed == negated
				}
			}
			for _, r := range o.sets() {
				values[r]++
			}
		}
	}
	off := map[*sassOp]bool{}
	for of, both := range accesses {
		holds, decided := known[of]
		if !decided {
			if len(both[0]) == 0 || len(both[1]) == 0 {
				continue
			}
			holds = widest(both[1]) >= widest(both[0])
		}
		for _, o := range both[truth(!holds)] {
			off[o] = true
		}
	}
	return off
}

func truth(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func widest(ops []*sassOp) (most int) {
	for _, o := range ops {
		most = max(most, width(o))
	}
	return most
}

// guard is the predicate register of an instruction's condition, "" if it has none.
func (o *sassOp) guard() (register string, negated bool) {
	register = strings.TrimPrefix(o.predicate, "@")
	return strings.TrimPrefix(register, "!"), strings.HasPrefix(register, "!")
}

var predicateName = regexp.MustCompile(`^U?P[0-6]$`)

// sets are the predicate registers that an instruction sets: its first two operands may be results, such as a carry.
func (o *sassOp) sets() []string {
	if o.branches() {
		return nil
	}
	if o.is("R2P") {
		return []string{"P0", "P1", "P2", "P3", "P4", "P5", "P6"}
	}
	first := strings.SplitN(o.operands, ",", 3)
	all := make([]string, 0, 2)
	for _, operand := range first[:min(2, len(first))] {
		all = append(all, strings.TrimSpace(operand))
	}
	return slices.DeleteFunc(all, func(r string) bool { return !predicateName.MatchString(r) })
}
