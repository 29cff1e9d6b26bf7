// Package profile shows where the memory of a device goes.
//
// [Memory] watches a device. What it has seen is written as a profile for "go tool pprof", in bytes by Go stack with
// layer, operation and category as tags, and as a timeline for a browser's trace viewer:
//
//	memory, err := profile.Memory(dev)
//	...
//	memory.Stop()
//	err = memory.Write(file)
//
//	go tool pprof -top f.pb.gz                                  # bytes by layer at the peak
//	go tool pprof -top -sample_index=inuse_space f.pb.gz        # what is held now
//	go tool pprof -tags f.pb.gz                                 # by layer, operation and category
//	go tool pprof -http :8080 f.pb.gz                           # flame graph
//
// [WarnLeaks] names the lines at which a program keeps ever more tensors.
//
// Programs of package train have the flags -memory-profile, -memory-timeline and -warn-leaks for this.
package profile
