package nn

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/weft-ml/weft/internal/walk"
	"github.com/weft-ml/weft/tensor"
)

// Tree is a model as text, a line for each part: its name, its type, the shapes of its tensors and its numbers, and the
// trainable elements in it and its parts. It needs no device. A part or tensor that is used twice is counted once. The
// layers of this package print themselves so, too. [Summary] tells what a model computes.
func Tree(model any) string {
	var b strings.Builder
	t := tree{tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0), map[walk.Pointer]string{}}
	t.print(t.node("", reflect.ValueOf(model)), "")
	t.Flush()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// node is a part of a model with parts of its own.
type node struct {
	name, kind string
	sizes      []string // of tensors and numbers
	tensors    bool     // it has some
	parameters int
	parts      []*node
}

type tree struct {
	*tabwriter.Writer
	seen map[walk.Pointer]string // the names of parts
}

func (t tree) print(n *node, indent string) {
	count := ""
	if n.parameters > 0 {
		count = fmt.Sprintf("%d parameters", n.parameters)
	}
	head := strings.TrimPrefix(n.name+": "+n.kind, ": ")
	fmt.Fprintf(t, "%s%s\t%s\t%s\n", indent, head, strings.Join(n.sizes, ", "), count)
	for _, p := range n.parts {
		t.print(p, indent+"  ")
	}
}

// node is the part v of the given path.
func (t tree) node(path string, v reflect.Value) *node {
	n := &node{kind: "nil"}
	opened := walk.Open(v)
	if !opened.IsValid() {
		return n
	}
	n.kind = kind(opened)
	if at := pointer(v); at.IsValid() {
		if first, ok := t.seen[walk.PointerOf(at)]; ok {
			n.sizes, n.tensors = []string{"the same as " + cmp.Or(first, "the whole")}, true
			return n
		}
		t.seen[walk.PointerOf(at)] = path
	}
	t.add(n, path, v)
	return n
}

// add gives n what the value v holds.
func (t tree) add(n *node, path string, v reflect.Value) {
	for p := range walk.Parts(v) {
		if p.Hidden {
			continue
		}
		if p.Name == "" { // an embedded struct
			t.add(n, path, p.Value)
			continue
		}
		name := strings.TrimPrefix(path+"."+p.Name, ".")
		switch opened := walk.Open(p.Value); {
		case !opened.IsValid():
		case opened.Type() == tensorType.Elem():
			x, _ := pointer(p.Value).Interface().(*tensor.Tensor)
			t.tensor(n, p.Name, name, x)
		case (opened.CanInt() || opened.CanFloat()) && !opened.IsZero():
			n.sizes = append(n.sizes, fmt.Sprint(p.Name, " ", opened))
		case opened.Kind() == reflect.Slice && opened.Type().Elem().Kind() == reflect.Int && opened.Len() > 0:
			n.sizes = append(n.sizes, fmt.Sprint(p.Name, " ", opened))
		case isModule(p.Value) || mayHold(opened.Type(), map[reflect.Type]bool{}):
			part := t.node(name, p.Value)
			if part.name = p.Name; part.tensors || part.parts != nil || isModule(p.Value) {
				n.parts = append(n.parts, part)
				n.parameters += part.parameters
			}
		}
	}
}

// tensor gives n the tensor x.
func (t tree) tensor(n *node, field, name string, x *tensor.Tensor) {
	n.tensors = true
	at := walk.PointerOf(reflect.ValueOf(x))
	if first, ok := t.seen[at]; ok {
		n.sizes = append(n.sizes, field+" is "+first)
		return
	}
	t.seen[at] = name
	size := fmt.Sprint(field, " ", x.Shape())
	if x.DType() != tensor.Float32 {
		size += fmt.Sprint(" ", x.DType())
	}
	n.sizes = append(n.sizes, size)
	if x.Trainable() {
		n.parameters += x.Len()
	}
}

// pointer is the last pointer on the way to a value; not valid if there is none.
func pointer(v reflect.Value) (p reflect.Value) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.Kind() == reflect.Pointer {
			p = v
		}
		v = v.Elem()
	}
	return p
}

// kind is the type of a part, or the name of a function.
func kind(v reflect.Value) string {
	if v.Kind() == reflect.Func {
		name := runtime.FuncForPC(v.Pointer()).Name()
		return name[strings.LastIndexAny(name, "./")+1:]
	}
	if name := v.Type().Name(); name != "" {
		return name
	}
	return v.Type().String()
}

// isModule tells whether v is a [Module].
func isModule(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	_, ok := v.Interface().(Module)
	return ok
}

// String is the name of the function.
func (f Func) String() string { return kind(reflect.ValueOf(f)) }

// String is the [Tree] of the layer.
func (l *Linear) String() string { return Tree(l) }

// String is the [Tree] of the table.
func (e *Embedding) String() string { return Tree(e) }

// String is the [Tree] of the norm.
func (n *LayerNorm) String() string { return Tree(n) }

// String is the [Tree] of the norm.
func (n *RMSNorm) String() string { return Tree(n) }

// String is the [Tree] of the layer.
func (d *Dropout) String() string { return Tree(d) }

// String is the [Tree] of the chain.
func (c *Chain) String() string { return Tree(c) }

// String is the [Tree] of the layer.
func (a *CausalAttention) String() string { return Tree(a) }

// String is the [Tree] of the layer.
func (a *MultiheadAttention) String() string { return Tree(a) }

// String is the [Tree] of the layer.
func (l *TransformerEncoderLayer) String() string { return Tree(l) }

// String is the [Tree] of the layer.
func (l *TransformerDecoderLayer) String() string { return Tree(l) }

// String is the [Tree] of the encoder.
func (e *TransformerEncoder) String() string { return Tree(e) }

// String is the [Tree] of the decoder.
func (d *TransformerDecoder) String() string { return Tree(d) }

// String is the [Tree] of the network.
func (m *MLP) String() string { return Tree(m) }

// String is the [Tree] of the block.
func (b *Block) String() string { return Tree(b) }

// String is the [Tree] of the model.
func (g *GPT) String() string { return Tree(g) }

// String is the [Tree] of the norm.
func (n *BatchNorm) String() string { return Tree(n) }

// String is the [Tree] of the norm.
func (n *InstanceNorm) String() string { return Tree(n) }

// String is the [Tree] of the norm.
func (n *GroupNorm) String() string { return Tree(n) }

// String is the [Tree] of the layer.
func (m *MaxPool) String() string { return Tree(m) }

// String is the [Tree] of the layer.
func (m *MaxUnpool) String() string { return Tree(m) }

// String is the [Tree] of the layer.
func (a *AvgPool) String() string { return Tree(a) }

// String is the [Tree] of the layer.
func (a *AdaptiveAvgPool) String() string { return Tree(a) }

// String is the [Tree] of the layer.
func (a *AdaptiveMaxPool) String() string { return Tree(a) }

// String is the [Tree] of the layer.
func (l *LPPool) String() string { return Tree(l) }

// String is the [Tree] of the layer.
func (n *LocalResponseNorm) String() string { return Tree(n) }

// String is the [Tree] of the layer.
func (u *Upsample) String() string { return Tree(u) }

// String is the [Tree] of the layer.
func (p *PixelShuffle) String() string { return Tree(p) }

// String is the [Tree] of the layer.
func (p *PixelUnshuffle) String() string { return Tree(p) }

// String is the [Tree] of the layer.
func (u *Unflatten) String() string { return Tree(u) }

// String is the [Tree] of the layer.
func (p *Pad) String() string { return Tree(p) }

// String is the [Tree] of the layer.
func (u *Unfold) String() string { return Tree(u) }

// String is the [Tree] of the layer.
func (f *Fold) String() string { return Tree(f) }

// String is the [Tree] of the layer.
func (n *WeightNorm) String() string { return Tree(n) }

// String is the [Tree] of the layer.
func (n *SpectralNorm) String() string { return Tree(n) }
