package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/containerd/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Backend is the daemon behind the socket.
type Backend interface {
	Status() Status
	Figures() Status       // Status less what has to be asked for on the node: how the runtime was found, and most notes
	Hold(who string) error // an empty who releases
	Fence(ctx context.Context, up bool)
	DrainChanged() error // its state on disk is another
}

// maxBody limits a request, in bytes.
const maxBody = 64 << 10

// Listen makes the socket.
func Listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil { //nolint:forbidigo // /run is nobody's file
		return nil, fmt.Errorf("make socket directory: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { //nolint:forbidigo // of a daemon that is gone: the caller holds the daemon's lock
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	old := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("listen on control socket: %w", err)
	}
	return rootOnly{l.(*net.UnixListener)}, nil //nolint:forcetypeassert // a unix listener is one
}

// rootOnly accepts connections of root's processes, and of its own user's.
type rootOnly struct{ *net.UnixListener }

func (l rootOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peer(c); err == nil && (uid == 0 || uid == os.Geteuid()) {
			return c, nil
		}
		_ = c.Close()
	}
}

func peer(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		var cred *syscall.Ucred
		if cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid, errors.Join(cerr, err)
}

// Serve answers until ctx ends.
func Serve(ctx context.Context, l net.Listener, b Backend) error {
	return answer(ctx, l, handler(ctx, b))
}

func answer(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: maxBody}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

func handler(ctx context.Context, b Backend) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(b.Status()); err != nil {
			log.G(ctx).WithError(err).Debug("status was not sent")
		}
	})
	mux.HandleFunc("GET /v1/alive", func(w http.ResponseWriter, _ *http.Request) {
		b.Figures() // needs every lock of the daemon
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /v1/hold", do(func(_ context.Context, r Request) error {
		if r.Who == "" {
			return errors.New("who: must say who holds, and why")
		}
		return b.Hold(r.Who)
	}))
	mux.HandleFunc("POST /v1/release", do(func(context.Context, Request) error { return b.Hold("") }))
	mux.HandleFunc("POST /v1/fence", do(func(ctx context.Context, r Request) error {
		b.Fence(ctx, r.Up)
		return nil
	}))
	mux.HandleFunc("POST /v1/drain", do(func(context.Context, Request) error { return b.DrainChanged() }))
	mux.Handle("GET /metrics", scrape(b))
	return mux
}

func scrape(b Backend) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{b}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// ServeMetrics answers GET /metrics, and nothing else, until ctx ends.
func ServeMetrics(ctx context.Context, l net.Listener, b Backend) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrape(b))
	return answer(ctx, l, mux)
}

// Request is the body of every POST.
type Request struct {
	Who string `json:"who,omitempty"`
	Up  bool   `json:"up,omitempty"`
}

func do(f func(context.Context, Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req Request
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		if err := d.Decode(&req); err != nil {
			http.Error(w, "request: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err := f(r.Context(), req); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
