// Command try is for tests on real nodes: it freezes, restarts containerd and thaws, as apply does, and can be made to
// die between any two steps. It is part of no release.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/freeze"
	"quiesce/plugin/internal/systemd"
)

// Outcome is what is printed.
type Outcome struct {
	Protected   int       `json:"protected"`
	Unprotected []string  `json:"unprotected"`
	Early       bool      `json:"early"`
	Frozen      time.Time `json:"frozen"` // after Freeze
	Thawed      time.Time `json:"thawed"` // before Thaw
	LongestMS   float64   `json:"longest_ms"`
	FreezeMS    float64   `json:"freeze_ms"` // how long Freeze took
}

type options struct {
	dir, program, killAt, hang string
	limit                      time.Duration
	restart                    bool
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "/var/lib/quiesce/store", "where the list is kept")
	flag.StringVar(&o.program, "program", "/opt/quiesce/bin/quiesce", "what is run as the guard")
	flag.StringVar(&o.killAt, "kill-at", "", "die by SIGKILL at this step")
	flag.StringVar(&o.hang, "hang", "", "print the step and hang for good there")
	flag.DurationVar(&o.limit, "limit", 10*time.Second, "how long anything may be frozen")
	flag.BoolVar(&o.restart, "restart", true, "restart containerd meanwhile")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM) //nolint:forbidigo // a main
	defer stop()
	out, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "try:", err)
		if errors.Is(err, freeze.ErrPutOff) {
			os.Exit(3) //nolint:forbidigo // a main
		}
		os.Exit(1) //nolint:forbidigo // a main
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

func run(ctx context.Context, o options) (out Outcome, err error) {
	client, err := cri.New("/run/containerd/containerd.sock")
	if err != nil {
		return out, err
	}
	defer func() { _ = client.Close() }()
	f := freezer(o, client)
	began := time.Now()
	r, err := f.Freeze(ctx)
	if err != nil {
		return out, err
	}
	out.FreezeMS = millis(time.Since(began))
	out.Frozen, out.Protected, out.Unprotected = time.Now(), r.Protected, r.Unprotected
	if o.restart {
		err = restart(ctx, o, client)
	}
	out.Thawed = time.Now()
	r, terr := f.Thaw(ctx)
	out.Early, out.LongestMS = r.Early, millis(r.Longest)
	return out, errors.Join(err, terr)
}

func restart(ctx context.Context, o options, client *cri.Client) error {
	o.step("restarting")
	if _, _, err := (systemd.Unit{Name: "containerd.service"}).Restart(ctx); err != nil {
		return err
	}
	o.step("restarted")
	for {
		client.Reconnect()
		if _, err := client.Runtime(ctx); err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// step is a place to die or to hang.
func (o options) step(name string) {
	if name == o.killAt {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	if name == o.hang {
		fmt.Println(name)
		select {}
	}
}

func freezer(o options, client *cri.Client) *freeze.Freezer {
	return &freeze.Freezer{
		Dir: o.dir, Runtime: client, Rules: freeze.DefaultRules(), Limit: o.limit, Step: o.step,
		Guard: func(ctx context.Context, window string, owner freeze.Process, limit time.Duration) (func(context.Context) error, error) {
			clean := []string{o.program, "thaw", "--dir", o.dir, "--window", window}
			argv := append(append([]string{}, clean...), "--guard", "--owner", strconv.Itoa(owner.PID), "--owner-start", owner.Start, "--limit", limit.String())
			return systemd.StartGuard(ctx, "quiesce-thaw-"+window+".service", argv, clean, 3*limit)
		},
		Inhibit: func(ctx context.Context) (func() error, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return systemd.InhibitShutdown(ctx, "a test")
		},
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
