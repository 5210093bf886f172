package rpc

import (
	"context"
	"fmt"
	"reflect"

	"google.golang.org/grpc"
)

// method is one method of a registered service; either stream or handler is set.
type method struct {
	// service and stream are a stream's.
	service any
	stream  *grpc.StreamDesc

	// info and handler are what a unary method's generated code passes to an
	// interceptor, and request is the type that handler takes. They are the same
	// for every call; to have them made anew each time, beside a request that
	// nobody reads, is a tenth of what a call costs.
	info    *grpc.UnaryServerInfo
	handler grpc.UnaryHandler
	request reflect.Type
}

// unaryMethod asks a method's generated code for its handler.
func unaryMethod(desc *grpc.MethodDesc, service any) *method {
	m := &method{}
	// Nothing is decoded and no method called, so nothing fails.
	_, _ = desc.Handler(service, context.Background(),
		func(any) error { return nil },
		func(_ context.Context, empty any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			m.info, m.handler, m.request = info, handler, reflect.TypeOf(empty)
			return nil, nil
		})
	if m.handler == nil {
		panic(fmt.Sprintf("rpc: the code of method %s passes nothing to an interceptor", desc.MethodName))
	}
	return m
}

// takes tells whether the handler takes this request as it is. A nil one is an empty
// one on the wire, and handlers look into what they get.
func (m *method) takes(request any) bool {
	return reflect.TypeOf(request) == m.request && !reflect.ValueOf(request).IsNil()
}

// empty makes a request for the handler.
func (m *method) empty() any { return reflect.New(m.request.Elem()).Interface() }
