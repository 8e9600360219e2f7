package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Dial connects to a unix socket of the node.
func (n *Node) Dial(ctx context.Context, socket string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", n.Path(socket))
}

// CRI is a client of the node's containerd. It dials again after a restart of containerd and after a reboot;
// calls made while containerd is down return the code Unavailable.
func (n *Node) CRI(ctx context.Context) (runtimeapi.RuntimeServiceClient, error) {
	conn, err := n.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return runtimeapi.NewRuntimeServiceClient(conn), nil
}

// Conn is the connection below CRI, for containerd's other services.
func (n *Node) Conn(_ context.Context) (*grpc.ClientConn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("dial containerd of %s: the node is closed", n.ID)
	}
	if n.conn != nil {
		return n.conn, nil
	}
	retry := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}
	conn, err := grpc.NewClient("passthrough:///"+n.ID,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: 5 * time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return n.Dial(ctx, n.cfg.socket()) }))
	if err != nil {
		return nil, fmt.Errorf("dial containerd of %s: %w", n.ID, err)
	}
	n.conn = conn
	return conn, nil
}

// WaitCRI waits until containerd says that runtime and network are ready.
func (n *Node) WaitCRI(ctx context.Context) error {
	cri, err := n.CRI(ctx)
	if err != nil {
		return err
	}
	last := errors.New("no answer")
	err = poll(ctx, 25*time.Millisecond, func() (bool, error) {
		last = ready(ctx, cri)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for CRI: %w (last: %w)", err, last)
	}
	return nil
}

// ready returns nil if containerd says that runtime and network are ready.
func ready(ctx context.Context, cri runtimeapi.RuntimeServiceClient) error {
	status, err := cri.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return err
	}
	for _, c := range status.GetStatus().GetConditions() {
		if !c.GetStatus() && (c.GetType() == runtimeapi.RuntimeReady || c.GetType() == runtimeapi.NetworkReady) {
			return fmt.Errorf("%s: %s", c.GetType(), c.GetMessage())
		}
	}
	return nil
}

// RestartContainerd restarts containerd's unit and waits until CRI is ready again.
func (n *Node) RestartContainerd(ctx context.Context) error {
	if _, err := n.Exec(ctx, "systemctl", "restart", n.cfg.unit()); err != nil {
		return fmt.Errorf("restart containerd: %w", err)
	}
	return n.WaitCRI(ctx)
}

// ImportImage makes an image and imports it into the running node.
func (n *Node) ImportImage(ctx context.Context, img Image) error {
	file := path.Join("/var/tmp", machineID()+".tar")
	if err := n.kit.writeImage(ctx, n.Path(file), img); err != nil {
		return fmt.Errorf("make image %s: %w", img.Name, err)
	}
	if err := n.importTar(ctx, file); err != nil {
		return err
	}
	_, err := n.Exec(ctx, "rm", file)
	return err
}

// importImages imports the images that the node was made with.
func (n *Node) importImages(ctx context.Context) error {
	list, err := n.Exec(ctx, "ls", imageDir)
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for name := range strings.FieldsSeq(list) {
		if err := n.importTar(ctx, path.Join(imageDir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) importTar(ctx context.Context, file string) error {
	if _, err := n.Exec(ctx, "ctr", "--address", n.cfg.socket(), "--namespace", "k8s.io", "images", "import", file); err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	return nil
}
