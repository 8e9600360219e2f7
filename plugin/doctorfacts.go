package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"quiesce/plugin/internal/containerd/config"
	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/doctor"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/internal/node"
	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/stage"
)

// gather finds out everything that doctor judges. What cannot be found out becomes a fact.
func gather(ctx context.Context, settings string) (doctor.Facts, error) {
	var f doctor.Facts
	cfg, err := readConfig(settings)
	if err != nil {
		if settings != defaultConfig {
			return f, err // it was named
		}
		f.Settings = err
		if cfg, err = fallback(); err != nil {
			return f, err
		}
	}
	f.Runtime, f.Kubelet = cfg.Unit, cfg.Drain.Kubelet
	f.Deadline = cfg.Drain.Deadline.Duration
	f.DuringUpgrade, f.Logind = cfg.Drain.DuringUpgrade, cfg.Drain.Logind
	factsOfUnits(ctx, &f)
	factsOfDaemon(ctx, cfg, &f)
	factsOfRuntime(ctx, cfg, &f)
	factsOfStage(cfg, &f)
	factsOfLogind(ctx, &f)
	f.KubeletGrace, f.KubeletFile = kubeletGrace(hostRoot())
	f.Restarters = restarters(hostRoot())
	return f, nil
}

// scopeGlob are the scopes that containerd's CRI makes (containerd internal/cri/server, "cri-containerd").
const scopeGlob = "cri-containerd-*.scope"

func factsOfUnits(ctx context.Context, f *doctor.Facts) {
	f.Units = map[string]doctor.Unit{}
	for _, name := range []string{doctor.DaemonUnit, doctor.DrainUnit, doctor.ApplyUnit, doctor.BootUnit, f.Runtime, f.Kubelet} {
		if name == "" {
			continue
		}
		u, err := unitFacts(ctx, name)
		if err != nil {
			f.UnitError = err
			return
		}
		f.Units[name] = u
	}
	names, err := systemd.Loaded(ctx, scopeGlob)
	f.UnitError = err
	for _, name := range names {
		if u, err := unitFacts(ctx, name); err == nil && u.Load == "loaded" { // it may have ended
			f.Scopes = append(f.Scopes, u)
		}
	}
	_, err = os.Stat("/etc/systemd/system/cri-containerd-.scope.d/50-quiesce.conf")
	f.ScopeFile = err == nil
}

func unitFacts(ctx context.Context, name string) (doctor.Unit, error) {
	p, err := systemd.Unit{Name: name}.Properties(ctx)
	if err != nil {
		return doctor.Unit{}, err
	}
	text := func(key string) string { s, _ := p[key].(string); return s }
	list := func(key string) []string { l, _ := p[key].([]string); return l }
	stale, _ := p["NeedDaemonReload"].(bool)
	return doctor.Unit{
		Name: name, Load: text("LoadState"), Active: text("ActiveState"), File: text("UnitFileState"), Stale: stale,
		Before: list("Before"), After: list("After"), PartOf: list("PartOf"), Want: list("WantedBy"),
	}, nil
}

func factsOfRuntime(ctx context.Context, cfg Config, f *doctor.Facts) {
	path, _, err := locate(ctx, cfg)
	if err == nil {
		var n config.NRI
		n, err = config.ReadNRI(ctx, path)
		f.NRI = doctor.NRI{Disabled: n.Disabled, Request: n.Request, Registration: n.Registration}
	}
	if f.UnitError == nil { // else it says so
		f.RuntimeConfig = err
	}
	f.NRI.Socket = cfg.NRISocket
	if !f.Connected {
		f.NRI.SocketError = listens(ctx, cfg.NRISocket)
	}
	client, err := cri.New(cfg.CRISocket)
	if err != nil {
		f.RuntimeError = err
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rt, err := client.Runtime(ctx)
	f.Version, f.RuntimeError = rt.Version, err
	if err != nil {
		return
	}
	pods, err := client.List(ctx)
	if err != nil {
		f.RuntimeError = err
		return
	}
	state, rules := node.NewState(), cfg.rules()
	state.Replace(pods, time.Now())
	for _, i := range rules.Installers(state.Snapshot(), time.Now()) {
		if i.Stuck {
			f.Stuck = append(f.Stuck, fmt.Sprintf("%s keeps the gate closed since %s: %s", i.Pod, i.Pod.Created.Local().Format(time.DateTime), i.Why))
		}
	}
}

// listens tells whether somebody takes connections on a unix socket. NRI's takes one and waits for a plugin: it is closed at once.
func listens(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return c.Close()
}

func factsOfDaemon(ctx context.Context, cfg Config, f *doctor.Facts) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := control.NewClient(cfg.controlSocket()).Status(ctx)
	f.Daemon, f.Connected, f.Notes, f.Rejected = err, s.NRI.Connected, s.Notes, s.AllBad
}

func factsOfStage(cfg Config, f *doctor.Facts) {
	for room, mode := range map[string]uint32{"inbox": 0o700, "inbox/tmp": 0o700, "inbox/new": 0o700, "store": 0o700, "results": 0o755} {
		r := doctor.Room{Path: filepath.Join(cfg.StageDir, room), Want: mode}
		fi, err := os.Lstat(r.Path)
		if r.Error = err; err == nil {
			r.Mode = uint32(fi.Mode().Perm())
			if st, ok := fi.Sys().(*syscall.Stat_t); ok {
				r.UID = st.Uid
			}
		}
		f.Stage = append(f.Stage, r)
	}
	s, err := stage.Open(cfg.StageDir)
	if err != nil {
		f.StageError = err
		return
	}
	defer s.Close()
	j, err := s.Journal()
	f.StageError = err
	if !s.Locked() {
		f.Interrupted = j != nil || s.Interrupted()
		f.Frozen = freeze.Listed(freezeDir(cfg))
	}
	d, err := drain.OpenStore(cfg.StageDir)
	if err != nil {
		f.StageError = errors.Join(f.StageError, err)
		return
	}
	defer d.Close()
	if st, err := d.Load(); err == nil && st.Active(drain.Boot()) {
		f.Draining = fmt.Sprintf("%s of %s, %s since %s", st.Trigger, st.Selection, st.Phase, st.Began.Local().Format(time.DateTime))
	}
}

func factsOfLogind(ctx context.Context, f *doctor.Facts) {
	l, err := systemd.NewLogind(ctx)
	if err != nil {
		f.DelayError = err
		return
	}
	defer l.Close()
	if f.Delay, f.DelayError = l.MaxDelay(); f.DelayError == nil {
		f.Delayers, f.DelayError = l.Others(ctx)
	}
}

var (
	graceLine  = regexp.MustCompile(`(?m)^shutdownGracePeriod:\s*["']?([0-9a-z.]+)`)
	configFlag = regexp.MustCompile(`--config[= \x00]([^\s\x00]+)`)
)

// kubeletGrace is shutdownGracePeriod of the kubelet's configuration: the file that a running kubelet names, or the usual one.
func kubeletGrace(root fs.FS) (time.Duration, string) {
	file := "var/lib/kubelet/config.yaml"
	procs, _ := fs.Glob(root, "proc/[0-9]*")
	for _, proc := range procs {
		comm, _ := fs.ReadFile(root, filepath.Join(proc, "comm"))
		if strings.TrimSpace(string(comm)) != "kubelet" {
			continue
		}
		cmdline, _ := fs.ReadFile(root, filepath.Join(proc, "cmdline"))
		if m := configFlag.FindSubmatch(cmdline); m != nil {
			file = cmp.Or(strings.TrimPrefix(string(m[1]), "/"), file)
		}
	}
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, ""
	}
	m := graceLine.FindSubmatch(text)
	if m == nil {
		return 0, ""
	}
	d, _ := time.ParseDuration(string(m[1])) // what the kubelet cannot read either is 0
	return d, "/" + file
}

// needrestart restarts services whose libraries were replaced: by itself where it is told so, which is how Ubuntu's
// unattended upgrades use it.
var (
	automatic = regexp.MustCompile(`(?m)^\s*\$nrconf\{restart\}\s*=\s*['"]a['"]`)
	excepted  = regexp.MustCompile(`(?m)^\s*\$nrconf\{override_rc\}.*(?:containerd|k3s|rke2)|^\s*qr\(.*(?:containerd|k3s|rke2).*\)\s*=>\s*0`)
)

func restarters(root fs.FS) (all []string) {
	files, _ := fs.Glob(root, "etc/needrestart/conf.d/*.conf")
	on, off := "", false
	for _, file := range append([]string{"etc/needrestart/needrestart.conf"}, files...) {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		if automatic.Match(text) {
			on = "/" + file
		}
		off = off || excepted.Match(text)
	}
	if on != "" && !off {
		all = append(all, on+": needrestart restarts services by itself after upgrades, containerd too, whoever is in flight")
	}
	return all
}
