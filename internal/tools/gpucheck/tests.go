package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A test says in these lines that it begins and how it ended; those of its parts are indented, or have a slash.
var (
	begins = regexp.MustCompile(`(?m)^=== RUN   ([^/\s]+)$`)
	ended  = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)$`)
)

// lost is what package cuda says of a device that only a new process can use again.
const lost = "only a new process can use it again"

// tests runs the tests of a binary that match a pattern, with more flags. They share a process, which is ended when it
// prints nothing for longer than the limit. If it meets a fault, or does not come to its end, the tests that have not
// passed by then run again, each in its own process.
func (c *check) tests(binary, pattern string, limit time.Duration, flags ...string) {
	list, err := exec.Command(c.file(binary), "-test.list", pattern).Output()
	if err != nil {
		c.note(binary, fmt.Sprintf("the tests could not be listed: %v", err))
		return
	}
	var names []string
	for _, name := range strings.Fields(string(list)) {
		if strings.HasPrefix(name, "Test") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		c.note(binary, "has no test that matches "+pattern)
		return
	}
	flags = append([]string{"-test.v", fmt.Sprint("-test.short=", c.small)}, flags...)
	run := func(name string) []string { return append([]string{"-test.run", name}, flags...) }
	half := time.Until(c.end) * 3 / 4 // the rest is for tests that run again
	if c.small {
		half /= 5
	}
	all := c.start(binary, half, limit, c.file(binary), run(pattern)...)
	text, _ := os.ReadFile(c.outputFile(binary)) // none where the process could not start
	results := c.results(string(text))
	whole := !all.Timeout && len(results) == len(names) && !strings.Contains(string(text), lost)
	all.OK = whole
	c.write(all)
	for _, name := range names {
		if r, known := results[name]; known && (r.OK || whole) {
			c.write(r)
		} else {
			c.do(name, limit, c.file(binary), run("^"+name+"$")...)
		}
	}
}

// results are those of the tests that ended, by name, in the output of a process.
func (c *check) results(text string) map[string]result {
	all := map[string]result{}
	begun := begins.FindAllStringSubmatchIndex(text, -1)
	for i, at := range begun {
		name, end := text[at[2]:at[3]], len(text)
		if i+1 < len(begun) {
			end = begun[i+1][0]
		}
		output := text[at[0]:end]
		how := ended.FindStringSubmatch(output)
		if how == nil || how[2] != name {
			continue
		}
		r := result{Stage: c.stage, Name: name, OK: how[1] != "FAIL", GPU: c.gpu}
		r.Seconds, _ = strconv.ParseFloat(how[3], 64) // it matches
		r.Skipped = r.OK && skips(name, output)
		if !r.OK || r.Skipped {
			r.Output = output[max(0, len(output)-4000):]
		}
		all[name] = r
	}
	return all
}

// skips tells whether a test was skipped, or all that it consists of.
func skips(name, output string) bool {
	return strings.Contains(output, "--- SKIP: "+name) && !strings.Contains(output, "--- PASS: "+name+"/")
}
