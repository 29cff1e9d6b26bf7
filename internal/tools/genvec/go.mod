module github.com/weft-ml/weft/internal/tools/genvec

go 1.26.0

require (
	github.com/mmcloughlin/avo v0.5.0
	github.com/weft-ml/weft v0.0.0
)

require (
	github.com/chewxy/math32 v1.11.1 // indirect
	github.com/google/uuid v1.1.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/mod v0.23.0 // indirect
	golang.org/x/sync v0.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/tools v0.30.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
	gorgonia.org/cu v0.9.6 // indirect
)

replace github.com/weft-ml/weft => ../../..
