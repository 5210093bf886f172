module github.com/sluiceio/sluice/services/storage

go 1.26.0

require (
	github.com/sluiceio/sluice/gen v0.0.0
	github.com/sluiceio/sluice/services/kit v0.0.0
)

require (
	github.com/stretchr/testify v1.12.1 // indirect
	go.etcd.io/raft/v3 v3.7.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/sluiceio/sluice/services/kit => ../kit

replace github.com/sluiceio/sluice/gen => ../../gen
