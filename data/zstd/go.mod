module github.com/weft-ml/weft/data/zstd

go 1.26.0

require (
	github.com/klauspost/compress v1.20.3
	github.com/weft-ml/weft v0.0.0
)

require (
	github.com/chewxy/math32 v1.11.1 // indirect
	github.com/google/uuid v1.1.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/image v0.47.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	gorgonia.org/cu v0.9.6 // indirect
)

replace github.com/weft-ml/weft => ../..
