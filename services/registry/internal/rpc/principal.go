package rpc

import (
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/registry/internal/key"
)

// anonymous is who everybody is where nobody needs a key.
const anonymous = "anonymous"

func principalOf(row *persistv1.KeyRow) *registryv1.Principal {
	return &registryv1.Principal{
		Id:                 row.GetKeyId(),
		Name:               row.GetName(),
		Grants:             grantsOf(row),
		Admin:              key.Administers(row),
		ProduceBytesPerSec: row.GetProduceBytesPerSec(),
		ConsumeBytesPerSec: row.GetConsumeBytesPerSec(),
	}
}

func keyOf(row *persistv1.KeyRow) *registryv1.Key {
	return &registryv1.Key{
		KeyId:              row.GetKeyId(),
		Name:               row.GetName(),
		Grants:             grantsOf(row),
		ProduceBytesPerSec: row.GetProduceBytesPerSec(),
		ConsumeBytesPerSec: row.GetConsumeBytesPerSec(),
		CreatedAtMs:        row.GetCreatedAtMs(),
		Disabled:           row.GetDisabled(),
	}
}

func grantsOf(row *persistv1.KeyRow) []*registryv1.Grant {
	grants := make([]*registryv1.Grant, len(row.GetGrants()))
	for i, g := range row.GetGrants() {
		grants[i] = &registryv1.Grant{Action: actions[g.GetAction()], TopicPrefix: g.GetTopicPrefix()}
	}
	return grants
}

// actions are the actions of rows as they are on the wire. One that a later
// version has written means nothing here, so it grants nothing.
var actions = map[persistv1.KeyAction]registryv1.Action{
	persistv1.KeyAction_KEY_ACTION_READ:  registryv1.Action_ACTION_READ,
	persistv1.KeyAction_KEY_ACTION_WRITE: registryv1.Action_ACTION_WRITE,
	persistv1.KeyAction_KEY_ACTION_ADMIN: registryv1.Action_ACTION_ADMIN,
}

func specOf(req *registryv1.CreateKeyRequest) key.Spec {
	spec := key.Spec{
		Name:               req.GetName(),
		ProduceBytesPerSec: req.GetProduceBytesPerSec(),
		ConsumeBytesPerSec: req.GetConsumeBytesPerSec(),
	}
	for _, g := range req.GetGrants() {
		grant := &persistv1.KeyGrant{TopicPrefix: g.GetTopicPrefix()}
		for row, wire := range actions {
			if wire == g.GetAction() {
				grant.Action = row
			}
		}
		spec.Grants = append(spec.Grants, grant)
	}
	return spec
}
