package vfs

// Space is the size of a file system, in bytes.
type Space struct {
	// Free is what an ordinary user may still write, so that 0 means full also
	// where the system keeps some for its administrator.
	Free, Size int64
}
