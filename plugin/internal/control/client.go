package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// Client asks a daemon.
type Client struct {
	http   *http.Client
	socket string
}

// NewClient prepares a client of the daemon on a socket.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Client{http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, socket: socket}
}

// Status asks for everything.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.call(ctx, http.MethodGet, "status", nil, &s)
	return s, err
}

// Alive asks only whether the daemon answers.
func (c *Client) Alive(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "alive", nil, nil)
}

// Hold vetoes apply.
func (c *Client) Hold(ctx context.Context, who string) error {
	return c.call(ctx, http.MethodPost, "hold", &Request{Who: who}, nil)
}

// Release ends the veto.
func (c *Client) Release(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "release", &Request{}, nil)
}

// Fence refuses new containers for a short time, or no longer. One that goes up is there when it returns, as far as there can be one.
func (c *Client) Fence(ctx context.Context, up bool) error {
	return c.call(ctx, http.MethodPost, "fence", &Request{Up: up}, nil)
}

func (c *Client) call(ctx context.Context, method, verb string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return fmt.Errorf("ask daemon: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://quiesce/v1/"+verb, &body)
	if err != nil {
		return fmt.Errorf("ask daemon: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask daemon: %w", c.explain(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		msg, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		return errors.Join(fmt.Errorf("ask daemon: %s", strings.TrimSpace(string(msg))), err)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read daemon's answer: %w", err)
	}
	return nil
}

func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no daemon serves %s; is quiesce.service running?", c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is root's; use sudo", c.socket)
	default:
		return err
	}
}
