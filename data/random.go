package data

import "github.com/weft-ml/weft/internal/philox"

// use tells apart what this package draws random numbers for: equal seeds give each use a stream of its own.
type use uint64

const (
	forShuffle use = iota + 1 // order of a loader's epoch
	forSplit                  // order of a class in Images.Split
	forText                   // offsets of a text batch
	forMap                    // the functions of a pipeline
	forBlocks                 // order of the blocks of an epoch
	forWindows                // order of the examples in a window of blocks
)

// source is the random stream of (use, seed, index), where index is that of an epoch, class or step. Its key
// is a hash of the three that is one-to-one in each of them.
func source(u use, seed, index uint64) philox.Source {
	return philox.Source{Key: mix(mix(mix(seed)+uint64(u)) + index)}
}
