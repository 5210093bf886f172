package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/publicapi"
)

// A route is one HTTP route of a gRPC method. Routes are read from the same
// annotations that grpc-gateway's code is generated from.
type route struct {
	method  string
	pattern string // "/topics/{topic}/produce"
	// The segments of the pattern; a variable is in braces.
	segments []string
	hasBody  bool
	input    protoreflect.MessageDescriptor
	// Answers with records.
	reads bool
	// Answers with a survey.
	surveys bool
	// The status of an answer.
	success int
}

// successes are the statuses that are not 200.
var successes = map[string]int{
	logv1.TopicService_CreateTopic_FullMethodName:  http.StatusCreated,
	logv1.GroupService_LeaveGroup_FullMethodName:   http.StatusNoContent,
	logv1.GroupService_DeleteGroup_FullMethodName:  http.StatusNoContent,
	logv1.GroupService_CommitOffset_FullMethodName: http.StatusNoContent,

	adminv1.KeyService_CreateKey_FullMethodName: http.StatusCreated,
	adminv1.KeyService_DeleteKey_FullMethodName: http.StatusNoContent,

	adminv1.AdminService_RunRetention_FullMethodName:   http.StatusNoContent,
	adminv1.AdminService_RunCompaction_FullMethodName:  http.StatusNoContent,
	adminv1.AdminService_DeleteProducer_FullMethodName: http.StatusNoContent,
}

func routesOf(files ...protoreflect.FileDescriptor) ([]*route, error) {
	var routes []*route
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				r, err := routeOf(service.Methods().Get(j))
				if err != nil {
					return nil, err
				}
				routes = append(routes, r)
			}
		}
	}
	return routes, nil
}

func routeOf(m protoreflect.MethodDescriptor) (*route, error) {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	r := &route{input: m.Input(), success: http.StatusOK, hasBody: rule.GetBody() != ""}
	switch pattern := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		r.method, r.pattern = http.MethodGet, pattern.Get
	case *annotations.HttpRule_Post:
		r.method, r.pattern = http.MethodPost, pattern.Post
	case *annotations.HttpRule_Put:
		r.method, r.pattern = http.MethodPut, pattern.Put
	case *annotations.HttpRule_Delete:
		r.method, r.pattern = http.MethodDelete, pattern.Delete
	default:
		return nil, fmt.Errorf("method %s has no HTTP route", m.FullName())
	}
	r.segments = strings.Split(r.pattern, "/")
	full := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	r.reads = full == logv1.LogService_Consume_FullMethodName || full == logv1.GroupService_ConsumeGroup_FullMethodName
	r.surveys = publicapi.IsSurvey(full)
	if status, ok := successes[full]; ok {
		r.success = status
	}
	return r, nil
}

// match returns the route of a request and the variables in its path, or the
// methods that the path allows. An empty variable matches nothing.
func match(routes []*route, method, escapedPath string) (matched *route, params map[string]string, allowed []string) {
	segments := strings.Split(escapedPath, "/")
	for _, r := range routes {
		p, ok := r.match(segments)
		if !ok {
			continue
		}
		if r.method == method {
			return r, p, nil
		}
		allowed = append(allowed, r.method)
	}
	slices.Sort(allowed)
	return nil, nil, allowed
}

func (r *route) match(segments []string) (map[string]string, bool) {
	if len(segments) != len(r.segments) {
		return nil, false
	}
	var params map[string]string
	for i, want := range r.segments {
		name, isVariable := variable(want)
		if !isVariable {
			if segments[i] != want {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(segments[i])
		if err != nil || value == "" {
			return nil, false
		}
		if params == nil {
			params = make(map[string]string, 1)
		}
		params[name] = value
	}
	return params, true
}

func variable(segment string) (name string, ok bool) {
	if !strings.HasPrefix(segment, "{") {
		return "", false
	}
	return segment[1 : len(segment)-1], true
}
