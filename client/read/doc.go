// Package read scans and tails topics, for people who look at them.
package read
