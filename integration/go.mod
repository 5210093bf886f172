module github.com/sluiceio/sluice/integration

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/sluiceio/sluice/gen v0.0.0
	github.com/sluiceio/sluice/services/kit v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	github.com/twmb/franz-go v1.22.3
	golang.org/x/sys v0.50.0
	google.golang.org/grpc v1.85.0
)

require (
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20261110000943-09e21b237f2c // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261104224025-d1e00e9f33ab // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/sluiceio/sluice/gen => ../gen
	github.com/sluiceio/sluice/services/kit => ../services/kit
	github.com/sluiceio/sluice/services/storage => ../services/storage
)
