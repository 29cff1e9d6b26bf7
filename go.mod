module github.com/weft-ml/weft

go 1.26.0

require (
	github.com/chewxy/math32 v1.11.1
	github.com/google/pprof v0.0.0-20261105003125-4bf881d7fb0b
	github.com/x448/float16 v0.8.4
	golang.org/x/image v0.47.0
	golang.org/x/sys v0.49.0
	gonum.org/v1/gonum v0.17.0
	google.golang.org/protobuf v1.36.12
	gorgonia.org/cu v0.9.6
)

require (
	github.com/google/uuid v1.1.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
)
