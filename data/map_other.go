//go:build !linux && !darwin

package data

import "os"

// mapFile maps no files here.
func mapFile(*os.File, int64) *mapped { return nil }
