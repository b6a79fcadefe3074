package nomemory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/nomemory/nomemory/clients/go/nomemoryv1"
)

var errBusy = status.Error(codes.Unavailable, "busy")

// pagesOf returns messages 1 to 5 in pages of two.
func pagesOf(_ context.Context, request *pb.ListMessagesRequest) (*pb.ListMessagesResponse, error) {
	first := 1
	if request.Cursor != "" {
		_, _ = fmt.Sscanf(request.Cursor, "c%d", &first)
	}
	page := &pb.ListMessagesResponse{}
	for number := first; number < first+2 && number <= 5; number++ {
		page.Items = append(page.Items, &pb.ChatMessage{MessageId: fmt.Sprint(number)})
	}
	if first+2 <= 5 {
		page.NextCursor = fmt.Sprintf("c%d", first+2)
	}
	return page, nil
}

func TestIteratorReadsAllPages(t *testing.T) {
	client := clientOf(t, &scripted{list: pagesOf})
	request := &pb.ListMessagesRequest{UserId: "ann"}
	for range 2 { // a listing can be ranged over again
		var got []string
		for message, err := range client.Messages(t.Context(), request) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, message.MessageId)
		}
		if want := []string{"1", "2", "3", "4", "5"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if request.Cursor != "" {
		t.Error("the caller's request was changed")
	}
}

func TestBreakStopsPaging(t *testing.T) {
	script := &scripted{list: pagesOf}
	client := clientOf(t, script)
	for message := range client.Messages(t.Context(), &pb.ListMessagesRequest{}) {
		if message.MessageId == "2" {
			break
		}
	}
	if len(script.asked) != 1 {
		t.Errorf("got %d requests, want 1", len(script.asked))
	}
}

func TestErrorHasReasonAndAllViolations(t *testing.T) {
	client := clientOf(t, &scripted{list: func(ctx context.Context, _ *pb.ListMessagesRequest) (*pb.ListMessagesResponse, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("x-request-id", "r1"))
		refused, err := status.New(codes.InvalidArgument, "bad").WithDetails(
			&errdetails.ErrorInfo{Reason: "ERROR_REASON_INVALID_FIELD", Domain: "nomemory", Metadata: map[string]string{"violations": "2"}},
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
				{Field: "user_id", Description: "is required"}, {Field: "page_size", Description: "must be at most 500"},
			}},
			&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)},
		)
		if err != nil {
			return nil, err
		}
		return nil, refused.Err()
	}})
	_, err := client.ListMessages(t.Context(), &pb.ListMessagesRequest{})
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	if failed.Code != codes.InvalidArgument || failed.Reason != pb.ErrorReason_ERROR_REASON_INVALID_FIELD {
		t.Errorf("got %v %v", failed.Code, failed.Reason)
	}
	want := []Violation{{"user_id", "is required"}, {"page_size", "must be at most 500"}}
	if !slices.Equal(failed.Violations, want) {
		t.Errorf("got %v", failed.Violations)
	}
	if failed.RequestID != "r1" || failed.RetryAfter != time.Second || failed.Metadata["violations"] != "2" {
		t.Errorf("got %+v", failed)
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Error("status.Code does not return the code of the error")
	}
}

func TestIteratorYieldsErrorLast(t *testing.T) {
	client := clientOf(t, &scripted{list: func(context.Context, *pb.ListMessagesRequest) (*pb.ListMessagesResponse, error) {
		return nil, status.Error(codes.PermissionDenied, "no")
	}})
	var met []error
	for message, err := range client.Messages(t.Context(), &pb.ListMessagesRequest{}) {
		if message != nil {
			t.Error("got a message together with an error")
		}
		met = append(met, err)
	}
	if len(met) != 1 || status.Code(met[0]) != codes.PermissionDenied {
		t.Errorf("got %v", met)
	}
}

func TestLargeWriteIsRetriedAfterUnavailable(t *testing.T) {
	script := &scripted{}
	script.write = func(*pb.WriteMessagesRequest) error {
		if len(script.writes) < 2 {
			return errBusy
		}
		return nil
	}
	client := clientOf(t, script)
	large := &pb.ChatMessage{UserId: "ann", MessageId: "m", Content: strings.Repeat("a", 2<<20)}
	if _, err := client.WriteMessages(t.Context(), &pb.WriteMessagesRequest{Messages: []*pb.ChatMessage{large}}); err != nil {
		t.Fatal(err)
	}
	if len(script.writes) != 2 {
		t.Errorf("got %d writes, want 2", len(script.writes))
	}
}

func TestRetriedWriteKeepsRequestID(t *testing.T) {
	script := &scripted{}
	script.write = func(*pb.WriteMessagesRequest) error {
		if len(script.writes) < 3 {
			return errBusy
		}
		return nil
	}
	client := clientOf(t, script)
	request := &pb.WriteMessagesRequest{Messages: []*pb.ChatMessage{{MessageId: "1"}, {Content: "no id"}}}
	if _, err := client.WriteMessages(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, sent := range script.writes {
		ids[sent.RequestId] = true
	}
	if len(script.writes) != 3 || len(ids) != 1 || ids[""] {
		t.Errorf("%d writes with the ids %v", len(script.writes), ids)
	}
	if request.RequestId != "" {
		t.Error("the caller's request was changed")
	}
}

func TestWriteWithIDsHasNoRequestID(t *testing.T) {
	script := &scripted{}
	client := clientOf(t, script)
	for _, request := range []*pb.WriteMessagesRequest{
		{Messages: []*pb.ChatMessage{{MessageId: "1"}}}, {RequestId: "mine", Messages: []*pb.ChatMessage{{}}},
	} {
		if _, err := client.WriteMessages(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if script.writes[0].RequestId != "" || script.writes[1].RequestId != "mine" {
		t.Errorf("got %v", script.writes)
	}
}

func TestAttemptsAreLimited(t *testing.T) {
	for attempts, want := range map[int]int{1: 1, 2: 2} {
		script := &scripted{write: func(*pb.WriteMessagesRequest) error { return errBusy }}
		client := clientOf(t, script, WithAttempts(attempts))
		_, err := client.WriteMessages(t.Context(), &pb.WriteMessagesRequest{})
		if status.Code(err) != codes.Unavailable || len(script.writes) != want {
			t.Errorf("%d attempts: %d writes, %v", attempts, len(script.writes), err)
		}
	}
	if _, err := Dial("127.0.0.1:1", WithAttempts(6)); err == nil {
		t.Error("Dial accepted 6 attempts")
	}
}

func TestCallWithoutDeadlineGetsClientTimeout(t *testing.T) {
	waits := func(ctx context.Context, _ *pb.ListMessagesRequest) (*pb.ListMessagesResponse, error) {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	client := clientOf(t, &scripted{list: waits}, WithTimeout(50*time.Millisecond))
	_, err := client.ListMessages(t.Context(), &pb.ListMessagesRequest{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.ListMessages(cancelled, &pb.ListMessagesRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTokenSourceIsCalledForEachCall(t *testing.T) {
	script, number := &scripted{list: pagesOf}, 0
	client := clientOf(t, script, WithTokenSource(func(context.Context) (string, error) {
		number++
		return fmt.Sprintf("t%d", number), nil
	}))
	for range 2 {
		if _, err := client.ListMessages(t.Context(), &pb.ListMessagesRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	got := append(script.asked[0].Get("authorization"), script.asked[1].Get("authorization")...)
	if !slices.Equal(got, []string{"Bearer t1", "Bearer t2"}) {
		t.Errorf("got %v", got)
	}
}

func TestBoundRecallSendsUser(t *testing.T) {
	for user, key := range map[string]string{"lin": "x-user-id", "王小明": "x-user-id-bin", " lin": "x-user-id-bin"} {
		script := &scripted{}
		client := clientOf(t, script)
		if _, err := client.BoundTo(user).Recall(t.Context(), &pb.RecallRequest{}); err != nil {
			t.Fatal(err)
		}
		if got := script.asked[0].Get(key); !slices.Equal(got, []string{user}) {
			t.Errorf("%q: got %q", user, got)
		}
	}
}

func TestStreamYieldsStepsAndError(t *testing.T) {
	client := clientOf(t, &scripted{stream: func(stream grpc.ServerStreamingServer[pb.StreamRecallResponse]) error {
		step := &pb.StreamRecallResponse{Event: &pb.StreamRecallResponse_Step{Step: &pb.RecallStep{Tool: "x"}}}
		if err := stream.Send(step); err != nil {
			return err
		}
		return status.Error(codes.Internal, "broken")
	}})
	var told []string
	for event, err := range client.StreamRecall(t.Context(), &pb.StreamRecallRequest{}) {
		told = append(told, event.GetStep().GetTool()+" "+status.Code(err).String())
	}
	if !slices.Equal(told, []string{"x OK", " Internal"}) {
		t.Errorf("got %q", told)
	}
}

func TestBreakCancelsRecall(t *testing.T) {
	ended := make(chan error, 1)
	client := clientOf(t, &scripted{stream: func(stream grpc.ServerStreamingServer[pb.StreamRecallResponse]) error {
		_ = stream.Send(&pb.StreamRecallResponse{})
		<-stream.Context().Done()
		ended <- stream.Context().Err()
		return nil
	}})
	for range client.BoundTo("lin").StreamRecall(t.Context(), &pb.StreamRecallRequest{}) {
		break
	}
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the recall was not canceled")
	}
}

func TestImportIsSplitIntoBatches(t *testing.T) {
	script := &scripted{}
	client := clientOf(t, script)
	long := strings.Repeat("x", 200_000)
	messages := make([]*pb.ChatMessage, 0, 1_030)
	for range 1_001 {
		messages = append(messages, &pb.ChatMessage{MessageId: "1"})
	}
	for range 20 {
		messages = append(messages, &pb.ChatMessage{Content: long})
	}
	if _, err := client.ImportMessages(t.Context(), slices.Values(messages), ImportOptions{Replace: true}); err != nil {
		t.Fatal(err)
	}
	sizes := []int{}
	for _, batch := range script.imported {
		sizes = append(sizes, len(batch.Messages))
	}
	if !slices.Equal(sizes, []int{1_000, 20, 1}) || !script.imported[0].Replace {
		t.Errorf("got %v", sizes)
	}
	if script.imported[0].RequestId != "" || script.imported[2].RequestId == "" {
		t.Error("only the batch with messages without ids must have a request id")
	}
}
