// Package crashfs is a file system in memory that loses power, for tests of programs whose files must survive that.
//
// A test gives an [FS] to a program that works with [disk.FS], lets the power fail after any operation, and looks at
// what is then on the disk:
//
//	fsys := crashfs.New()
//	fsys.After = func() {
//		for range 100 {
//			check(fsys.Crash(crashfs.Random(rng)))
//		}
//	}
//	save(fsys)
//
// What was not synced survives or not, each part of it independently of all others: sectors of 512 bytes, sizes of
// files, names in folders. A sector that was never written to the disk is zero. Of a rename either name survives,
// both, or none. After a crash a thing has its last synced value or any that it got since. [FS.States] yields all
// states that there can be, [Random] chooses among them.
//
// Operations fail where [FS.Fault] says so, before or after they have had their effect, writes with the first half
// written. A Sync that fails leaves what was not on the disk in doubt for good: a second Sync succeeds and changes
// nothing. [FS.Space] is what a full disk has left.
//
// history.go is what a thing may be after a crash, fs.go files and folders, crash.go the states.
package crashfs
