package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"
)

// apiSocket is where kubectl proxy serves the API.
const apiSocket = "/run/kubernetes-api.sock"

const kubeconfig = "--kubeconfig=/etc/kubernetes/kubeconfig"

// ErrNotFound means that the API server has no such object.
var ErrNotFound = errors.New("not found")

// do asks the API server. Every call has a connection of its own: the socket is another one after each boot.
func (c *Cluster) do(ctx context.Context, method, path string, body io.Reader, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errors.New("no answer in 20 s"))
	defer cancel()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx, apiSocket) },
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, body)
	if err != nil {
		return nil, fmt.Errorf("ask API server: %w", err)
	}
	maps.Copy(r.Header, header)
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask API server: %w", err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer to %s: %w", path, err)
	case answer.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s %s: %w", method, path, ErrNotFound)
	case answer.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s %s: %s: %.300s", method, path, answer.Status, data)
	}
	return data, nil
}

// Get reads an object or a list, such as /api/v1/nodes/node1, into v.
func (c *Cluster) Get(ctx context.Context, path string, v any) error {
	data, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Patch merges a JSON patch into an object.
func (c *Cluster) Patch(ctx context.Context, path, patch string) error {
	_, err := c.do(ctx, http.MethodPatch, path, strings.NewReader(patch), http.Header{"Content-Type": {"application/merge-patch+json"}})
	return err
}

// Kubectl runs the cluster's kubectl on the node.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.Exec(ctx, append([]string{"kubectl", kubeconfig}, args...)...)
}

// Apply applies manifests.
func (c *Cluster) Apply(ctx context.Context, manifests ...string) error {
	return c.apply(ctx, nil, manifests)
}

// Check has the API server check manifests, and changes nothing. A field that it does not know is an error.
func (c *Cluster) Check(ctx context.Context, manifests ...string) error {
	return c.apply(ctx, []string{"--dry-run=server", "--validate=strict"}, manifests)
}

func (c *Cluster) apply(ctx context.Context, args, manifests []string) error {
	cmd, err := c.Command(ctx, append([]string{"kubectl", kubeconfig, "apply", "--server-side", "--filename", "-"}, args...)...)
	if err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(strings.Join(manifests, "\n---\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply manifests: %w\n%s", err, out)
	}
	return nil
}

// Delete deletes objects, such as job/name, and does not wait until they are gone.
func (c *Cluster) Delete(ctx context.Context, namespace string, objects ...string) error {
	_, err := c.Kubectl(ctx, append([]string{"--namespace", namespace, "delete", "--wait=false", "--ignore-not-found"}, objects...)...)
	return err
}
