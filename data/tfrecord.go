package data

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// TFRecord is a [Source] of the records of a file of TensorFlow. [ParseTFExample] reads what most of them are.
type TFRecord struct {
	file  *opened
	index lengths
}

// A record, all numbers little-endian:
//
//	8 bytes     length of the data
//	4 bytes     checksum of the length
//	...         data
//	4 bytes     checksum of the data
const (
	recordHead = 12
	recordTail = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of a part of a record: CRC-32C, turned and moved.
func masked(b []byte) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// OpenTFRecord opens a regular file of records, plain or compressed with gzip. The lengths of all records are read and
// verified at once; data are read and verified when they are asked for. What is damaged is a [*FormatError].
func OpenTFRecord(path string, options ...ReadOption) (*TFRecord, error) {
	file, err := openAt(path, options)
	if err != nil {
		return nil, err
	}
	f := &TFRecord{file: file}
	load := func(note []byte) bool { return f.index.parse(note, file.size) && f.index.end == file.size }
	if err := indexed(file.file, file.size, "tfrecord", readingOf(options), load, f.scan, f.index.note); err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// scan notes where records begin.
func (f *TFRecord) scan() error {
	f.index = lengths{}
	var head [recordHead]byte
	for at := int64(0); at < f.file.size; at = f.index.end {
		if err := f.file.read(head[:], at, fmt.Sprintf("header of record %d", f.index.n)); err != nil {
			return err
		}
		length := binary.LittleEndian.Uint64(head[:])
		if sum := binary.LittleEndian.Uint32(head[8:]); sum != masked(head[:8]) {
			return f.file.bad(at, fmt.Sprintf("length of record %d", f.index.n), fmt.Sprintf("checksum %08x", sum),
				fmt.Sprintf("%08x", masked(head[:8])))
		}
		if left := f.file.size - at - recordHead - recordTail; left < 0 || length > uint64(left) ||
			length > math.MaxInt-16 {
			return f.file.bad(at, fmt.Sprintf("length of record %d", f.index.n), fmt.Sprintf("%d bytes", length),
				fmt.Sprintf("at most %d, up to the end of the file", max(0, left)))
		}
		if err := f.index.add(recordHead + int64(length) + recordTail); err != nil {
			return fmt.Errorf("%s: %w", f.file.name, err)
		}
	}
	return nil
}

// Len is the number of records.
func (f *TFRecord) Len() int {
	if f == nil {
		return 0
	}
	return f.index.n
}

// At reads record i. An i outside [0, Len) is an error.
func (f *TFRecord) At(i int) ([]byte, error) {
	if err := wantExample("record", i, f.Len()); err != nil {
		return nil, err
	}
	from, to := f.index.row(i, &found{})
	raw, err := grown[byte](nil, int(to-from))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.file.name, err)
	}
	raw = raw[:to-from]
	what := fmt.Sprintf("record %d", i)
	if err := f.file.read(raw, from, what); err != nil {
		return nil, err
	}
	data := raw[recordHead : len(raw)-recordTail : len(raw)-recordTail]
	if sum := binary.LittleEndian.Uint32(raw[len(raw)-recordTail:]); sum != masked(data) {
		return nil, f.file.bad(from, what, fmt.Sprintf("checksum %08x", sum), fmt.Sprintf("%08x", masked(data)))
	}
	return data, nil
}

// Close closes the file. At must not be called afterwards.
func (f *TFRecord) Close() error {
	if f == nil {
		return nil
	}
	return f.file.Close()
}

// Fingerprint has the file's name, size and time of change.
func (f *TFRecord) Fingerprint() string {
	if f == nil {
		return ""
	}
	return f.file.Fingerprint()
}

// TFFeature is a value of an example of TensorFlow: one of the three lists, perhaps an empty one.
type TFFeature struct {
	Bytes  [][]byte
	Floats []float32
	Ints   []int64
}

// ParseTFExample are the features of a record that is a tf.Example, by their names. Bytes share the memory of the
// record. What is none is a [*FormatError] with the offset in the record.
func ParseTFExample(record []byte) (map[string]TFFeature, error) {
	features := map[string]TFFeature{}
	err := fields(record, 0, func(n protowire.Number, features1 []byte, at int) error { // Example
		return fields(features1, at, func(n protowire.Number, entry []byte, at int) error { // Features, a map
			var name string
			var f TFFeature
			err := fields(entry, at, func(n protowire.Number, v []byte, at int) error {
				if n == 1 {
					name = string(v)
					return nil
				}
				f = TFFeature{}
				return fields(v, at, f.list)
			}, 1, 2)
			features[name] = f
			return err
		}, 1)
	}, 1)
	if err != nil {
		return nil, err
	}
	return features, nil
}

// list reads the list of kind n of a feature.
func (f *TFFeature) list(n protowire.Number, list []byte, at int) error {
	for begin := len(list); len(list) > 0; {
		offset := at + begin - len(list)
		field, kind, size := protowire.ConsumeTag(list)
		if size < 0 {
			return notExample(offset, protowire.ParseError(size))
		}
		list = list[size:]
		if field != 1 {
			if size = protowire.ConsumeFieldValue(field, kind, list); size < 0 {
				return notExample(offset, protowire.ParseError(size))
			}
			list = list[size:]
			continue
		}
		packed := []byte(nil)
		if kind == protowire.BytesType {
			if packed, size = protowire.ConsumeBytes(list); size < 0 {
				return notExample(offset, protowire.ParseError(size))
			}
		} else {
			if size = protowire.ConsumeFieldValue(field, kind, list); size < 0 {
				return notExample(offset, protowire.ParseError(size))
			}
			packed = list[:size]
		}
		list = list[size:]
		switch {
		case n == 1 && kind == protowire.BytesType:
			f.Bytes = append(f.Bytes, packed)
		case n == 2 && (kind == protowire.BytesType || kind == protowire.Fixed32Type) && len(packed)%4 == 0:
			for ; len(packed) > 0; packed = packed[4:] {
				f.Floats = append(f.Floats, math.Float32frombits(binary.LittleEndian.Uint32(packed)))
			}
		case n == 3 && (kind == protowire.BytesType || kind == protowire.VarintType):
			for len(packed) > 0 {
				v, size := protowire.ConsumeVarint(packed)
				if size < 0 {
					return notExample(offset, protowire.ParseError(size))
				}
				f.Ints, packed = append(f.Ints, int64(v)), packed[size:]
			}
		default:
			return notExample(offset, fmt.Errorf("list %d has elements of wire type %d", n, kind))
		}
	}
	return nil
}

// fields calls f for the fields of a message with one of the numbers, which are messages or strings, and skips others.
// Offset is where the message begins in the record.
func fields(message []byte, offset int, f func(n protowire.Number, value []byte, at int) error,
	numbers ...protowire.Number) error {
	whole := len(message)
	for len(message) > 0 {
		at := offset + whole - len(message)
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return notExample(at, protowire.ParseError(size))
		}
		message = message[size:]
		known := len(numbers) == 0 && n >= 1 && n <= 3
		for _, k := range numbers {
			known = known || k == n
		}
		if !known {
			if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
				return notExample(at, protowire.ParseError(size))
			}
			message = message[size:]
			continue
		}
		if kind != protowire.BytesType {
			return notExample(at, fmt.Errorf("field %d has wire type %d", n, kind))
		}
		value, size := protowire.ConsumeBytes(message)
		if size < 0 {
			return notExample(at, protowire.ParseError(size))
		}
		message = message[size:]
		if err := f(n, value, offset+whole-len(message)-len(value)); err != nil {
			return err
		}
	}
	return nil
}

func notExample(at int, err error) error {
	return &FormatError{File: "record", Offset: int64(at), What: "message", Found: "damage or another message",
		Want: "a tf.Example", Err: err}
}
