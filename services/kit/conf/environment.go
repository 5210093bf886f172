package conf

import (
	"regexp"
	"strings"
)

func variableName(flag string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func flagName(variable string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, Prefix), "_", "-"))
}

// serviceLink matches the variables that Kubernetes sets in every pod for every
// service of the namespace. For a service called sluice they begin like ours:
// SLUICE_SERVICE_HOST, SLUICE_PORT_9000_TCP_ADDR.
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

func isServiceLink(variable, value string) bool {
	return serviceLink.MatchString(variable) ||
		strings.HasSuffix(variable, "_PORT") && strings.Contains(value, "://")
}
