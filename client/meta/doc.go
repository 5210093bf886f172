// Package meta knows brokers, leaders and coordinators, routes requests and retries them.
package meta
