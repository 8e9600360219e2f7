// Package podsapi asks the kubelet for what CRI does not know of pods: their priority, and which are being deleted.
//
// The kubelet's local pods API (v1.37, on by default) answers without an API server. Its pods are v1.Pod in protobuf; of
// those only a few fields are read, so that Kubernetes' API types are not part of the program.
package podsapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// Socket is where a kubelet with the given root directory serves (kubernetes pkg/kubelet/kubelet.go).
func Socket(root string) string { return filepath.Join(root, "pods-api", "pods-api.sock") }

// Pod is what is read of a pod.
type Pod struct {
	UID      string
	Priority *int32 // nil: it has none, as manifests of the node's own
	Deleting bool
}

// maxList is the most that the kubelet may answer, in bytes.
const maxList = 64 << 20

// ErrAbsent says that no kubelet serves the API here.
var ErrAbsent = errors.New("the kubelet serves no pods API")

// List asks once. A kubelet that does not know all of its pods yet refuses.
func List(ctx context.Context, socket string) ([]Pod, error) {
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrAbsent
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxList)))
	if err != nil {
		return nil, fmt.Errorf("ask kubelet for pods: %w", err)
	}
	defer conn.Close()
	r, err := podsv1alpha1.NewPodsClient(conn).ListPods(ctx, &podsv1alpha1.ListPodsRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask kubelet for pods: %w", err)
	}
	pods := make([]Pod, 0, len(r.GetPods()))
	for _, b := range r.GetPods() {
		p, err := parse(b)
		if err != nil {
			return nil, fmt.Errorf("ask kubelet for pods: %w", err)
		}
		pods = append(pods, p)
	}
	return pods, nil
}

// Numbers of fields (k8s.io/api core/v1 and apimachinery meta/v1, generated.proto).
const (
	podMetadata  = 1
	podSpec      = 2
	metaUID      = 5
	metaDeleted  = 9
	specPriority = 25
)

func parse(b []byte) (p Pod, err error) {
	err = fields(b, func(n protowire.Number, v []byte, _ uint64) error {
		switch n {
		case podMetadata:
			return fields(v, func(n protowire.Number, v []byte, _ uint64) error {
				switch n {
				case metaUID:
					p.UID = string(v)
				case metaDeleted:
					p.Deleting = true
				}
				return nil
			})
		case podSpec:
			return fields(v, func(n protowire.Number, _ []byte, u uint64) error {
				if n == specPriority {
					i := int32(u) //nolint:gosec // an int32 of protobuf: its low bits
					p.Priority = &i
				}
				return nil
			})
		}
		return nil
	})
	return p, err
}

// fields calls f for each field: with its bytes, or its number.
func fields(b []byte, f func(n protowire.Number, v []byte, u uint64) error) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return fmt.Errorf("read pod: %w", protowire.ParseError(size))
		}
		b = b[size:]
		var v []byte
		var u uint64
		switch kind { //nolint:exhaustive // the others are passed over
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			u, size = protowire.ConsumeVarint(b)
		default:
			size = protowire.ConsumeFieldValue(n, kind, b)
		}
		if size < 0 {
			return fmt.Errorf("read pod: %w", protowire.ParseError(size))
		}
		b = b[size:]
		if err := f(n, v, u); err != nil {
			return err
		}
	}
	return nil
}
