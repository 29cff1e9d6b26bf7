package train

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weft-ml/weft/tensor"
)

// Accuracy is the share of rows whose largest logit is that of their target: logits [... classes], which may also be
// probabilities, integer targets [...]. It waits for the device. It fails as [ConfusionMatrix.Add] does.
func Accuracy(logits, targets *tensor.Tensor) float64 {
	var m ConfusionMatrix
	m.add("accuracy", logits, targets)
	return m.Accuracy()
}

// ConfusionMatrix counts how often which class was taken for which. The zero value is empty. One goroutine
// may use it at a time.
type ConfusionMatrix struct {
	Names []string // of the classes; where there are too few, a class has its number

	classes int            // the largest number of classes in any Add
	counts  map[[2]int]int // by target and guess
	total   int
	right   int
}

// Add counts a batch: logits [... classes], the largest of a row being the guess, integer targets [...] from 0 to
// classes-1. It waits for the device. It fails with tensor.ErrShape, tensor.ErrDType or, for a target that is no
// class, tensor.ErrIndex, and then counts nothing.
func (m *ConfusionMatrix) Add(logits, targets *tensor.Tensor) {
	m.add("confusion_matrix", logits, targets)
}

// add is Add for the operation op.
func (m *ConfusionMatrix) add(op string, logits, targets *tensor.Tensor) {
	engine.Given(op, "logits", logits)
	engine.Given(op, "targets", targets)
	engine.Given(op, "the matrix", m)
	rank := logits.Rank()
	if rank == 0 || !slices.Equal(logits.Shape()[:rank-1], targets.Shape()) {
		engine.Fail(tensor.ErrShape, op, "logits %v have no class for each of targets %v", logits, targets)
	}
	if !targets.DType().IsInt() {
		engine.Fail(tensor.ErrDType, op, "targets are %v, not integers", targets)
	}
	if targets.Len() == 0 {
		return
	}
	classes := logits.Dim(-1)
	guess, truth := tensor.ToSlice[int64](logits.ArgMax(-1)), tensor.ToSlice[int64](targets)
	for i, k := range truth {
		if k < 0 || k >= int64(classes) {
			engine.Fail(tensor.ErrIndex, op, "target %d is %d, there are %d classes", i, k, classes)
		}
	}
	if m.counts == nil {
		m.counts = map[[2]int]int{}
	}
	m.classes = max(m.classes, classes)
	for i, k := range truth {
		m.counts[[2]int{int(k), int(guess[i])}]++
		m.total++
		if k == guess[i] {
			m.right++
		}
	}
}

// Count is how often class guess was taken where class target was right.
func (m *ConfusionMatrix) Count(target, guess int) int {
	return m.given().counts[[2]int{target, guess}]
}

// Total is how many guesses were counted.
func (m *ConfusionMatrix) Total() int { return m.given().total }

// Accuracy is the share of guesses that were right; NaN if there were none.
func (m *ConfusionMatrix) Accuracy() float64 { return float64(m.given().right) / float64(m.total) }

// Precision is the share of the guesses of a class that were right; NaN if it was never guessed.
func (m *ConfusionMatrix) Precision(class int) float64 {
	_, guessed := m.sums(class)
	return float64(m.Count(class, class)) / float64(guessed)
}

// Recall is the share of the targets of a class that were found; NaN if there were none.
func (m *ConfusionMatrix) Recall(class int) float64 {
	targets, _ := m.sums(class)
	return float64(m.Count(class, class)) / float64(targets)
}

// F1 is the harmonic mean of precision and recall of a class, 0 if it was never guessed right; NaN if it was neither
// guessed nor a target.
func (m *ConfusionMatrix) F1(class int) float64 {
	targets, guessed := m.sums(class)
	return 2 * float64(m.Count(class, class)) / float64(targets+guessed)
}

// sums are how often a class was the target and how often the guess.
func (m *ConfusionMatrix) sums(class int) (targets, guessed int) {
	for pair, n := range m.given().counts {
		if pair[0] == class {
			targets += n
		}
		if pair[1] == class {
			guessed += n
		}
	}
	return targets, guessed
}

// widest is the most classes that String makes a table of.
const widest = 40

// String is the table: a row for each target, a column for each guess, recall at the end of a row, and the accuracy.
// Of more than 40 classes it is the accuracy alone.
func (m *ConfusionMatrix) String() string {
	var b strings.Builder
	if m.given().classes <= widest {
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		for k := range m.classes {
			fmt.Fprintf(w, "\t%s", m.name(k))
		}
		fmt.Fprint(w, "\trecall\t\n")
		for target := range m.classes {
			fmt.Fprint(w, m.name(target))
			for guess := range m.classes {
				fmt.Fprintf(w, "\t%d", m.Count(target, guess))
			}
			fmt.Fprintf(w, "\t%.3f\t\n", m.Recall(target))
		}
		w.Flush()
	}
	fmt.Fprintf(&b, "accuracy %.4f of %d", m.Accuracy(), m.total)
	return b.String()
}

// given is m; it fails for nil.
func (m *ConfusionMatrix) given() *ConfusionMatrix {
	engine.Given("confusion_matrix", "the matrix", m)
	return m
}

// name is the name of a class, or its number.
func (m *ConfusionMatrix) name(class int) string {
	if class < len(m.Names) {
		return m.Names[class]
	}
	return fmt.Sprint(class)
}
