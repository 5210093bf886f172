package gateway_test

import "testing"

func TestNodesAreListedAndForgotten(t *testing.T) {
	s := start(t)
	s.Coordinator.AddAway("c", "orders", "payments")
	live := `{"id":"a","live":true,"forgotten":false,"roles":["storage"],"rack":"","replicas":0,"deleting_topics":0},` +
		`{"id":"b","live":true,"forgotten":false,"roles":["storage"],"rack":"","replicas":0,"deleting_topics":0}`
	s.steps(t,
		step{"GET", "/admin/nodes", "", 200, `{"nodes":[` + live + `,{"id":"c","live":false,"forgotten":false,"roles":[],"rack":"","replicas":2,"deleting_topics":1}]}`},
		step{"DELETE", "/admin/nodes/a", "", 409, `{"error":"node \"a\" is there"}`},
		step{"DELETE", "/admin/nodes/d", "", 404, `{"error":"node \"d\" is not known"}`},
		step{"DELETE", "/admin/nodes/c", "", 409, `{"error":"node \"c\" has the only replica of partitions of [orders payments]"}`},
		step{"DELETE", "/admin/nodes/c?force=perhaps", "", 400, `{"error":"force must be true or false, got \"perhaps\""}`},
		step{"DELETE", "/admin/nodes/c?force=true", "", 200, `{"lost_topics":["orders","payments"]}`},
		step{"DELETE", "/admin/nodes/c?force=true", "", 404, `{"error":"node \"c\" is not known"}`},
		step{"GET", "/admin/nodes", "", 200, `{"nodes":[` + live + `]}`},
		step{"POST", "/admin/nodes", "", 405, `{"error":"POST is not allowed here, only GET"}`},
	)
}
