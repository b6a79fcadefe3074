package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	nomemory "github.com/nomemory/nomemory/clients/go"
)

// step is one call of the scenario. scripts/golden checks the result.
type step struct {
	Name    string            `json:"name"`
	Call    string            `json:"call"`
	As      string            `json:"as"`
	For     *string           `json:"for"`
	All     bool              `json:"all"`
	Request any               `json:"request"`
	Keep    map[string]string `json:"keep"`
}

type refusal struct {
	Code       string   `json:"code"`
	Reason     string   `json:"reason"`
	Message    string   `json:"message"`
	Violations []string `json:"violations"`
}

// play makes the calls of the steps as their callers, and stores values for later steps.
type play struct {
	clients map[string]*nomemory.Client
	kept    map[string]any
}

// outcome runs a step and returns its responses or its error.
func (p play) outcome(ctx context.Context, step step) map[string]any {
	request := must(json.Marshal(p.filled(step.Request)))
	got := []any{}
	for reply, err := range called(ctx, p.clients[step.As], step, request) {
		if err != nil {
			return map[string]any{"refused": refused(err)}
		}
		got = append(got, asJSON(reply))
	}
	for name, path := range step.Keep {
		p.kept[name] = at(got[0], path)
	}
	return map[string]any{"replies": got}
}

// filled replaces each $name with a stored value.
func (p play) filled(value any) any {
	switch value := value.(type) {
	case map[string]any:
		full := map[string]any{}
		for key, each := range value {
			full[key] = p.filled(each)
		}
		return full
	case []any:
		full := make([]any, len(value))
		for place, each := range value {
			full[place] = p.filled(each)
		}
		return full
	case string:
		if name, is := strings.CutPrefix(value, "$"); is {
			return p.kept[name]
		}
	}
	return value
}

func at(value any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		if list, is := value.([]any); is {
			value = list[must(strconv.Atoi(part))]
		} else {
			value = value.(map[string]any)[part]
		}
	}
	return value
}

func refused(err error) refusal {
	var failed *nomemory.Error
	if !errors.As(err, &failed) {
		check(err)
	}
	fields := []string{}
	for _, violation := range failed.Violations {
		fields = append(fields, violation.Field)
	}
	return refusal{codeNames[failed.Code], failed.Reason.String(), failed.Message, fields}
}

// codeNames are the gRPC names of the status codes.
var codeNames = map[codes.Code]string{
	codes.InvalidArgument: "INVALID_ARGUMENT", codes.AlreadyExists: "ALREADY_EXISTS", codes.NotFound: "NOT_FOUND",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.Unauthenticated: "UNAUTHENTICATED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Unavailable: "UNAVAILABLE",
}

func asJSON(reply proto.Message) any {
	var value any
	check(json.Unmarshal(must(protojson.Marshal(reply)), &value))
	return value
}

// replies yields the response of a unary call, all responses of a stream, or all items of a listing.
type replies = iter.Seq2[proto.Message, error]
