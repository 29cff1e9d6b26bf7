// Package caller finds the line of a user's program that called into the library. Errors name it, and so does the
// log of kernel launches, which asks at every op call: for a call path that was seen before that takes about ten
// nanoseconds and allocates nothing. It also tells goroutines apart.
//
// In processing order: frame.go (frame_amd64.s, frame_arm64.s, frame_other.go) has the frame pointer and the goroutine,
// caller.go the rest.
package caller
