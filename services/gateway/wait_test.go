package gateway_test

import "time"

const (
	eventually = time.Minute
	tick       = time.Millisecond
)

func answerOf(status int, body string) answer { return answer{status: status, body: body} }

// bare is an answer without its header.
func bare(a answer) answer { return answer{status: a.status, body: a.body} }
