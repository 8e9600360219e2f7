// Package lab is a test node with quiesce on it, put there by `quiesce-installer host`, and the pods of its stories:
// installer pods as quiesce wants them, installer pods as they are reported, and pods of handlers.
package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"quiesce/test/node"
)

// Paths in the node.
const (
	Inbox   = "/var/lib/quiesce/inbox"
	Results = "/var/lib/quiesce/results"
	binDir  = "/root/quiesce" // where the programs are before host installs them
)

// InstallerImage has quiesce-installer as its entrypoint, and shims in /assets.
const InstallerImage = "localhost/quiesce-installer:1"

// Options of a lab.
type Options struct {
	Name   string
	Quiet  time.Duration // quiet period; 2 s if zero
	Config string        // further lines of quiesce's configuration
	Node   node.Config   // further settings of the node
	Shims  []string      // handlers whose shims are in the installer image, as /assets/containerd-shim-NAME
	NoHost bool          // leave quiesce off the node
}

// Lab is a running node with quiesce.
type Lab struct {
	*node.Node
	booted time.Time
	unit   string // that runs containerd
}

// Start boots a node that was switched off.
func (l *Lab) Start(ctx context.Context) error {
	l.booted = time.Now()
	return l.Node.Start(ctx)
}

// Booted is when the node was switched on.
func (l *Lab) Booted() time.Time { return l.booted }

// Boot makes the node and installs quiesce on it.
func Boot(ctx context.Context, o Options) (*Lab, error) {
	cfg, err := o.node(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	n, err := node.Boot(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l := &Lab{Node: n, booted: began, unit: cmp.Or(cfg.Unit, "containerd.service")}
	if !o.NoHost {
		err = l.install(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return l, nil
}

// node is the node's configuration: quiesce's programs beside the node, and an image with them.
func (o Options) node(ctx context.Context) (node.Config, error) {
	cfg := o.Node
	cfg.Name = o.Name
	version := cmp.Or(cfg.Containerd, node.DefaultContainerd)
	kit, err := node.Prepare(ctx, version)
	if err != nil {
		return cfg, err
	}
	cfg.Kit = kit
	tools, err := kit.Tools(ctx, version)
	if err != nil {
		return cfg, err
	}
	programs := map[string]string{"./plugin": binDir + "/quiesce", "./installer": binDir + "/quiesce-installer"}
	maps.Copy(programs, cfg.Programs)
	cfg.Programs = programs
	image := node.Image{
		Name: InstallerImage, Entrypoint: []string{"/quiesce-installer"},
		Programs: map[string]string{"/quiesce-installer": "./installer"}, Files: map[string]string{},
	}
	for _, name := range o.Shims {
		for _, dir := range []string{"/assets", "/shims"} { // a volume may hide the first
			image.Files[dir+"/containerd-shim-"+name] = filepath.Join(tools, "containerd-shim-runc-v2")
		}
	}
	cfg.Images = append(cfg.Images, image)
	return cfg, nil
}

func (l *Lab) install(ctx context.Context, o Options) error {
	quiet := o.Quiet
	if quiet == 0 {
		quiet = 2 * time.Second
	}
	config := fmt.Sprintf("quietPeriod = %q\nlogFormat = 'json'\nlogLevel = 'debug'\n%s\n", quiet, o.Config)
	if _, err := l.Exec(ctx, "mkdir", "-p", "/etc/quiesce"); err != nil {
		return err
	}
	if err := l.WriteFile("/etc/quiesce/config.toml", []byte(config), 0o644); err != nil {
		return err
	}
	if _, err := l.Exec(ctx, binDir+"/quiesce-installer", "host"); err != nil {
		return fmt.Errorf("install quiesce: %w", err)
	}
	return l.Until(ctx, "the daemon is synchronized", func(ctx context.Context) (bool, error) {
		s, err := l.Status(ctx)
		return err == nil && (s.NRI.Connected || strings.HasPrefix(o.Node.Containerd, "1.")) && s.Runtime.Error == "" && !s.Runtime.Listed.IsZero(), nil
	})
}

// Until waits for a condition, or says what did not become true.
func (l *Lab) Until(ctx context.Context, what string, cond func(context.Context) (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := cond(ctx)
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		}
	}
}

// Status is what a reader of `quiesce status --output json` relies on.
type Status struct {
	Version string
	NRI     struct{ Connected bool }
	Runtime struct {
		Listed time.Time
		Error  string
	}
	Gate struct {
		Phase    string
		Blockers []struct {
			Reason string
			Who    []string
			Stuck  bool
		}
	}
	Handlers []struct {
		Name, Entry string
		Pods        []string
	}
	Installers []struct {
		Pod, Why string
		Stuck    bool
	}
	Pending     []struct{ ID, Op, Phase, Reason string }
	LastRestart struct {
		Began  time.Time
		Done   int
		Broken int
		Lost   []string
	} `json:"last_restart"`
}

// Status asks the daemon, over its socket: tests ask often, and a process each time would be most of their work.
func (l *Lab) Status(ctx context.Context) (s Status, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no answer in 10 s"))
	defer cancel()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return l.Dial(ctx, "/run/quiesce/control.sock")
		},
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://quiesce/v1/status", nil)
	if err != nil {
		return s, fmt.Errorf("ask daemon: %w", err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return s, fmt.Errorf("ask daemon: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return s, fmt.Errorf("ask daemon: %s", answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	return s, nil
}

// Quiesce runs a command of the daemon's program on the node.
func (l *Lab) Quiesce(ctx context.Context, args ...string) (string, error) {
	return l.Exec(ctx, append([]string{"/opt/quiesce/bin/quiesce"}, args...)...)
}

// Installer runs a command of quiesce-installer on the node.
func (l *Lab) Installer(ctx context.Context, args ...string) (string, error) {
	return l.Exec(ctx, append([]string{binDir + "/quiesce-installer"}, args...)...)
}

// Runtime is the process of containerd's unit.
type Runtime struct {
	PID        int
	Invocation string
	Restarts   int // starts since the node was booted, less one
}

// Runtime asks systemd.
func (l *Lab) Runtime(ctx context.Context) (Runtime, error) {
	out, err := l.Exec(ctx, "systemctl", "show", l.unit, "-p", "MainPID", "-p", "InvocationID")
	if err != nil {
		return Runtime{}, err
	}
	var r Runtime
	for line := range strings.Lines(out) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch k {
		case "MainPID":
			if r.PID, err = strconv.Atoi(v); err != nil {
				return r, fmt.Errorf("read MainPID: %w", err)
			}
		case "InvocationID":
			r.Invocation = v
		}
	}
	starts, err := l.Starts(ctx)
	r.Restarts = len(starts) - 1
	return r, err
}

// Starts lists when systemd began to start containerd since the boot, from the journal.
func (l *Lab) Starts(ctx context.Context) ([]time.Time, error) {
	return l.unitMessages(ctx, "7d4958e842da4a758f6c1cdc7b36dcc5") // SD_MESSAGE_UNIT_STARTING
}

// Stops lists when systemd began to stop it.
func (l *Lab) Stops(ctx context.Context) ([]time.Time, error) {
	return l.unitMessages(ctx, "de5b426a63be47a7b6ac3eaac82e2f6f") // SD_MESSAGE_UNIT_STOPPING
}

func (l *Lab) unitMessages(ctx context.Context, id string) ([]time.Time, error) {
	out, err := l.Exec(ctx, "journalctl", "-o", "json", "--output-fields=UNIT,MESSAGE_ID", "MESSAGE_ID="+id, "UNIT="+l.unit)
	if err != nil {
		return nil, err
	}
	var times []time.Time
	for line := range strings.Lines(out) {
		var e struct {
			At string `json:"__REALTIME_TIMESTAMP"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		us, err := strconv.ParseInt(e.At, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		if at := time.UnixMicro(us); at.After(l.booted) { // a boot of the node is none of the kernel: journalctl -b does not know it
			times = append(times, at)
		}
	}
	return times, nil
}
