package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/plugin/internal/node"
)

// Client is a connection to the runtime's socket.
type Client struct {
	conn  *grpc.ClientConn
	rt    runtimeapi.RuntimeServiceClient
	known *cache[containerDetails]
	nets  *cache[podNet]

	// Specs is what else is known of pods, by UID; nil: nothing. Set it before the first use.
	Specs func(ctx context.Context) map[string]*node.Spec
}

// New prepares a client; it does not connect yet.
func New(socket string) (*Client, error) { return newLimited(socket, callLimit) }

func newLimited(socket string, limit time.Duration) (*Client, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithUnaryInterceptor(limited(limit)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("prepare runtime client: %w", err)
	}
	return &Client{conn: conn, rt: runtimeapi.NewRuntimeServiceClient(conn), known: newCache[containerDetails](), nets: newCache[podNet]()}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Runtime is what answers on the socket.
type Runtime struct {
	Name     string
	Version  string
	Ready    bool
	Reason   string   // why it is not ready
	Handlers []string // nil where CRI does not list them (containerd 1.7)
}

// Runtime asks for version and status. The context limits how long it waits for a runtime that is down.
func (c *Client) Runtime(ctx context.Context) (Runtime, error) {
	v, err := c.rt.Version(ctx, &runtimeapi.VersionRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return Runtime{}, fmt.Errorf("ask runtime version: %w", err)
	}
	st, err := c.rt.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return Runtime{}, fmt.Errorf("ask runtime status: %w", err)
	}
	rt := Runtime{Name: v.GetRuntimeName(), Version: strings.TrimPrefix(v.GetRuntimeVersion(), "v")}
	for _, cond := range st.GetStatus().GetConditions() {
		if cond.GetType() == runtimeapi.RuntimeReady {
			rt.Ready, rt.Reason = cond.GetStatus(), strings.TrimSpace(cond.GetReason()+" "+cond.GetMessage())
		}
	}
	for _, h := range st.GetRuntimeHandlers() {
		if h.GetName() != "" { // the empty one stands for the default
			rt.Handlers = append(rt.Handlers, h.GetName())
		}
	}
	if rt.Handlers == nil {
		rt.Handlers = verboseHandlers(st.GetInfo()["config"])
	}
	slices.Sort(rt.Handlers)
	return rt, nil
}

// verboseHandlers reads the handlers from the CRI plugin's config as the verbose status shows it, on versions
// whose CRI does not list them (containerd 1.7 pkg/cri/server/status.go).
func verboseHandlers(config string) []string {
	var c struct {
		Containerd struct {
			Runtimes map[string]json.RawMessage `json:"runtimes"`
		} `json:"containerd"`
	}
	if json.Unmarshal([]byte(config), &c) != nil {
		return nil
	}
	var names []string
	for name := range c.Containerd.Runtimes {
		names = append(names, name)
	}
	return names
}

// Answers tells whether the runtime answers a version request within the context.
func (c *Client) Answers(ctx context.Context) bool {
	_, err := c.rt.Version(ctx, &runtimeapi.VersionRequest{})
	return err == nil
}

// Reconnect ends a back-off, so that the next call dials at once.
func (c *Client) Reconnect() { c.conn.ResetConnectBackoff() }
