package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/log"
	"github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sync/errgroup"

	"quiesce/plugin/internal/apply"
	"quiesce/plugin/internal/daemon"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/nri"
	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/stage"
)

// hostUnit is the daemon as a service of the host.
const hostUnit = "quiesce.service"

// lookForHost is how often a launched daemon looks whether the host service has come or gone.
const lookForHost = time.Second

// launched tells whether containerd started this process from its NRI plugin directory (NRI pkg/api/plugin.go).
func launched() bool { return os.Getenv("NRI_PLUGIN_SOCKET") != "" && len(os.Args) == 1 }

// journalWriter is for a process whose standard error leads nowhere, as that of NRI's plugins does.
type journalWriter struct{}

func (journalWriter) Write(b []byte) (int, error) {
	return len(b), journal.Send(string(b), journal.PriInfo, map[string]string{"SYSLOG_IDENTIFIER": "quiesce"})
}

// runLaunched is the daemon as containerd starts it: it observes as long as containerd's connection lasts, and decides
// unless a host service does, which always goes first. It never ends before containerd: a plugin that is missing costs
// containerd's start 5 s, and comes back with the next start only.
func runLaunched(ctx context.Context, configFile string) error {
	state, fence := node.NewState(), &daemon.Switch{}
	cfg, cerr := readConfig(configFile)
	if cerr != nil {
		var err error
		if cfg, err = fallback(); err != nil {
			return err
		}
	}
	ctx, err := logging(ctx, cfg)
	if err != nil {
		return err
	}
	log.G(ctx).Logger.SetOutput(journalWriter{})
	session := nri.NewLaunched(state, fence)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return errors.Join(session.Once(ctx), errRuntimeEnded) })
	g.Go(func() error {
		if cerr != nil {
			log.G(ctx).WithError(cerr).Error("idle: the configuration cannot be used")
			return nil //nolint:nilerr // to end would cost containerd's start 5 s
		}
		return beLesser(ctx, cfg, state, fence, session)
	})
	if err := g.Wait(); !errors.Is(err, errRuntimeEnded) {
		return err
	}
	return nil
}

var errRuntimeEnded = errors.New("the runtime ended the connection")

// beLesser decides whenever no host service does.
func beLesser(ctx context.Context, cfg Config, state *node.State, fence *daemon.Switch, session *nri.Session) error {
	last := ""
	for ctx.Err() == nil {
		why := idle(ctx)
		if why == "" {
			if err := decideUntilHost(ctx, cfg, state, fence, session); err != nil {
				why = err.Error()
			}
		}
		if why != last && ctx.Err() == nil {
			log.G(ctx).WithField("why", why).Info("launched by containerd, and idle")
		}
		last = why
		pause(ctx, lookForHost)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// idle says why a launched daemon does not decide, or nothing.
func idle(ctx context.Context) string {
	there, err := systemd.Unit{Name: hostUnit}.Installed(ctx)
	switch {
	case err != nil:
		return "systemd does not answer, and nothing can be applied without it: " + err.Error()
	case there:
		return hostUnit + " does it"
	}
	return ""
}

// decideUntilHost is the daemon until the host service comes.
func decideUntilHost(ctx context.Context, cfg Config, state *node.State, fence *daemon.Switch, session *nri.Session) error {
	if err := furnish(cfg); err != nil {
		return err
	}
	c, err := openCore(ctx, cfg, lockLaunched)
	if err != nil {
		return err
	}
	defer c.close()
	c.notes = []string{
		"started by containerd: `quiesce-installer host` makes it a service of the host. Until then nothing is applied at boot, and pods are not stopped in order at a shutdown",
	}
	guards := c.guards()
	fence.Set(&guards)
	defer fence.Set(nil)
	ctx, end := context.WithCancel(ctx)
	defer end()
	g, ctx := errgroup.WithContext(ctx)
	log.G(ctx).WithField("version", version).WithField("config", fmt.Sprintf("%+v", cfg)).Info("quiesce runs, launched by containerd")
	c.serve(ctx, g, state, session, launchedStarter(cfg))
	g.Go(func() error {
		for ctx.Err() == nil && idle(ctx) == "" {
			pause(ctx, lookForHost)
		}
		end()
		return nil
	})
	return g.Wait()
}

// furnish makes what `quiesce-installer host` would make.
func furnish(cfg Config) error {
	if err := stage.Create(cfg.StageDir); err != nil {
		return err
	}
	root, err := stage.OpenTree("/")
	if err != nil {
		return err
	}
	defer root.Close()
	rel, err := filepath.Rel("/", cfg.ShimDir)
	if err != nil {
		return fmt.Errorf("make directory of shims: %w", err)
	}
	return root.Mkdir(rel, 0o755)
}

// launchedStarter runs apply as a unit that systemd makes for it: it outlives this process, which ends with containerd.
func launchedStarter(cfg Config) func(context.Context, apply.Ticket) error {
	return func(ctx context.Context, t apply.Ticket) error {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own program: %w", err)
		}
		if err := errors.Join(tellFault(cfg, nil), writeTicket(cfg, t)); err != nil {
			return err
		}
		if err := systemd.RunOnce(ctx, applyUnit, []string{exe, "apply", "--unit"}, []string{exe, "thaw"}, 5*time.Minute); err != nil {
			return toldFault(cfg, err)
		}
		return nil
	}
}
