package torchfile

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// A machine runs a pickle. Errors are panics of a failure, which run catches.
type machine struct {
	in       *bufio.Reader
	few      [8]byte
	at, size int64 // bytes read, and of the pickle
	op       int64 // where the instruction begins
	memory   int64 // bytes that objects may still take
	largest  int64 // size of a tensor
	storages map[string]*io.SectionReader

	stack []any
	marks []int // heights of the stack
	memo  map[uint32]any
	most  int // the stack's greatest height that memory was taken for
}

// failure is a panic with the error of a file.
type failure struct{ error }

// run runs a pickle and has finish use what it makes.
func (m *machine) run(pickle *io.SectionReader, finish func(m *machine, result any)) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.error
		}
	}()
	m.in, m.size = bufio.NewReaderSize(pickle, 1<<16), pickle.Size()
	for {
		m.op = m.at
		code := m.bytes(1)[0]
		if code == '.' { // STOP
			result := m.pop()
			if m.at != m.size {
				m.fail("pickle", fmt.Sprintf("%d bytes after its end", m.size-m.at), "none")
			}
			finish(m, result)
			return nil
		}
		do := instructions[code]
		if do == nil {
			m.fail("pickle", "the instruction "+cmp.Or(refused[code], fmt.Sprintf("%#x", code)),
				"those of tensors, numbers, texts and containers")
		}
		do(m)
	}
}

// fail ends the run with a [*safetensors.FormatError] at the instruction, counted in bytes of the pickle.
func (m *machine) fail(what, found, want string) {
	panic(failure{fault(-1, fmt.Sprintf("data.pkl, byte %d: %s", m.op, what), found, want)})
}

// take takes memory for an object. The numbers are what Go takes for it, with what growing slices and maps leave.
func (m *machine) take(bytes int) {
	if m.memory -= int64(bytes); m.memory < 0 {
		m.fail("pickle", "more objects", "what fits into half the file's size and 20 MiB")
	}
}

// bytes reads bytes, which are valid until the next call.
func (m *machine) bytes(n int) []byte {
	if int64(n) > m.size-m.at {
		m.fail("pickle", "its end", fmt.Sprintf("%d more bytes", n))
	}
	m.at += int64(n)
	b := m.few[:]
	if n > len(b) {
		b = make([]byte, n)
	}
	_, err := io.ReadFull(m.in, b[:n])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fault(-1, "data.pkl", "its end", fmt.Sprintf("%d bytes, as when it was opened", m.size))
	}
	if err != nil {
		panic(failure{err})
	}
	return b[:n]
}

// number reads an unsigned number of n bytes.
func (m *machine) number(n int) uint64 {
	var b [8]byte
	copy(b[:], m.bytes(n))
	return binary.LittleEndian.Uint64(b[:])
}

// text pushes a text of n bytes.
func (m *machine) text(n uint64) {
	if n > maxText {
		m.fail("pickle", fmt.Sprintf("a text of %d bytes", n), fmt.Sprintf("at most %d", maxText))
	}
	m.take(32 + 2*int(n))
	s := string(m.bytes(int(n)))
	if !utf8.ValidString(s) {
		m.fail("pickle", fmt.Sprintf("the text %.80q", s), "UTF-8")
	}
	m.push(s)
}

// line reads a line of the instruction GLOBAL.
func (m *machine) line() string {
	var line []byte
	for len(line) <= 256 {
		c := m.bytes(1)[0]
		if c == '\n' {
			return string(line)
		}
		line = append(line, c)
	}
	m.fail("pickle", fmt.Sprintf("%.80q...", line), "a name of at most 256 bytes")
	return ""
}

func (m *machine) push(x any) {
	if len(m.stack) == m.most {
		m.take(40)
		m.most++
	}
	m.stack = append(m.stack, x)
}

// integer pushes a number.
func (m *machine) integer(n int64) {
	m.take(8)
	m.push(n)
}

// pop takes the last object from the stack, above the last mark.
func (m *machine) pop() any { return m.popN(1)[0] }

// popN takes the last objects. They stay valid until the next push.
func (m *machine) popN(n int) []any {
	bottom := 0
	if len(m.marks) > 0 {
		bottom = m.marks[len(m.marks)-1]
	}
	if len(m.stack)-n < bottom {
		m.fail("pickle", fmt.Sprintf("%d objects on the stack", len(m.stack)-bottom), fmt.Sprint(n))
	}
	items := m.stack[len(m.stack)-n:]
	m.stack = m.stack[:len(m.stack)-n]
	return items
}

// popMark takes the objects above the last mark.
func (m *machine) popMark() []any {
	if len(m.marks) == 0 {
		m.fail("pickle", "no mark on the stack", "one")
	}
	items := m.popN(len(m.stack) - m.marks[len(m.marks)-1])
	m.marks = m.marks[:len(m.marks)-1]
	return items
}

// top is the last object, which stays.
func (m *machine) top() any {
	x := m.pop()
	m.stack = m.stack[:len(m.stack)+1]
	return x
}

// put keeps the last object under a number.
func (m *machine) put(i uint32) {
	if _, known := m.memo[i]; !known {
		m.take(96)
	}
	m.memo[i] = m.top()
}

// get pushes what was kept.
func (m *machine) get(i uint32) {
	x, ok := m.memo[i]
	if !ok {
		m.fail("pickle", fmt.Sprintf("the memo %d", i), "one that was put")
	}
	m.push(x)
}

// instructions are those of protocols 2 to 5 that torch.save uses (Python's pickletools describes them).
var instructions = [256]func(m *machine){
	0x80: func(m *machine) { // PROTO
		if v := m.number(1); v < 2 || v > 5 {
			m.fail("pickle", fmt.Sprintf("protocol %d", v), "2 to 5")
		}
	},
	0x95: func(m *machine) { m.number(8) }, // FRAME: a size, for readers that read ahead
	'(': func(m *machine) { // MARK
		m.take(16)
		m.marks = append(m.marks, len(m.stack))
	},

	'N':  func(m *machine) { m.push(nil) },                          // NONE
	0x88: func(m *machine) { m.push(true) },                         // NEWTRUE
	0x89: func(m *machine) { m.push(false) },                        // NEWFALSE
	'K':  func(m *machine) { m.integer(int64(m.number(1))) },        // BININT1
	'M':  func(m *machine) { m.integer(int64(m.number(2))) },        // BININT2
	'J':  func(m *machine) { m.integer(int64(int32(m.number(4)))) }, // BININT
	0x8a: func(m *machine) { // LONG1: two's complement
		n := int(m.number(1))
		if n > 8 {
			m.fail("pickle", fmt.Sprintf("a number of %d bytes", n), "at most 8")
		}
		unused := 64 - 8*n
		m.integer(int64(m.number(n)<<unused) >> unused)
	},
	'G': func(m *machine) { // BINFLOAT, big-endian
		m.take(8)
		m.push(math.Float64frombits(binary.BigEndian.Uint64(m.bytes(8))))
	},
	'X':  func(m *machine) { m.text(m.number(4)) }, // BINUNICODE
	0x8c: func(m *machine) { m.text(m.number(1)) }, // SHORT_BINUNICODE

	')':  func(m *machine) { m.push(tuple{}) },                 // EMPTY_TUPLE
	0x85: func(m *machine) { m.push(m.newTuple(m.popN(1))) },   // TUPLE1
	0x86: func(m *machine) { m.push(m.newTuple(m.popN(2))) },   // TUPLE2
	0x87: func(m *machine) { m.push(m.newTuple(m.popN(3))) },   // TUPLE3
	't':  func(m *machine) { m.push(m.newTuple(m.popMark())) }, // TUPLE
	']': func(m *machine) { // EMPTY_LIST
		m.take(24)
		m.push(&list{})
	},
	'a': func(m *machine) { // APPEND
		items := m.popN(1)
		m.add(m.top(), items)
	},
	'e': func(m *machine) { // APPENDS
		items := m.popMark()
		m.add(m.top(), items)
	},
	'}': func(m *machine) { m.push(m.newDict()) }, // EMPTY_DICT
	's': func(m *machine) { // SETITEM
		pair := m.popN(2)
		m.set(m.top(), pair)
	},
	'u': func(m *machine) { // SETITEMS
		pairs := m.popMark()
		m.set(m.top(), pairs)
	},

	'q':  func(m *machine) { m.put(uint32(m.number(1))) }, // BINPUT
	'r':  func(m *machine) { m.put(uint32(m.number(4))) }, // LONG_BINPUT
	0x94: func(m *machine) { m.put(uint32(len(m.memo))) }, // MEMOIZE
	'h':  func(m *machine) { m.get(uint32(m.number(1))) }, // BINGET
	'j':  func(m *machine) { m.get(uint32(m.number(4))) }, // LONG_BINGET
	'c': func(m *machine) { // GLOBAL
		module := m.line()
		m.push(m.named(module, m.line()))
	},
	0x93: func(m *machine) { // STACK_GLOBAL
		pair := m.popN(2)
		m.push(m.named(as[string](m, "module", pair[0]), as[string](m, "name", pair[1])))
	},
	'R': func(m *machine) { // REDUCE
		pair := m.popN(2)
		m.push(m.call(as[global](m, "call", pair[0]), as[tuple](m, "arguments", pair[1])))
	},
	'b': func(m *machine) { // BUILD: attributes of a state_dict, the versions of its modules
		as[*dict](m, "attributes", m.pop())
		as[*dict](m, "object with attributes", m.top())
	},
	'Q': func(m *machine) { m.push(m.persistent(m.pop())) }, // BINPERSID
}

// refused are the instructions that are known, and not for us.
var refused = map[byte]string{
	'0': "POP", '1': "POP_MARK", '2': "DUP", 'F': "FLOAT", 'I': "INT", 'L': "LONG", 'P': "PERSID", 'S': "STRING",
	'T': "BINSTRING", 'U': "SHORT_BINSTRING", 'V': "UNICODE", 'B': "BINBYTES", 'C': "SHORT_BINBYTES", 'd': "DICT",
	'g': "GET", 'i': "INST", 'l': "LIST", 'o': "OBJ", 'p': "PUT", 0x81: "NEWOBJ", 0x82: "EXT1", 0x83: "EXT2",
	0x84: "EXT4", 0x8b: "LONG4", 0x8d: "BINUNICODE8", 0x8e: "BINBYTES8", 0x8f: "EMPTY_SET", 0x90: "ADDITEMS",
	0x91: "FROZENSET", 0x92: "NEWOBJ_EX", 0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}
