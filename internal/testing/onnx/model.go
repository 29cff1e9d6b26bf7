package onnx

import (
	"fmt"
	"math"

	"github.com/weft-ml/weft/tensor"
	"github.com/x448/float16"
)

// A model is a graph with the version of its operators.
type model struct {
	graph *graph
	opset int
}

type graph struct {
	nodes           []*node
	constants       map[string]*tensor.Tensor
	inputs, outputs []string
	types           []int64 // of inputs and outputs; 0 for what is no tensor
}

type node struct {
	op, domain      string
	inputs, outputs []string
	attrs           map[string]attr
}

type attr struct {
	i      int
	f      float64
	s      string
	t      *tensor.Tensor
	g      *graph
	ints   []int
	floats []float64
}

// types are the names of ONNX's element types that Weft lacks.
var types = map[int64]string{0: "sequence, map or optional",
	3: "int8", 4: "uint16", 5: "int16", 8: "string", 12: "uint32", 13: "uint64",
	14: "complex64", 15: "complex128"}

// dtypes are the element types that both have.
var dtypes = map[int64]tensor.DType{1: tensor.Float32, 2: tensor.Uint8, 6: tensor.Int32, 7: tensor.Int64,
	9: tensor.Bool, 10: tensor.Float16, 11: tensor.Float64, 16: tensor.BFloat16}

// A typeError says that Weft lacks a type.
type typeError struct{ name string }

func (e typeError) Error() string { return "type " + e.name }

// each calls f for every field of a message.
func each(b []byte, f func(f field) error) error {
	all, err := fields(b)
	for _, field := range all {
		if err == nil {
			err = f(field)
		}
	}
	return err
}

func readModel(b []byte) (*model, error) {
	m := &model{}
	err := each(b, func(f field) (err error) {
		switch f.id {
		case 7:
			m.graph, err = readGraph(f.bytes)
		case 8: // domain, version
			domain, version := "", 0
			err = each(f.bytes, func(f field) error {
				if f.id == 1 {
					domain = string(f.bytes)
				} else if f.id == 2 {
					version = int(f.number)
				}
				return nil
			})
			if domain == "" {
				m.opset = version
			}
		}
		return err
	})
	if err == nil && m.graph == nil {
		err = fmt.Errorf("onnx: a model without a graph")
	}
	return m, err
}

func readGraph(b []byte) (*graph, error) {
	g := &graph{constants: map[string]*tensor.Tensor{}}
	err := each(b, func(f field) error {
		switch f.id {
		case 1:
			n, err := readNode(f.bytes)
			g.nodes = append(g.nodes, n)
			return err
		case 5:
			name, t, err := readTensor(f.bytes, 0)
			g.constants[name] = t
			return err
		case 11, 12:
			name, kind, err := readValueInfo(f.bytes)
			g.types = append(g.types, kind)
			if f.id == 11 {
				g.inputs = append(g.inputs, name)
			} else {
				g.outputs = append(g.outputs, name)
			}
			return err
		}
		return nil
	})
	return g, err
}

// readValueInfo reads the name and the type of an input or output.
func readValueInfo(b []byte) (name string, kind int64, err error) {
	err = each(b, func(f field) error {
		switch f.id {
		case 1:
			name = string(f.bytes)
		case 2:
			return each(f.bytes, func(f field) error {
				if f.id != 1 { // a sequence, a map or an optional value
					return nil
				}
				return each(f.bytes, func(f field) error {
					if f.id == 1 {
						kind = int64(f.number)
					}
					return nil
				})
			})
		}
		return nil
	})
	return name, kind, err
}

func readNode(b []byte) (*node, error) {
	n := &node{attrs: map[string]attr{}}
	err := each(b, func(f field) error {
		switch f.id {
		case 1:
			n.inputs = append(n.inputs, string(f.bytes))
		case 2:
			n.outputs = append(n.outputs, string(f.bytes))
		case 4:
			n.op = string(f.bytes)
		case 5:
			return n.readAttr(f.bytes)
		case 7:
			n.domain = string(f.bytes)
		}
		return nil
	})
	return n, err
}

func (n *node) readAttr(b []byte) error {
	name, a := "", attr{}
	err := each(b, func(f field) (err error) {
		switch f.id {
		case 1:
			name = string(f.bytes)
		case 2:
			a.f = f.floats()[0]
		case 3:
			a.i = int(int64(f.number))
		case 4:
			a.s = string(f.bytes)
		case 5:
			if _, a.t, err = readTensor(f.bytes, 0); err != nil {
				return err
			}
		case 6:
			a.g, err = readGraph(f.bytes)
		case 7:
			a.floats = append(a.floats, f.floats()...)
		case 8:
			var v []int64
			v, err = f.ints()
			for _, x := range v {
				a.ints = append(a.ints, int(x))
			}
		}
		return err
	})
	n.attrs[name] = a
	return err
}

// readTensor reads a tensor and its name. Data are raw, little endian, or in fields by type. The files of operands in
// bfloat16 say uint16, so the type that the graph declares counts; 0 stands for that of the file.
func readTensor(b []byte, declared int64) (name string, t *tensor.Tensor, err error) {
	var kind int64
	var raw []byte
	var ints []int64
	var floats []float64
	shape := []int{}
	err = each(b, func(f field) error {
		var v []int64
		var err error
		switch f.id {
		case 1:
			v, err = f.ints()
			for _, d := range v {
				shape = append(shape, int(d))
			}
		case 2:
			kind = int64(f.number)
		case 4:
			floats = append(floats, f.floats()...)
		case 5, 7, 11:
			v, err = f.ints()
			ints = append(ints, v...)
		case 8:
			name = string(f.bytes)
		case 9:
			raw = f.bytes
		case 10:
			floats = append(floats, f.doubles()...)
		}
		return err
	})
	if err != nil {
		return name, nil, err
	}
	if declared != 0 {
		kind = declared
	}
	dt, ok := dtypes[kind]
	if !ok {
		return name, nil, typeError{types[kind]}
	}
	if raw != nil {
		floats, ints = numbers(raw, dt)
	} else if dt.IsHalf() { // 16 bits, in the field for int32
		for _, v := range ints {
			floats = append(floats, half(uint16(v), dt))
		}
		ints = nil
	}
	if dt.IsFloat() {
		return name, tensor.FromSlice(floats, shape...).To(dt), nil
	}
	return name, tensor.FromSlice(ints, shape...).To(dt), nil
}

// numbers reads raw data, as floating numbers or as integers.
func numbers(raw []byte, dt tensor.DType) (floats []float64, ints []int64) {
	size := dt.Size()
	for ; len(raw) >= size; raw = raw[size:] {
		var bits uint64
		for i := range size {
			bits |= uint64(raw[i]) << (8 * i)
		}
		switch dt {
		case tensor.Float32:
			floats = append(floats, float64(math.Float32frombits(uint32(bits))))
		case tensor.Float64:
			floats = append(floats, math.Float64frombits(bits))
		case tensor.Float16, tensor.BFloat16:
			floats = append(floats, half(uint16(bits), dt))
		case tensor.Int32:
			ints = append(ints, int64(int32(bits)))
		default:
			ints = append(ints, int64(bits))
		}
	}
	return floats, ints
}

// half is the number with the given bits in half precision.
func half(bits uint16, dt tensor.DType) float64 {
	if dt == tensor.BFloat16 {
		return float64(math.Float32frombits(uint32(bits) << 16))
	}
	return float64(float16.Frombits(bits).Float32())
}
