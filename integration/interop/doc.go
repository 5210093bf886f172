// Package interop has foreign programs read what we write. They must be there;
// see package kafkapeer for what happens where they are not.
package interop
