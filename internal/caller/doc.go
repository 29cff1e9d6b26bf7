// Package caller finds the line of a user's program that called into the library. Errors name it, and so does the
// log of launches, which asks at every operation: where the same path of calls was seen before, asking costs some ten
// nanoseconds and allocates nothing.
package caller
