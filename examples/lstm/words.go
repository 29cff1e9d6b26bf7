package main

import (
	"math/rand/v2"
	"slices"
	"strings"
)

var (
	small = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen " +
		"fifteen sixteen seventeen eighteen nineteen")
	tens = strings.Fields("- - twenty thirty forty fifty sixty seventy eighty ninety")
)

// words is a number below 10,000.
func words(n int) string {
	join := func(high, between string, rest int) string {
		if rest == 0 {
			return high
		}
		return high + between + words(rest)
	}
	switch {
	case n < 20:
		return small[n]
	case n < 100:
		return join(tens[n/10], "-", n%10)
	case n < 1000:
		return join(small[n/100]+" hundred", " and ", n%100)
	case n%1000 < 100:
		return join(small[n/1000]+" thousand", " and ", n%1000)
	}
	return small[n/1000] + " thousand " + words(n%1000)
}

// allNumbers is 1 to 9,999 in words, in random order.
func allNumbers() (lines []string) {
	for _, n := range rand.New(rand.NewPCG(1, 0)).Perm(9999) {
		lines = append(lines, words(n+1))
	}
	return lines
}

// count is how many lines a sample has, but for the last, which may be cut off, and how many of them are in numbers.
func count(sample string, numbers []string) (lines, right int) {
	all := strings.Split(sample, "\n")
	for _, line := range all[:len(all)-1] {
		if slices.Contains(numbers, line) {
			right++
		}
	}
	return len(all) - 1, right
}
