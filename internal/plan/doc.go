// Package plan lays out memory ahead of time: from a list of op calls it takes when each of their results is alive, and
// gives it a place in one piece of memory.
//
//	var t plan.Trace
//	for _, l := range launches {
//		t.Add(l)
//	}
//	offsets, size := plan.Pack(t.Blocks())
package plan
