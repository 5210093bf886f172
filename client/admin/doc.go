// Package admin administers topics, configs, groups and ACLs.
package admin
