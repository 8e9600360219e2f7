package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/log"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/apply"
	"quiesce/plugin/internal/follow"
	"quiesce/plugin/internal/systemd"
	"quiesce/plugin/stage"
)

// find finds the containerd of this node; what the settings say counts more than what is found.
func find(cfg Config) (profile.Found, error) {
	p, err := cfg.profile()
	if err != nil {
		return profile.Found{}, err
	}
	if cfg.set.socket {
		p.Socket, p.Asked = cfg.CRISocket, true
	}
	f := profile.Find(hostRoot(), p, profile.Behind)
	if !cfg.set.unit {
		cfg.Unit = ""
	}
	for what, set := range map[string]struct{ now, want *string }{
		"unit": {&f.Unit, &cfg.Unit}, "config": {&f.Config, &cfg.ContainerdConfig}, "program": {&f.Program, &cfg.ContainerdBinary},
	} {
		if *set.want != "" && *set.now != *set.want {
			f.Why = append(f.Why, what+" "+*set.want+": the settings say so")
			*set.now = *set.want
		}
	}
	return f, nil
}

// runtimeUnit is what apply restarts.
func runtimeUnit(cfg Config) (apply.Unit, error) {
	p, err := cfg.profile()
	if err != nil {
		return nil, err
	}
	if p.Restart == profile.BySelf {
		return &follow.Runtime{Socket: cfg.CRISocket, Peer: profile.Behind}, nil
	}
	return systemd.Unit{Name: cfg.Unit}, nil
}

// asker tells a containerd program's version.
type asker func(ctx context.Context, binary string) (string, error)

// drift lists what somebody has overwritten of what is live.
func drift(ctx context.Context, cfg Config, store *stage.Store, version asker) ([]string, error) {
	a, err := transaction(ctx, cfg, store)
	if err != nil {
		return nil, err
	}
	a.Version = version
	return a.Drift(ctx)
}

// driftNote tells of a drift; gaveUp is why the last repair of one went wrong, or empty.
func driftNote(paths []string, gaveUp string) string {
	note := fmt.Sprintf("somebody has overwritten %s, and live handlers are no longer in the config: ", strings.Join(paths, ", "))
	if gaveUp != "" {
		return note + "a repair went wrong and is not tried again by itself (" + gaveUp + "); the next change, or `quiesce apply --now`, tries it again"
	}
	return note + "the next change, the next boot, or `quiesce apply --now` repairs it"
}

// transaction is apply's, for the runtime of this node: what it takes to write files, and nothing that is running.
func transaction(ctx context.Context, cfg Config, store *stage.Store) (*apply.Apply, error) {
	config, binary, err := locate(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p, err := cfg.profile()
	if err != nil {
		return nil, err
	}
	return &apply.Apply{
		Store: store, Shims: cfg.ShimDir, KeepNRI: !cfg.EnableNRI,
		Config: config, Binary: binary, Template: p.Template, Dropins: p.Dropins, Merged: p.Merged,
	}, nil
}

// locate says what the runtime's next start will read and run: that is what a change is made for. It may not run.
func locate(ctx context.Context, cfg Config) (config, binary string, err error) {
	f, err := find(cfg)
	if err != nil {
		return "", "", err
	}
	if f.PID != 0 {
		f, err = next(ctx, cfg, f)
		return f.Config, f.Program, err
	}
	argv, err := systemd.Unit{Name: cfg.Unit}.Command(ctx)
	if err != nil {
		return "", "", err
	}
	return containerdConfig(cfg, f, argv), containerdBinary(cfg, argv), nil
}

// next is what was found, as it will be after the unit's next start: its process may be from before an update of the
// package or of the unit. Where the unit runs another program than containerd, its process tells most.
func next(ctx context.Context, cfg Config, f profile.Found) (profile.Found, error) {
	argv, err := systemd.Unit{Name: cfg.Unit}.StartCommand(ctx)
	if err != nil || len(argv) == 0 || filepath.Base(argv[0]) != "containerd" || !filepath.IsAbs(argv[0]) {
		return f, err
	}
	if cfg.ContainerdBinary == "" && !same(argv[0], f.Program) {
		f.Program = argv[0]
		f.Why = append(f.Why, fmt.Sprintf("program %s: the next start of %s runs it", f.Program, cfg.Unit))
	}
	expanded := !slices.ContainsFunc(argv, func(a string) bool { return strings.Contains(a, "$") })
	p, err := cfg.profile()
	if config := cmp.Or(profile.ConfigArg(argv), p.Config); expanded && err == nil && cfg.ContainerdConfig == "" && !f.Fixed && config != f.Config {
		f.Config = config
		f.Why = append(f.Why, fmt.Sprintf("config %s: the next start of %s reads it", f.Config, cfg.Unit))
	}
	return f, err
}

// same tells whether two names are of one file, such as where /bin is a link to /usr/bin.
func same(a, b string) bool {
	if a == b {
		return true
	}
	fa, err := os.Stat(a)
	fb, berr := os.Stat(b)
	return err == nil && berr == nil && os.SameFile(fa, fb)
}

// containerdConfig is what the settings or the unit's command line say; where the unit is another program than containerd,
// it is the profile's.
func containerdConfig(cfg Config, f profile.Found, argv []string) string {
	if cfg.ContainerdConfig != "" || len(argv) == 0 || filepath.Base(argv[0]) != "containerd" || f.Fixed {
		return cmp.Or(cfg.ContainerdConfig, f.Config)
	}
	return cmp.Or(profile.ConfigArg(argv), f.Config)
}

func containerdBinary(cfg Config, argv []string) string {
	if cfg.ContainerdBinary != "" || len(argv) == 0 || !filepath.IsAbs(argv[0]) || filepath.Base(argv[0]) != "containerd" {
		return cfg.ContainerdBinary
	}
	return argv[0]
}

// found is find, for the daemon to show.
func (c *core) found(ctx context.Context) *profile.Found {
	f, err := find(c.cfg)
	if err != nil {
		log.G(ctx).WithError(err).Warn("the runtime was not found")
		return nil
	}
	if f.PID == 0 && f.Unit != c.cfg.Unit {
		f.Unit = c.cfg.Unit
		f.Why = append(f.Why, "unit "+f.Unit+": that of the process that was behind the socket before")
	}
	if f.PID != 0 {
		if f, err = next(ctx, c.cfg, f); err != nil {
			log.G(ctx).WithError(err).Warn("what the runtime's next start runs is not known")
		}
	}
	if _, err := os.Stat(f.Program); f.Program != "" && err != nil {
		f.Why = append(f.Why, "the program is no longer there: "+f.Program)
	}
	return &f
}
