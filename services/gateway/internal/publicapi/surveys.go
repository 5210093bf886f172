package publicapi

import (
	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	schemav1 "github.com/sluiceio/sluice/gen/go/sluice/schema/v1"
)

// IsSurvey says whether the answers of a method grow with what the server has, so
// that their size is known once they are there. The doors have few of them put
// together at a time.
func IsSurvey(method string) bool {
	switch method {
	case logv1.TopicService_GetTopic_FullMethodName,
		adminv1.AdminService_GetRaft_FullMethodName,
		adminv1.AdminService_ListProducers_FullMethodName,
		adminv1.KeyService_ListKeys_FullMethodName,
		schemav1.SchemaService_ListSchemas_FullMethodName:
		return true
	}
	return false
}
