package sluice

import "slices"

// Role is a service that a node runs.
type Role string

// The roles. Their names stand in etcd, so they must not change.
const (
	Storage     Role = "storage"
	Coordinator Role = "coordinator"
	Registry    Role = "registry"
	Gateway     Role = "gateway"
)

// AllRoles are the roles of `sluice serve`.
func AllRoles() []Role { return []Role{Storage, Coordinator, Registry, Gateway} }

// roles is what a node runs.
type roles []Role

func (r roles) has(role Role) bool { return slices.Contains(r, role) }

func (r roles) names() []string {
	names := make([]string, len(r))
	for i, role := range r {
		names[i] = string(role)
	}
	return names
}
