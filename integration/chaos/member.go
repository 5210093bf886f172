package chaos

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sluiceio/sluice/integration/httpapi"
)

// member is one of a group, and checks that the group's generation never goes back.
type member struct {
	api   *httpapi.Client
	group string
	topic string
	// id is empty before the first join.
	id         string
	generation int64
}

type memberAnswer struct {
	MemberID          string `json:"member_id"`
	Status            string `json:"status"`
	Generation        int64  `json:"generation"`
	CurrentGeneration int64  `json:"current_generation"`
	Assignment        []struct {
		Partition int `json:"partition"`
	} `json:"assignment"`
}

func (m *member) ask(ctx context.Context, method, path, body string) (memberAnswer, error) {
	var got memberAnswer
	var sent []byte
	if body != "" {
		sent = []byte(body)
	}
	answer, err := m.api.Do(ctx, method, "/groups/"+m.group+path, sent)
	if err != nil {
		return got, err
	}
	if answer.Status != 200 {
		return got, fmt.Errorf("%s %s: %w", method, path, &httpapi.Error{Status: answer.Status, Message: string(answer.Body)})
	}
	return got, json.Unmarshal(answer.Body, &got)
}

// join makes the member, or has it subscribe anew.
func (m *member) join(ctx context.Context) error {
	body := fmt.Sprintf(`{"topics":[%q]}`, m.topic)
	if m.id != "" {
		body = fmt.Sprintf(`{"topics":[%q],"member_id":%q}`, m.topic, m.id)
	}
	got, err := m.ask(ctx, "POST", "/join", body)
	if err != nil {
		return err
	}
	m.id = got.MemberID
	return m.see(got.Generation)
}

// errBack is that a generation was seen again.
type errBack struct{ was, is int64 }

func (e errBack) Error() string { return fmt.Sprintf("generation %d after %d", e.is, e.was) }

func (m *member) see(generation int64) error {
	if generation < m.generation {
		return errBack{m.generation, generation}
	}
	m.generation = generation
	return nil
}

// run sends heartbeats and returns with the first error.
func (m *member) run(ctx context.Context) error {
	for {
		got, err := m.ask(ctx, "POST", "/heartbeat", fmt.Sprintf(`{"member_id":%q,"generation":%d}`, m.id, m.generation))
		if err != nil {
			return err
		}
		if got.Status == "unknown_member" {
			return fmt.Errorf("member %s was forgotten", m.id)
		}
		if err := m.see(max(got.Generation, got.CurrentGeneration)); err != nil {
			return err
		}
	}
}

// share returns the member's partitions.
func (m *member) share(ctx context.Context) ([]int, error) {
	got, err := m.ask(ctx, "GET", "/assignment?member_id="+m.id, "")
	if err != nil {
		return nil, err
	}
	var share []int
	for _, a := range got.Assignment {
		share = append(share, a.Partition)
	}
	return share, m.see(got.Generation)
}
