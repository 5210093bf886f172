package publicapi

import (
	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
)

// adminService is AdminService.
type adminService struct {
	adminv1.UnimplementedAdminServiceServer
	backend *backend.Backend
}

// NewAdmin returns the handler.
func NewAdmin(b *backend.Backend) adminv1.AdminServiceServer { return &adminService{backend: b} }
