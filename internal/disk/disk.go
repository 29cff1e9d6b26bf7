package disk

import "io"

// FS is a file system. Names are paths, as package os takes them. Errors are those of package os: fs.ErrExist and the
// like by errors.Is, with operation and path.
type FS interface {
	// Create makes a file, for writing. A name that exists is an error.
	Create(name string) (File, error)
	// Open opens a file, for reading.
	Open(name string) (Reader, error)
	// Mkdir makes a folder. A name that exists is an error.
	Mkdir(name string) error
	// Rename gives a file or a folder another name. A file takes the place of one that has the name; a folder does not.
	Rename(from, to string) error
	// Remove removes a file or an empty folder.
	Remove(name string) error
	// ReadDir returns what is in a folder, sorted by name.
	ReadDir(name string) ([]Entry, error)
	// SyncDir waits until the names in a folder are on the disk.
	SyncDir(name string) error
	// Free is how many bytes can be written to the disk of a folder; negative if that is not known.
	Free(name string) (int64, error)
}

// A File is written from its beginning to its end.
type File interface {
	io.Writer
	// Sync waits until all that was written is on the disk. If it fails, the file is lost: see the package.
	Sync() error
	Close() error
}

// A Reader reads a file.
type Reader interface {
	io.ReaderAt
	// Size is the size of the file in bytes when it was opened.
	Size() int64
	Close() error
}

// An Entry is a name in a folder.
type Entry struct {
	Name string
	Dir  bool
}
