// Package produce produces records, idempotently and in transactions.
package produce
