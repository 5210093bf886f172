module github.com/sluiceio/sluice/tools

go 1.26.0

require (
	github.com/jhump/protoreflect/v2 v2.0.1
	google.golang.org/genproto/googleapis/api v0.0.0-20261110000943-09e21b237f2c
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
