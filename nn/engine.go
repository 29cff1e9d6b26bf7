package nn

import (
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// engine is what package tensor has for the other packages of the library.
var engine = tensor.Engine(seam.Key{})
