package golden

import (
	"fmt"
	"strings"
)

// Philox is one known answer of the random generator Philox 4x32.
type Philox struct {
	Rounds  int
	Counter [4]uint32
	Key     [2]uint32
	Want    [4]uint32
}

// ParsePhilox reads the text of testdata/goldens/philox4x32.txt: a row for each
// answer (rounds, counter, key, result; words in hexadecimal), # for comments.
func ParsePhilox(text string) ([]Philox, error) {
	var rows []Philox
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		var p Philox
		if n := len(strings.Fields(line)); n != 11 {
			return nil, fmt.Errorf("golden: line %d has %d fields, not 11", i+1, n)
		}
		_, err := fmt.Sscanf(line, "%d %x %x %x %x %x %x %x %x %x %x", &p.Rounds,
			&p.Counter[0], &p.Counter[1], &p.Counter[2], &p.Counter[3], &p.Key[0], &p.Key[1],
			&p.Want[0], &p.Want[1], &p.Want[2], &p.Want[3])
		if err != nil {
			return nil, fmt.Errorf("golden: line %d: %w", i+1, err)
		}
		rows = append(rows, p)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("golden: no known answers")
	}
	return rows, nil
}
