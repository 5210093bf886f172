// Package s3peer is an S3 server that is not ours: versitygw, as one process on
// loopback that keeps its bucket in a folder; and a proxy before it that does to
// requests what networks and busy servers do.
package s3peer
