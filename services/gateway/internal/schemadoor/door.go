// Package schemadoor is the schema registry's API that the serializers of the
// Kafka world speak, under /registry:
//
//	/subjects …       subjects, their versions, lookups, deletions
//	/schemas …        schemas by id
//	/compatibility …  what could be registered
//	/config, /mode    what a subject's versions must be compatible with, and
//	                  whether it may change
//
// It has the paths, fields, media type and error codes of the field's registries
// and holds no rules: these are the backend's and the registry's.
//
// A schema has one subject here, so the same text under two subjects has two ids.
// Serializers do not mind: an id leads to one schema. They authenticate with the
// headers of the HTTP API, or by HTTP Basic with a key as the password.
package schemadoor

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

const (
	// Prefix is where the door stands.
	Prefix = "/registry"
	// mediaType is that of all answers.
	mediaType = "application/vnd.schemaregistry.v1+json"
)

// New returns the door.
func New(b *backend.Backend, logger *slog.Logger) http.Handler {
	d := &door{backend: b, logger: logger, mux: http.NewServeMux(), bodies: make(bodies, maxBodies)}
	for pattern, answer := range map[string]operation{
		"GET /{$}":                       empty,
		"GET /contexts":                  contexts,
		"GET /schemas/types":             types,
		"GET /schemas":                   listSchemas,
		"GET /schemas/ids/{id}":          schemaByID,
		"GET /schemas/ids/{id}/schema":   textByID,
		"GET /schemas/ids/{id}/subjects": subjectsOfID,
		"GET /schemas/ids/{id}/versions": versionsOfID,

		"GET /subjects":                                           listSubjects,
		"POST /subjects/{subject}":                                lookup,
		"DELETE /subjects/{subject}":                              deleteSubject,
		"GET /subjects/{subject}/versions":                        listVersions,
		"POST /subjects/{subject}/versions":                       register,
		"GET /subjects/{subject}/versions/{version}":              version,
		"GET /subjects/{subject}/versions/{version}/schema":       text,
		"GET /subjects/{subject}/versions/{version}/referencedby": referencedBy,
		"DELETE /subjects/{subject}/versions/{version}":           deleteVersion,

		"POST /compatibility/subjects/{subject}/versions":           check,
		"POST /compatibility/subjects/{subject}/versions/{version}": check,

		"GET /config":              getConfig,
		"PUT /config":              putConfig,
		"DELETE /config":           deleteConfig,
		"GET /config/{subject}":    getConfig,
		"PUT /config/{subject}":    putConfig,
		"DELETE /config/{subject}": deleteConfig,
		"GET /mode":                getMode,
		"PUT /mode":                putMode,
		"DELETE /mode":             deleteMode,
		"GET /mode/{subject}":      getMode,
		"PUT /mode/{subject}":      putMode,
		"DELETE /mode/{subject}":   deleteMode,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		d.mux.Handle(method+" "+Prefix+path, d.serve(answer))
	}
	d.mux.HandleFunc(everything, d.notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == Prefix {
			// The mux would redirect.
			d.serve(empty).ServeHTTP(w, r)
			return
		}
		d.mux.ServeHTTP(w, r)
	})
}

// everything is the pattern of what has no other.
const everything = Prefix + "/"

type door struct {
	backend *backend.Backend
	logger  *slog.Logger
	mux     *http.ServeMux
	bodies  bodies
}

// An operation answers a request: with what is sent as JSON, or a plain text.
type operation func(*exchange) (any, error)

// plain is an answer that is sent as it is.
type plain string

// An exchange is one request.
type exchange struct {
	*http.Request
	ctx     context.Context
	backend *backend.Backend
	caller  grants.Caller
	// What a request with a body asks for.
	body request
}

func (d *door) serve(answer operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = strings.TrimPrefix(r.Pattern, r.Method+" ")
		ctx := r.Context()
		caller, err := d.callerOf(r)
		if err != nil {
			d.fail(ctx, w, r, err)
			return
		}
		x := &exchange{Request: r, ctx: ctx, backend: d.backend, caller: caller}
		if r.Method == http.MethodPost || r.Method == http.MethodPut {
			if err := d.bodies.enter(ctx); err != nil {
				d.fail(ctx, w, r, err)
				return
			}
			defer d.bodies.leave()
			if err := x.body.read(w, r, bodyTimeout); err != nil {
				d.fail(ctx, w, r, err)
				return
			}
		}
		out, err := answer(x)
		if err != nil {
			d.fail(ctx, w, r, err)
			return
		}
		write(w, http.StatusOK, out)
	})
}

// callerOf tells who a request comes from. Serializers know HTTP Basic: of that the
// password is the key and the name is not looked at.
func (d *door) callerOf(r *http.Request) (grants.Caller, error) {
	keys := r.Header.Values("X-Es-Key")
	if _, password, ok := r.BasicAuth(); ok && len(keys) == 0 {
		return d.backend.Authenticate(r.Context(), password)
	}
	secret, err := d.backend.Secret(r.Header.Values("Authorization"), keys)
	if err != nil {
		return grants.Caller{}, err
	}
	return d.backend.Authenticate(r.Context(), secret)
}

func write(w http.ResponseWriter, status int, out any) {
	var body []byte
	if text, ok := out.(plain); ok {
		body = []byte(text)
	} else {
		// It fails only for what no JSON can say, which no answer has.
		body, _ = json.Marshal(out)
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// Whoever asked is gone when this fails.
	_, _ = w.Write(body)
}

func (d *door) notFound(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPost, http.MethodPut} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := d.mux.Handler(other); pattern != everything {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		d.fail(r.Context(), w, r, failure{http.StatusMethodNotAllowed, http.StatusMethodNotAllowed, r.Method + " is not allowed here"})
		return
	}
	d.fail(r.Context(), w, r, failure{http.StatusNotFound, http.StatusNotFound, "there is nothing at " + r.URL.Path})
}

// flag reads a query parameter that is true or false.
func (x *exchange) flag(name string) bool {
	value, err := strconv.ParseBool(x.URL.Query().Get(name))
	return err == nil && value
}

func (x *exchange) subject() string { return x.PathValue("subject") }

// number reads the version in the path.
func (x *exchange) number() (int32, error) {
	value := x.PathValue("version")
	if value == "latest" || value == "-1" {
		return backend.NewestVersion, nil
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 {
		return 0, failure{http.StatusUnprocessableEntity, codeInvalidVersion,
			"the version must be a number from 1 on, or latest, got " + strconv.Quote(value)}
	}
	return int32(n), nil
}

func (x *exchange) id() (int32, error) {
	n, err := strconv.ParseInt(x.PathValue("id"), 10, 32)
	if err != nil || n < 1 {
		return 0, failure{http.StatusNotFound, codeNoSchema, "there is no schema with id " + strconv.Quote(x.PathValue("id"))}
	}
	return int32(n), nil
}

// languages are the schema languages by their names here.
var languages = map[string]registryv1.SchemaType{
	"AVRO":     registryv1.SchemaType_SCHEMA_TYPE_AVRO,
	"JSON":     registryv1.SchemaType_SCHEMA_TYPE_JSON_SCHEMA,
	"PROTOBUF": registryv1.SchemaType_SCHEMA_TYPE_PROTOBUF,
}

func (x *exchange) language() (registryv1.SchemaType, error) {
	name := x.body.SchemaType
	if name == "" {
		name = "AVRO"
	}
	language, ok := languages[strings.ToUpper(name)]
	if !ok {
		return 0, failure{http.StatusUnprocessableEntity, codeInvalidSchema, "schemaType must be AVRO, JSON or PROTOBUF, got " + strconv.Quote(name)}
	}
	return language, nil
}

func (x *exchange) references() []*registryv1.SchemaReference {
	var list []*registryv1.SchemaReference
	for _, ref := range x.body.References {
		list = append(list, &registryv1.SchemaReference{Name: ref.Name, Subject: ref.Subject, Version: ref.Version})
	}
	return list
}
