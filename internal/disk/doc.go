// Package disk is the file operations with which files are written that must be whole after the machine loses power.
//
// What is written can be lost until the file has been synced, and so can a file's name until its folder has been. A
// file is therefore made under a name that nobody looks for, synced, and renamed, and then its folder is synced:
//
//	file, err := fsys.Create("runs/tmp-2000")   // an error if the name exists
//	... file.Write, file.Sync, file.Close ...
//	err = fsys.Rename("runs/tmp-2000", "runs/step-2000")
//	err = fsys.SyncDir("runs")
//
// After a Sync that has failed nobody knows what is on the disk: the system has marked the pages as written, and a
// second Sync succeeds without them. The file has to be written anew, under another name.
//
// The operations are an interface, [FS], so that tests can lose power at any point: internal/testing/crashfs. [OS] is
// the real one.
//
// disk.go has the interface, replace.go all of these steps for one file, os.go the files of the system, sync_unix.go
// and sync_other.go the syncing of folders, free_statfs.go and free_other.go what space there is.
package disk
