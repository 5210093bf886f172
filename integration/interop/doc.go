// Package interop has foreign programs read what we write, and programs in other
// languages use a server through the stubs in gen/. They must be there; see
// package kafkapeer for what happens where they are not.
package interop
