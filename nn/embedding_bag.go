package nn

import "github.com/weft-ml/weft/tensor"

var embeddingBag = engine.Op("embedding_bag")

// EmbeddingBag looks rows of a table up by index, and joins those of a bag to one.
type EmbeddingBag struct {
	Weight *tensor.Tensor // [count width]
	Mode   string         // how rows are joined: "sum", "mean" or "max"
	Padded []int          // indices that are in no bag
}

// NewEmbeddingBag declares a table of count rows of the given width with standard normal values. The mode is "sum",
// "mean", PyTorch's default, or "max". The option is [PaddingIndex]: elements with that index are left out.
func NewEmbeddingBag(count, width int, mode string, opts ...LayerOption) *EmbeddingBag {
	const layer = "embedding_bag"
	wantMode(layer, mode)
	c := layerOf(layer, opts, "PaddingIndex")
	return &EmbeddingBag{tableOf(layer, Normal(0, 1), count, width, c.padded), mode, c.padded}
}

func wantMode(layer, mode string) {
	if mode != "sum" && mode != "mean" && mode != "max" {
		engine.Fail(tensor.ErrValue, layer, "mode %q is none of sum, mean, max", mode)
	}
}

// Forward joins the rows of each bag of n indices: [bags n] gives [bags width].
func (e *EmbeddingBag) Forward(indices *tensor.Tensor) *tensor.Tensor {
	const layer = "embedding_bag"
	engine.Given(layer, "the layer", e)
	engine.Given(layer, "indices", indices)
	if indices.Rank() != 2 {
		engine.Fail(tensor.ErrShape, layer, "indices %v must have two axes, [bags n]", indices)
	}
	bags, n := indices.Dim(0), indices.Dim(1)
	bag := make([]int64, 0, bags*n)
	for k := range bags {
		for range n {
			bag = append(bag, int64(k))
		}
	}
	return e.join(indices.Reshape(bags*n), tensor.FromSlice(bag, bags*n), bags, nil)
}

// Bags joins the rows of bags of any length: bag k has the indices [n] from offsets[k] on, up to the next offset.
// Offsets [bags] are int64 and ascend from 0: what is before the first is an index error, and bags from n on are empty.
// They are on the device, so nothing else is checked. Weights [n], which only the mode "sum" takes, multiply the rows;
// nil: none. The result is [bags width]; that of an empty bag is zero.
func (e *EmbeddingBag) Bags(indices, offsets, weights *tensor.Tensor) *tensor.Tensor {
	const layer = "embedding_bag"
	engine.Given(layer, "the layer", e)
	engine.Given(layer, "indices", indices)
	engine.Given(layer, "offsets", offsets)
	if indices.Rank() != 1 || offsets.Rank() != 1 || weights != nil && weights.Rank() != 1 {
		engine.Fail(tensor.ErrShape, layer, "indices %v, offsets %v and weights must have one axis", indices, offsets)
	}
	if weights != nil && e.Mode != "sum" {
		engine.Fail(tensor.ErrValue, layer, "mode %q takes no weights, only sum does", e.Mode)
	}
	places := tensor.Arange(tensor.Int64, 0, float64(indices.Dim(0)), 1)
	bag := offsets.SearchSorted(places, true).AddScalar(-1)
	return e.join(indices, bag, offsets.Dim(0), weights)
}

// join joins the rows at indices [n], each of which belongs to a bag.
func (e *EmbeddingBag) join(indices, bag *tensor.Tensor, bags int, weights *tensor.Tensor) *tensor.Tensor {
	wantMode("embedding_bag", e.Mode)
	if e.inOnePass(indices, bags, weights) {
		y := engine.Apply(embeddingBag, []*tensor.Tensor{e.Weight, indices, bag}, []int{0, bags}, nil)
		return e.mean(y, bag)
	}
	rows := lookUp(e.Weight, indices, e.Padded)
	result := rows.DType()
	if e.Mode == "mean" { // sums of many are out of the range of float16
		rows = widened(rows)
	}
	dtype, width := rows.DType(), rows.Dim(1)
	for _, row := range e.Padded { // to a bag behind the others, which is cut off
		bag = indices.EqualScalar(float64(row)).Where(tensor.Of(int64(bags)), bag)
	}
	zeros := engine.NewFull(rows, 0, dtype, bags+len(e.Padded), width)
	if weights != nil {
		rows = rows.Mul(weights.Unsqueeze(-1))
	}
	var y *tensor.Tensor
	switch e.Mode {
	case "max":
		y = zeros.ScatterReduce(0, bag.Unsqueeze(-1).Expand(rows.Shape()...), rows, "amax", false)
	default:
		y = zeros.IndexAdd(0, bag, rows)
	}
	return e.mean(y, bag).Slice(0, 0, bags).To(result)
}

// inOnePass tells whether one operation looks rows up and adds them: on the CPU, in float32.
func (e *EmbeddingBag) inOnePass(indices *tensor.Tensor, bags int, weights *tensor.Tensor) bool {
	d := indices.Device()
	return e.Mode != "max" && len(e.Padded) == 0 && weights == nil && e.Weight.DType() == tensor.Float32 &&
		d != nil && d.Name() == "cpu" && bags*e.Weight.Dim(1) > 0
}

// mean is y [bags width] divided by the number of elements of bag that lead to each row, or by 1, in the mode "mean",
// and else y.
func (e *EmbeddingBag) mean(y, bag *tensor.Tensor) *tensor.Tensor {
	if e.Mode != "mean" {
		return y
	}
	ones := engine.NewFull(y, 1, y.DType(), bag.Len())
	count := engine.NewFull(y, 0, y.DType(), y.Dim(0)).IndexAdd(0, bag, ones)
	return y.Div(count.Clamp(1, float64(bag.Len()+1)).Unsqueeze(-1))
}

// String is the [Tree] of the table.
func (e *EmbeddingBag) String() string { return Tree(e) }
