// To compile the Go stubs with, in build/gen/go (scripts/gen_proto --all).
module github.com/nomemory/nomemory/clients/go

go 1.24

require (
	google.golang.org/genproto/googleapis/api v0.0.0-20261026165753-2ffab32bce7e
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)
