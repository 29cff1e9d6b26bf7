package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"

	"github.com/parquet-go/parquet-go/format"
)

// values are the values of a page or a dictionary: one of the slices has them, or index says which of a dictionary they
// are.
type values struct {
	n     int
	bools []bool
	i32   []int32
	i64   []int64
	f32   []float32
	f64   []float64
	text  []byte  // of byte arrays
	ends  []int32 // where they end in text
	index []int32
	dict  *values
}

// bytes is the memory of v, without its dictionary.
func (v *values) bytes() int64 {
	return int64(len(v.bools) + 4*(len(v.i32)+len(v.f32)+len(v.ends)+len(v.index)) + 8*(len(v.i64)+len(v.f64)) +
		cap(v.text) + 256)
}

// bytesAt is byte array k.
func (v *values) bytesAt(k int) []byte {
	from := int32(0)
	if k > 0 {
		from = v.ends[k-1]
	}
	return v.text[from:v.ends[k]]
}

// decodeValues decodes n values of a column. The memory that it takes is that of n values, and of byte arrays at most
// maxPage/2 beside b.
func decodeValues(l *leaf, encoding format.Encoding, b []byte, n int) (v *values, err error) {
	v = &values{n: n}
	wide := 0 // bytes of a value
	switch l.kind {
	case format.Int32, format.Float:
		wide = 4
	case format.Int64, format.Double:
		wide = 8
	case format.FixedLenByteArray:
		wide = l.size
	}
	switch {
	case encoding == format.ByteStreamSplit && wide > 0:
		if len(b)/wide < n {
			return nil, io.ErrUnexpectedEOF
		}
		joined := make([]byte, n*wide)
		for k := range n {
			for i := range wide {
				joined[k*wide+i] = b[i*n+k]
			}
		}
		b = joined
		fallthrough
	case encoding == format.Plain && wide > 0:
		if len(b)/wide < n {
			return nil, io.ErrUnexpectedEOF
		}
		v.plain(l.kind, b, wide)
	case encoding == format.Plain && l.kind == format.Boolean:
		if len(b) < (n+7)/8 {
			return nil, io.ErrUnexpectedEOF
		}
		v.bools = make([]bool, n)
		for k := range n {
			v.bools[k] = b[k>>3]>>(k&7)&1 != 0
		}
	case encoding == format.RLE && l.kind == format.Boolean:
		if b, _, err = prefixed(b); err != nil {
			return nil, err
		}
		bools, err := hybrid[uint8](b, 1, n)
		if err != nil {
			return nil, err
		}
		v.bools = make([]bool, n)
		for k := range n {
			v.bools[k] = bools[k] != 0
		}
	case encoding == format.Plain && l.kind == format.ByteArray:
		v.text, v.ends = b, make([]int32, n)
		return v, v.lengthsBefore(b)
	case encoding == format.DeltaBinaryPacked && l.kind == format.Int32:
		var wide []int64
		if wide, _, err = delta(b, n); err != nil {
			return nil, err
		}
		v.i32 = make([]int32, n)
		for k := range n {
			v.i32[k] = int32(wide[k])
		}
	case encoding == format.DeltaBinaryPacked && l.kind == format.Int64:
		v.i64, _, err = delta(b, n)
	case encoding == format.DeltaLengthByteArray && l.kind == format.ByteArray:
		err = v.deltaLengths(b)
	case encoding == format.DeltaByteArray && (l.kind == format.ByteArray || l.kind == format.FixedLenByteArray):
		if err = v.deltaPrefixes(b); err == nil && l.kind == format.FixedLenByteArray {
			for k := range n {
				if len(v.bytesAt(k)) != l.size {
					return nil, fmt.Errorf("%d bytes, want %d", len(v.bytesAt(k)), l.size)
				}
			}
		}
	default:
		return nil, fmt.Errorf("the encoding %v of %v is unknown", encoding, l.kind)
	}
	return v, err
}

// plain reads values of fixed size, of which there are enough.
func (v *values) plain(kind format.Type, b []byte, wide int) {
	switch kind {
	case format.Int32:
		v.i32 = make([]int32, v.n)
		for k := range v.i32 {
			v.i32[k] = int32(binary.LittleEndian.Uint32(b[4*k:]))
		}
	case format.Float:
		v.f32 = make([]float32, v.n)
		for k := range v.f32 {
			v.f32[k] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*k:]))
		}
	case format.Int64:
		v.i64 = make([]int64, v.n)
		for k := range v.i64 {
			v.i64[k] = int64(binary.LittleEndian.Uint64(b[8*k:]))
		}
	case format.Double:
		v.f64 = make([]float64, v.n)
		for k := range v.f64 {
			v.f64[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*k:]))
		}
	default:
		v.text, v.ends = b[:v.n*wide], make([]int32, v.n)
		for k := range v.ends {
			v.ends[k] = int32((k + 1) * wide)
		}
	}
}

// lengthsBefore reads byte arrays that follow their lengths, and moves them together.
func (v *values) lengthsBefore(b []byte) error {
	to := 0
	for k := range v.ends {
		array, rest, err := prefixed(b)
		if err != nil {
			return err
		}
		to += copy(v.text[to:], array)
		v.ends[k] = int32(to)
		b = rest
	}
	v.text = v.text[:to]
	return nil
}

// prefixed cuts off bytes that follow their number in four bytes.
func prefixed(b []byte) (array, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	return b[:n], b[n:], nil
}

// deltaLengths reads byte arrays behind all their lengths.
func (v *values) deltaLengths(b []byte) error {
	lengths, text, err := delta(b, v.n)
	if err != nil {
		return err
	}
	v.ends = make([]int32, v.n)
	end := int64(0)
	for k, n := range lengths {
		if n < 0 || n > int64(len(text))-end {
			return io.ErrUnexpectedEOF
		}
		end += n
		v.ends[k] = int32(end)
	}
	v.text = text[:end]
	return nil
}

// deltaPrefixes reads byte arrays that begin as the one before does for so many bytes.
func (v *values) deltaPrefixes(b []byte) error {
	prefixes, b, err := delta(b, v.n)
	if err != nil {
		return err
	}
	suffixes := &values{n: v.n}
	if err := suffixes.deltaLengths(b); err != nil {
		return err
	}
	total := int64(len(suffixes.text))
	for _, n := range prefixes {
		if total += n; n < 0 || total > int64(len(b))+maxPage/2 {
			return fmt.Errorf("a prefix of %d bytes: more than %d in the page", n, total)
		}
	}
	v.text, v.ends = make([]byte, 0, total), make([]int32, v.n)
	last := []byte{}
	for k, n := range prefixes {
		if n > int64(len(last)) {
			return fmt.Errorf("a prefix of %d bytes, where there are %d", n, len(last))
		}
		from := len(v.text)
		v.text = append(append(v.text, last[:n]...), suffixes.bytesAt(k)...)
		v.ends[k] = int32(len(v.text))
		last = v.text[from:]
	}
	return nil
}

// levels decodes n levels up to most.
func levels(b []byte, most, n int) ([]uint8, error) {
	if most == 0 {
		return nil, nil
	}
	out, err := hybrid[uint8](b, bits.Len(uint(most)), n)
	if err != nil {
		return nil, err
	}
	for _, l := range out {
		if int(l) > most {
			return nil, fmt.Errorf("level %d, want at most %d", l, most)
		}
	}
	return out, nil
}

// hybrid decodes n numbers of so many bits: runs of equal ones, and groups of eight whose bits follow each other.
func hybrid[T uint8 | int32](b []byte, width, n int) ([]T, error) {
	if width > 32 {
		return nil, fmt.Errorf("numbers of %d bits", width)
	}
	out := make([]T, 0, n)
	for len(out) < n {
		head, used := binary.Uvarint(b)
		if used <= 0 {
			return nil, io.ErrUnexpectedEOF
		}
		b = b[used:]
		count := head >> 1
		if head&1 == 0 {
			size := (width + 7) / 8
			if size > len(b) {
				return nil, io.ErrUnexpectedEOF
			}
			x := T(word(b[:size], 0))
			b = b[size:]
			for range min(count, uint64(n-len(out))) {
				out = append(out, x)
			}
			continue
		}
		if width > 0 {
			count = min(count, uint64(len(b)/width+1)) // of which the last may lack bits
		}
		size := min(int(count)*width, len(b))
		if count >= uint64(n) {
			count = uint64(n)
		}
		k := min(8*int(count), n-len(out))
		if (k*width+7)/8 > size {
			return nil, io.ErrUnexpectedEOF
		}
		for i := range k {
			at := i * width
			out = append(out, T(word(b, at>>3)>>(at&7)&(1<<width-1)))
		}
		b = b[size:]
	}
	return out, nil
}

// word is the eight bytes from an offset on, little-endian; behind the end there are zeros.
func word(b []byte, at int) uint64 {
	if at+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[at:])
	}
	var w [8]byte
	if at < len(b) {
		copy(w[:], b[at:])
	}
	return binary.LittleEndian.Uint64(w[:])
}

// delta decodes n integers that are sums of differences, packed in blocks, and returns what follows.
func delta(b []byte, n int) (out []int64, rest []byte, err error) {
	varint := func() (v uint64) {
		v, used := binary.Uvarint(b)
		if used <= 0 {
			err = io.ErrUnexpectedEOF
			return 0
		}
		b = b[used:]
		return v
	}
	signed := func() int64 { v := varint(); return int64(v>>1) ^ -int64(v&1) }
	block, minis, total, x := varint(), varint(), varint(), signed()
	if err != nil {
		return nil, nil, err
	}
	if block < 8 || block > 1<<20 || minis < 1 || minis > block || block%minis != 0 || block/minis%8 != 0 {
		return nil, nil, fmt.Errorf("blocks of %d differences in %d parts", block, minis)
	}
	if total != uint64(n) {
		return nil, nil, fmt.Errorf("%d values", total)
	}
	if n == 0 {
		return nil, b, nil
	}
	out = append(make([]int64, 0, n), x)
	per := int(block / minis)
	for len(out) < n {
		least := signed()
		if err != nil || uint64(len(b)) < minis {
			return nil, nil, io.ErrUnexpectedEOF
		}
		widths := b[:minis]
		b = b[minis:]
		for _, width := range widths {
			if len(out) == n {
				break // what is behind is not there
			}
			width := int(width)
			k := min(per, n-len(out))
			if width > 64 || (k*width+7)/8 > len(b) {
				return nil, nil, io.ErrUnexpectedEOF
			}
			for i := range k {
				at := i * width
				d := word(b, at>>3) >> (at & 7)
				if width > 56 {
					d |= word(b, at>>3+8) << (64 - at&7) // nothing if it is shifted by 64
				}
				if width < 64 {
					d &= 1<<width - 1
				}
				x += least + int64(d)
				out = append(out, x)
			}
			b = b[min(per*width/8, len(b)):]
		}
	}
	return out, b, nil
}
