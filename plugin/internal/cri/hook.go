package cri

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quiesce/plugin/internal/drain"
)

// Run runs a preStop hook as a kubelet does (kubernetes pkg/kubelet/lifecycle/handlers.go): exec in the container,
// httpGet without checking certificates, tcpSocket by connecting. host is the pod's address; empty is the node's.
func (c *Client) Run(ctx context.Context, container string, h drain.Hook, host string, timeout time.Duration) error {
	if host == "" {
		host = "127.0.0.1"
	}
	switch {
	case len(h.Exec) > 0:
		return c.exec(ctx, container, h.Exec, timeout)
	case h.HTTP != nil:
		return get(ctx, *h.HTTP, host)
	case h.TCP != "":
		return dial(ctx, h.TCP, host)
	}
	return errors.New("run hook: it has no action")
}

func (c *Client) exec(ctx context.Context, container string, argv []string, timeout time.Duration) error {
	r, err := c.rt.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: argv, Timeout: int64(math.Ceil(timeout.Seconds()))})
	if err != nil {
		return fmt.Errorf("run hook: %w", err)
	}
	if code := r.GetExitCode(); code != 0 {
		return fmt.Errorf("run hook: exit code %d: %.200s", code, strings.TrimSpace(string(r.GetStderr())))
	}
	return nil
}

func get(ctx context.Context, h drain.HTTPGet, host string) error {
	if h.Host != "" {
		host = h.Host
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Scheme+"://"+net.JoinHostPort(host, h.Port)+h.Path, nil)
	if err != nil {
		return fmt.Errorf("run hook: %w", err)
	}
	for _, kv := range h.Header {
		if strings.EqualFold(kv[0], "Host") {
			req.Host = kv[1]
		}
		req.Header.Add(kv[0], kv[1])
	}
	t := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as the kubelet: a pod's own certificate for its own hook
		DisableKeepAlives: true, Proxy: nil,
	}
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return fmt.Errorf("run hook: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("run hook: %s", resp.Status)
	}
	return nil
}

func dial(ctx context.Context, addr, host string) error {
	h, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("run hook: %w", err)
	}
	if h != "" {
		host = h
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("run hook: %w", err)
	}
	return conn.Close()
}
