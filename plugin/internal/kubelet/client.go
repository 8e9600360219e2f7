package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/containerd/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"quiesce/plugin/internal/node"
)

// limit is how long the kubelet may take to answer: nobody should wait for it.
const limit = time.Second

// Client asks one kubelet. Its methods may be called from several goroutines.
type Client struct {
	socket, file string

	mu   sync.Mutex
	kept map[string]*node.Spec
}

// New makes a client; it connects for each call. file keeps what was learnt for when the kubelet is gone.
func New(socket, file string) *Client { return &Client{socket: socket, file: file} }

// Specs is what the kubelet says of its pods, by UID. When it does not answer it is what it said last, except that no pod
// is being deleted: nobody knows. It is nil where no kubelet ever answered.
func (c *Client) Specs(ctx context.Context) map[string]*node.Spec {
	specs, err := c.ask(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		log.G(ctx).WithError(err).Debug("the kubelet's pods API does not answer")
		return c.last()
	}
	if !reflect.DeepEqual(specs, c.kept) {
		c.kept = specs
		if err := c.keep(); err != nil {
			log.G(ctx).WithError(err).Warn("what the kubelet says of its pods was not kept")
		}
	}
	return specs
}

func (c *Client) ask(ctx context.Context) (map[string]*node.Spec, error) {
	if _, err := os.Stat(c.socket); err != nil {
		return nil, fmt.Errorf("ask kubelet: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+c.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return nil, fmt.Errorf("ask kubelet: %w", err)
	}
	defer conn.Close()
	r, err := podsapi.NewPodsClient(conn).ListPods(ctx, &podsapi.ListPodsRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask kubelet: %w", err)
	}
	specs := make(map[string]*node.Spec, len(r.GetPods()))
	for _, b := range r.GetPods() {
		uid, s, err := parse(b)
		if err != nil {
			return nil, fmt.Errorf("ask kubelet: %w", err)
		}
		specs[uid] = s
	}
	return specs, nil
}

// last is what was kept, by this process or another.
func (c *Client) last() map[string]*node.Spec {
	if c.kept == nil {
		b, err := os.ReadFile(c.file)
		if err != nil || json.Unmarshal(b, &c.kept) != nil {
			return nil
		}
	}
	old := make(map[string]*node.Spec, len(c.kept))
	for uid, s := range c.kept {
		calm := *s
		calm.Deleting = false
		old[uid] = &calm
	}
	return old
}

// keep writes the file whole, beside its name first. It is below /run: a reboot makes it void.
func (c *Client) keep() error {
	b, err := json.Marshal(c.kept)
	if err != nil {
		return fmt.Errorf("keep pods: %w", err)
	}
	tmp := fmt.Sprintf("%s.%d", c.file, os.Getpid())
	if err := os.WriteFile(tmp, b, 0o600); err != nil { //nolint:forbidigo // below /run, nobody else's file
		if errors.Is(err, fs.ErrNotExist) {
			return nil // without a daemon there is no such directory
		}
		return fmt.Errorf("keep pods: %w", err)
	}
	if err := os.Rename(tmp, c.file); err != nil { //nolint:forbidigo // as above
		return fmt.Errorf("keep pods: %w", err)
	}
	return nil
}
