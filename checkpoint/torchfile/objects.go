package torchfile

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// Objects of a pickle are nil, bool, int64, float64, string and these.
type (
	tuple  []any
	list   []any // a *list: it grows while others hold it
	global string
	dict   struct {
		items []item
		known map[string]bool
	}
	item struct {
		key   string // numbers are keys in decimal
		value any
	}
	// A storage is the memory of tensors.
	storage struct {
		key   string
		dtype safetensors.DType
		data  *io.SectionReader
	}
	// A view is a tensor.
	view struct {
		safetensors.Tensor
		place string // equal in tensors that have the same elements
	}
)

// kind is what an object is called in errors.
func kind(x any) string {
	return map[string]string{"<nil>": "None", "bool": "a truth value", "int64": "a number", "float64": "a number",
		"string": "a text", "torchfile.tuple": "a tuple", "*torchfile.list": "a list", "torchfile.global": "a function",
		"*torchfile.dict": "a dictionary", "*torchfile.storage": "a storage", "*torchfile.view": "a tensor",
	}[fmt.Sprintf("%T", x)]
}

// as is an object that must be of a type.
func as[T any](m *machine, what string, x any) T {
	v, ok := x.(T)
	if !ok {
		found := kind(x)
		switch x.(type) {
		case string, global:
			found = fmt.Sprintf("%s, %.80q", found, x)
		}
		m.fail(what, found, kind(v))
	}
	return v
}

const (
	orderedDict   global = "collections.OrderedDict"
	torchSize     global = "torch.Size"
	rebuildTensor global = "torch._utils._rebuild_tensor_v2"
	parameter     global = "torch._utils._rebuild_parameter"
)

// arguments has what a pickle may call, with the least and the most arguments. None is called: [machine.call] makes
// what they would.
var arguments = map[global][2]int{orderedDict: {0, 0}, torchSize: {1, 1}, rebuildTensor: {6, 7}, parameter: {3, 3}}

var storageTypes = map[global]safetensors.DType{
	"torch.FloatStorage": safetensors.F32, "torch.DoubleStorage": safetensors.F64,
	"torch.HalfStorage": safetensors.F16, "torch.BFloat16Storage": safetensors.BF16,
	"torch.LongStorage": safetensors.I64, "torch.IntStorage": safetensors.I32, "torch.ShortStorage": safetensors.I16,
	"torch.CharStorage": safetensors.I8, "torch.ByteStorage": safetensors.U8,
	"torch.BoolStorage": safetensors.BOOL, "torch.ComplexFloatStorage": safetensors.C64,
}

// named is the object that a pickle calls by module and name.
func (m *machine) named(module, name string) global {
	g := global(module + "." + name)
	m.take(len(g))
	if _, callable := arguments[g]; !callable && storageTypes[g] == 0 {
		m.fail("pickle", fmt.Sprintf("%.80q", g),
			"tensors, numbers and texts (save a state_dict, no objects; nothing is executed here)")
	}
	return g
}

// call makes what a function would return.
func (m *machine) call(f global, args tuple) any {
	n, callable := arguments[f]
	if what := "call of " + string(f); !callable || len(args) < n[0] || len(args) > n[1] {
		m.fail(what, fmt.Sprintf("%d arguments", len(args)), "a function that makes tensors, and its arguments")
	}
	switch f {
	case torchSize:
		return as[tuple](m, "sizes", args[0])
	case parameter: // the tensor, requires_grad, hooks
		return as[*view](m, "parameter", args[0])
	case rebuildTensor: // storage, offset, sizes, strides, requires_grad, hooks, and metadata in newer files
		if len(args) == 7 && args[6] != nil && len(as[*dict](m, "metadata of a tensor", args[6]).items) > 0 {
			m.fail("tensor", "one that is negated or conjugated when it is read",
				"values as they are (resolve_neg and resolve_conj make them)")
		}
		of := as[*storage](m, "storage of a tensor", args[0])
		return m.tensor(of, m.count(args[1]), m.sizes(args[2]), m.sizes(args[3]))
	}
	return m.newDict()
}

// count is a number from 0 on.
func (m *machine) count(x any) int {
	n := as[int64](m, "size", x)
	if n < 0 || n > math.MaxInt {
		m.fail("size", fmt.Sprint(n), "a number from 0 on")
	}
	return int(n)
}

// sizes are the numbers of a tuple.
func (m *machine) sizes(x any) []int {
	t := as[tuple](m, "sizes", x)
	if len(t) > safetensors.MaxRank {
		m.fail("sizes", fmt.Sprintf("%d axes", len(t)), fmt.Sprintf("at most %d", safetensors.MaxRank))
	}
	m.take(8 * len(t))
	sizes := make([]int, len(t))
	for i, v := range t {
		sizes[i] = m.count(v)
	}
	return sizes
}

// tensor makes a tensor of a part of a storage.
func (m *machine) tensor(s *storage, offset int, shape, strides []int) *view {
	place := fmt.Sprint(s.key, "/", s.dtype, offset, shape, strides)
	m.take(256 + len(place))
	t := safetensors.Tensor{DType: s.dtype, Shape: shape}
	if n := t.Bytes(); n > m.largest {
		m.fail("tensor", fmt.Sprintf("%d bytes", n), fmt.Sprintf("at most %d in this file", m.largest))
	}
	t, err := t.View(s.data, offset, strides)
	if err != nil {
		m.fail("tensor", err.Error(), "a part of its storage")
	}
	return &view{t, place}
}

// persistent is the storage that a pickle means by ("storage", type, key, location, elements).
func (m *machine) persistent(x any) *storage {
	id := as[tuple](m, "storage", x)
	if len(id) != 5 || id[0] != "storage" {
		m.fail("storage", fmt.Sprintf("%d objects", len(id)), `5, of which the first is "storage"`)
	}
	class, key := as[global](m, "type of a storage", id[1]), as[string](m, "key of a storage", id[2])
	dtype, data, elements := storageTypes[class], m.storages[key], m.count(id[4])
	if dtype == 0 || data == nil {
		m.fail("storage", fmt.Sprintf("%s of the key %.80q", class, key), "a type, and the key of an entry in data/")
	}
	if size := int64(dtype.Bits() / 8); data.Size()%size != 0 || data.Size()/size != int64(elements) {
		m.fail("storage", fmt.Sprintf("%d elements of %v", elements, dtype), fmt.Sprintf("the %d bytes of its entry",
			data.Size()))
	}
	m.take(96)
	return &storage{strings.Clone(key), dtype, data}
}

func (m *machine) newDict() *dict {
	m.take(64)
	return &dict{known: map[string]bool{}}
}

// set puts pairs of keys and values into a dictionary.
func (m *machine) set(to any, pairs []any) {
	d := as[*dict](m, "object with items", to)
	if len(pairs)%2 != 0 {
		m.fail("dictionary", fmt.Sprintf("%d objects", len(pairs)), "pairs")
	}
	for i := 0; i < len(pairs); i += 2 {
		if n, isInt := pairs[i].(int64); isInt {
			pairs[i] = fmt.Sprint(n)
		}
		key := as[string](m, "key", pairs[i])
		if d.known[key] {
			m.fail("key", fmt.Sprintf("%.80q for a second time", key), "each key once")
		}
		m.take(160)
		d.known[key] = true
		d.items = append(d.items, item{key, pairs[i+1]})
	}
}

// add appends to a list.
func (m *machine) add(to any, items []any) {
	l := as[*list](m, "object to append to", to)
	m.take(40 * len(items))
	*l = append(*l, items...)
}

// newTuple is a tuple of the last objects of the stack.
func (m *machine) newTuple(items []any) tuple {
	m.take(24 + 16*len(items))
	return slices.Clone(tuple(items))
}
