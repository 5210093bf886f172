// Package conn is one connection to a broker: dialling, TLS, SASL, versions, framing and
// correlation, and the gate that refuses what would change a cluster.
package conn
