// Package direction is a test: dependencies between our packages point one way.
package direction
