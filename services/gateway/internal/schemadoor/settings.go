package schemadoor

import (
	"net/http"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
)

// What these answers are called: a level that is read has another name than one
// that was set.
type (
	level struct {
		Level string `json:"compatibilityLevel"`
	}
	levelSet struct {
		Level string `json:"compatibility"`
	}
	mode struct {
		Mode string `json:"mode"`
	}
)

// config returns the settings of the subject in the path; of all when it has none
// of its own and the query says to fall back.
func (x *exchange) config(pick func(*registryv1.GetSchemaConfigResponse) string) (string, error) {
	settings, err := x.backend.SchemaConfig(x.ctx, x.caller, x.subject())
	if err != nil || pick(settings) != "" || !x.flag("defaultToGlobal") {
		return pick(settings), err
	}
	settings, err = x.backend.SchemaConfig(x.ctx, x.caller, "")
	return pick(settings), err
}

func getConfig(x *exchange) (any, error) {
	value, err := x.config((*registryv1.GetSchemaConfigResponse).GetCompatibility)
	if err != nil {
		return nil, err
	}
	if value == "" {
		return nil, failure{http.StatusNotFound, codeNoSubjectConfig, "subject '" + x.subject() + "' does not have subject-level compatibility configured"}
	}
	return level{value}, nil
}

func putConfig(x *exchange) (any, error) {
	if x.body.Compatibility == nil || *x.body.Compatibility == "" {
		return nil, failure{http.StatusUnprocessableEntity, codeInvalidCompatibility, "compatibility must be given"}
	}
	err := x.backend.SetSchemaConfig(x.ctx, x.caller, &registryv1.SetSchemaConfigRequest{Subject: x.subject(), Compatibility: x.body.Compatibility})
	if err != nil {
		return nil, err
	}
	return levelSet{*x.body.Compatibility}, nil
}

// deleteConfig answers with what was there.
func deleteConfig(x *exchange) (any, error) {
	before, err := getConfig(x)
	if err != nil {
		return nil, err
	}
	fallBack := ""
	err = x.backend.SetSchemaConfig(x.ctx, x.caller, &registryv1.SetSchemaConfigRequest{Subject: x.subject(), Compatibility: &fallBack})
	return before, err
}

func getMode(x *exchange) (any, error) {
	value, err := x.config((*registryv1.GetSchemaConfigResponse).GetMode)
	if err != nil {
		return nil, err
	}
	if value == "" {
		return nil, failure{http.StatusNotFound, codeNoSubjectMode, "subject '" + x.subject() + "' does not have subject-level mode configured"}
	}
	return mode{value}, nil
}

func putMode(x *exchange) (any, error) {
	if x.body.Mode == nil || *x.body.Mode == "" {
		return nil, failure{http.StatusUnprocessableEntity, codeInvalidMode, "mode must be given"}
	}
	err := x.backend.SetSchemaConfig(x.ctx, x.caller, &registryv1.SetSchemaConfigRequest{Subject: x.subject(), Mode: x.body.Mode})
	if err != nil {
		return nil, err
	}
	return mode{*x.body.Mode}, nil
}

// deleteMode answers with what was there.
func deleteMode(x *exchange) (any, error) {
	before, err := getMode(x)
	if err != nil {
		return nil, err
	}
	fallBack := ""
	err = x.backend.SetSchemaConfig(x.ctx, x.caller, &registryv1.SetSchemaConfigRequest{Subject: x.subject(), Mode: &fallBack})
	return before, err
}
