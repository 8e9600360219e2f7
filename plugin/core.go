package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/containerd/log"
	"golang.org/x/sync/errgroup"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/apply"
	"quiesce/plugin/internal/containerd/config"
	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/daemon"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/internal/kubelet"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/stage"
)

// newRuntime is a client of the runtime that knows what the kubelet tells of pods.
func newRuntime(cfg Config) (*cri.Client, error) {
	client, err := cri.New(cfg.CRISocket)
	if err == nil && cfg.PodsSocket != "" {
		client.Specs = kubelet.New(cfg.PodsSocket, filepath.Join(cfg.RunDir, "pods.json")).Specs
	}
	return client, err
}

// core is the daemon but for its NRI connection.
type core struct {
	cfg      Config
	unlock   func() error
	store    *stage.Store
	client   *cri.Client
	listener net.Listener
	metrics  net.Listener // nil: none on TCP
	drained  *drain.Store
	fence    *daemon.Fence
	drains   *daemon.Drains
	notes    []string
	version  asker
}

// openCore takes the daemon's lock and opens what it needs.
func openCore(ctx context.Context, cfg Config, kind lockKind) (_ *core, err error) {
	c := &core{cfg: cfg, fence: &daemon.Fence{}, version: config.Remember()}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.unlock, err = onlyOne(ctx, cfg.RunDir, kind); err != nil {
		return nil, err
	}
	if c.store, err = stage.Open(cfg.StageDir); err != nil {
		return nil, err
	}
	if c.client, err = newRuntime(cfg); err != nil {
		return nil, err
	}
	if c.listener, err = control.Listen(cfg.controlSocket()); err != nil {
		return nil, err
	}
	c.listenMetrics(ctx)
	if c.drained, err = drain.OpenStore(cfg.StageDir); err != nil {
		return nil, err
	}
	c.drains = daemon.NewDrains(c.drained, cfg.Drain.policy())
	return c, nil
}

// listenMetrics opens the port for metrics. Without it everything else goes on.
func (c *core) listenMetrics(ctx context.Context) {
	if c.cfg.MetricsAddress == "" {
		return
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.cfg.MetricsAddress)
	if err != nil {
		c.notes = append(c.notes, "no metrics on TCP: "+err.Error())
		return
	}
	c.metrics = l
}

func (c *core) close() {
	var errs error
	if c.metrics != nil {
		errs = errors.Join(errs, ignoreClosed(c.metrics.Close()))
	}
	if c.listener != nil {
		errs = errors.Join(errs, ignoreClosed(c.listener.Close()))
	}
	if c.drained != nil {
		errs = errors.Join(errs, c.drained.Close())
	}
	if c.client != nil {
		errs = errors.Join(errs, c.client.Close())
	}
	if c.store != nil {
		errs = errors.Join(errs, c.store.Close())
	}
	if c.unlock != nil {
		errs = errors.Join(errs, c.unlock())
	}
	_ = errs // the process ends, or begins anew
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (c *core) guards() daemon.Guards { return daemon.Guards{Apply: c.fence, Drain: c.drains} }

// serve starts everything in g.
func (c *core) serve(ctx context.Context, g *errgroup.Group, state *node.State, session *nri.Session, start func(context.Context, apply.Ticket) error) {
	d := &daemon.Daemon{
		Version: version, Unit: c.cfg.Unit, Store: c.store, State: state, CRI: c.client, NRI: session.Status, Hurry: session.Hurry, Fences: c.fence, Drains: c.drains,
		Rules: c.cfg.rules(), Policy: c.cfg.policy(), Start: start, Notes: func() []string { return c.degraded(ctx) },
		Found: func() *profile.Found { return c.found(ctx) }, Unused: c.unused,
		Stops: observer(c.cfg), Empty: emptier(c.cfg), Resume: resumer(c.cfg),
	}
	d.Inherit()
	if err := freeze.Recover(ctx, freezeDir(c.cfg)); err != nil { // of an apply that died, and at boot
		log.G(ctx).WithError(err).Error("containers may still be frozen; `quiesce thaw` tries again")
	}
	g.Go(func() error { return control.Serve(ctx, c.listener, d) })
	if c.metrics != nil {
		g.Go(func() error { return control.ServeMetrics(ctx, c.metrics, d) })
	}
	g.Go(func() error { return d.Run(ctx) })
	g.Go(func() error { return keepDrained(ctx, c.cfg, c.drains) })
	if c.cfg.Drain.Logind {
		g.Go(func() error { return followLogind(ctx, c.cfg) })
	}
}

// unused tells whether versions of shims are of no use any more; what cannot be read is looked at by apply.
func (c *core) unused() bool {
	versions, err := apply.Unused(c.store, c.cfg.ShimDir)
	return err == nil && len(versions) > 0
}

// degraded says what works less than it could, and why.
func (c *core) degraded(ctx context.Context) []string {
	notes := slices.Clone(c.notes)
	if !systemd.BusAnswers(ctx) {
		notes = append(notes, "the D-Bus daemon does not answer: logind cannot be asked to hold back a shutdown while containers are frozen")
	}
	notes = append(notes, delayNotes(ctx, c.cfg)...)
	if c.store.Locked() { // files may be half written
		return notes
	}
	switch paths, err := drift(ctx, c.cfg, c.store, c.version); {
	case err != nil:
		notes = append(notes, "it is not known whether the live handlers are still in the config: "+err.Error())
	case len(paths) > 0:
		notes = append(notes, driftNote(paths, c.store.GaveUp()))
	}
	return notes
}

// lockKind is who holds the daemon's lock.
type lockKind string

const (
	lockHost     lockKind = "host"
	lockLaunched lockKind = "launched" // gives way to the host's
)

// giveWay is how long a launched daemon may take to notice that there is a host service.
const giveWay = 10 * time.Second

// onlyOne takes the daemon's lock, or says who has it.
func onlyOne(ctx context.Context, dir string, kind lockKind) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:forbidigo // /run is nobody's file
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:forbidigo // as above
	if err != nil {
		return nil, fmt.Errorf("lock daemon: %w", err)
	}
	for began := time.Now(); ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if kind == lockLaunched || !heldBy(f, lockLaunched) || time.Since(began) > giveWay || ctx.Err() != nil {
			return nil, errors.Join(refuse("another quiesce daemon runs: it holds %s", f.Name()), f.Close())
		}
		pause(ctx, lookForHost/10)
	}
	if _, err := f.WriteAt([]byte(kind+"\n"), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("lock daemon: %w", err), f.Close())
	}
	return f.Close, nil
}

func heldBy(f *os.File, kind lockKind) bool {
	b := make([]byte, len(kind)+1)
	_, err := f.ReadAt(b, 0)
	return err == nil && string(b) == string(kind)+"\n"
}
