package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A budget is the file budget.txt. Its lines are
//
//	total N                     lines of the library
//	package PATH N [REASON]     lines of a package, and why they became more
//	columns PATH N              lines over 120 columns of a package
//	function PATH NAME N        a function over 80 lines
//	table PATH NAME             a function over 80 lines that is a table
type budget struct {
	entries []*entry
}

// An entry is a line of the budget: a name such as "package tensor", and a limit.
type entry struct {
	name  string
	limit int
	rest  string // a reason, or the whole line where it is a comment
}

// fields is how many words of a line are the name of its entry.
var fields = map[string]int{"total": 1, "package": 2, "columns": 2, "function": 3, "table": 3}

func parseBudget(text string) (*budget, error) {
	b := &budget{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			b.entries = append(b.entries, &entry{rest: line})
			continue
		}
		n := fields[words[0]]
		if n == 0 || len(words) < n {
			return nil, fmt.Errorf("budget.txt: %q", line)
		}
		e := &entry{name: strings.Join(words[:n], " ")}
		if words[0] != "table" {
			if len(words) == n {
				return nil, fmt.Errorf("budget.txt: no number in %q", line)
			}
			var err error
			if e.limit, err = strconv.Atoi(words[n]); err != nil {
				return nil, fmt.Errorf("budget.txt: %q: %w", line, err)
			}
			n++
		}
		e.rest = strings.Join(words[n:], " ")
		b.entries = append(b.entries, e)
	}
	return b, nil
}

func (b *budget) String() string {
	var text strings.Builder
	for _, e := range b.entries {
		line := e.rest
		if e.name != "" {
			if line = e.name; !strings.HasPrefix(line, "table ") {
				line += " " + strconv.Itoa(e.limit)
			}
			line = strings.TrimSpace(line + " " + e.rest)
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}

// find returns the entry with a name, or nil.
func (b *budget) find(name string) *entry {
	if i := slices.IndexFunc(b.entries, func(e *entry) bool { return e.name == name }); i >= 0 {
		return b.entries[i]
	}
	return nil
}

// entries returns the budget that what was found would just keep, but for the total.
func (t *tally) entries() map[string]int {
	need := map[string]int{}
	for pkg, n := range t.lines {
		need["package "+pkg] = n
	}
	for pkg, n := range t.long {
		need["columns "+pkg] = n
	}
	for _, f := range t.funcs {
		if name := f.path + " " + f.name; f.lines-f.table > lines {
			need["function "+name] = max(need["function "+name], f.lines-f.table)
		} else {
			need["table "+name] = 0
		}
	}
	return need
}

// library is the number of lines that the total is about.
func (t *tally) library() int {
	n := 0
	for pkg, lines := range t.lines {
		if group(pkg) == library {
			n += lines
		}
	}
	return n
}

// check returns in which lines the budget is not kept.
func (b *budget) check(t *tally) (faults []string) {
	need := t.entries()
	need["total"] = t.library()
	for _, name := range slices.Sorted(maps.Keys(need)) {
		switch e := b.find(name); {
		case e == nil:
			line := strings.TrimSuffix(fmt.Sprintf("%s %d", name, need[name]), " 0")
			faults = append(faults, "no line in budget.txt: "+line)
		case need[name] > e.limit:
			faults = append(faults, fmt.Sprintf("over budget: %s %d, has %d", name, e.limit, need[name]))
		}
	}
	return faults
}

// lower makes the budget as small as what was found, and gives a package that has no line one. It raises no limit, adds
// no line of another kind, and leaves the total.
func (b *budget) lower(t *tally) {
	need := t.entries()
	b.entries = slices.DeleteFunc(b.entries, func(e *entry) bool {
		_, ok := need[e.name]
		return e.name != "" && e.name != "total" && !ok
	})
	for _, e := range b.entries {
		if n, ok := need[e.name]; ok {
			e.limit = min(e.limit, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(need)) {
		if strings.HasPrefix(name, "package ") && b.find(name) == nil {
			b.entries = slices.Insert(b.entries, b.after(name), &entry{name: name, limit: need[name]})
		}
	}
}

// after is where a package's line belongs: behind those of packages before it, or behind all.
func (b *budget) after(name string) int {
	for i, e := range slices.Backward(b.entries) {
		if strings.HasPrefix(e.name, "package ") && e.name < name {
			return i + 1
		}
	}
	if i := slices.IndexFunc(b.entries, func(e *entry) bool { return e.name == "total" }); i >= 0 {
		return i + 1
	}
	return len(b.entries)
}
