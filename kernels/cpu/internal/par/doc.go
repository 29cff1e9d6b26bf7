// Package par spreads the loops of the CPU kernels over the processors.
//
// [For] cuts a range of elements into contiguous pieces, [Tiles] hands out numbered tiles one by one. Each worker
// begins with its own share, which is the same range of the tensors in successive kernels, and helps with the shares of
// others when it is done. The calling goroutine is one of the workers, so a call never waits for a helper that has not
// started: when the machine is busy the caller simply does more of the pieces itself, and a small kernel loses nothing
// by asking for help.
//
// A call with enough work starts helper goroutines. A helper that runs out of work watches for more for half a
// millisecond, since the kernels of a training step follow each other closely, then sleeps, and ends when nothing has
// woken it for a while. An idle program has no helpers and burns no time.
//
// [Background] leaves work of other goroutines to the time in which helpers watch: a batch that is made beside a
// training step takes it no processor.
//
// How many goroutines work is decided anew on each call from runtime.GOMAXPROCS(0). The goroutines at work in all
// calls together are counted, so that nested calls, and calls from several steps at once, fill the processors
// but do not crowd them: when all are taken a call runs inline. Which goroutine does which piece is not fixed;
// kernels get the same bits for any number of threads by letting no result depend on where the pieces begin.
package par
