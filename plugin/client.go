package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"quiesce/plugin/internal/control"
)

func ask(f func(context.Context, *cli.Command, *control.Client) error) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		cfg, err := readConfig(c.String("config"))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return f(ctx, c, control.NewClient(cfg.controlSocket()))
	}
}

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show the gate, what keeps it closed, what is staged, and who uses which handler",
		Flags: []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: table or json"}},
		Action: ask(func(ctx context.Context, c *cli.Command, d *control.Client) error {
			format := c.String("output")
			if format != "table" && format != "json" {
				return refuse("status: --output %q must be table or json", format)
			}
			s, err := d.Status(ctx)
			if err != nil {
				return err
			}
			if format == "json" {
				e := json.NewEncoder(c.Root().Writer)
				e.SetIndent("", "  ")
				return e.Encode(s)
			}
			return printStatus(c.Root().Writer, s, time.Now())
		}),
	}
}

// printStatus is the table. What pods and entries say of themselves is printed without control characters.
func printStatus(out io.Writer, s control.Status, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(cols ...string) { fmt.Fprintln(w, plain(strings.Join(cols, "\t"))) }
	ago := func(t time.Time) string { return now.Sub(t).Round(time.Second).String() }
	row("GATE", string(s.Gate.Phase), "for "+ago(s.Gate.Since))
	for _, b := range s.Gate.Blockers {
		row("", "closed by "+b.String(), "for "+ago(b.Since))
	}
	row("RUNTIME", strings.TrimSpace(s.Runtime.Name+" "+s.Runtime.Version), s.Runtime.Unit, s.Runtime.Error)
	if s.Runtime.Found != nil {
		for _, why := range s.Runtime.Found.Why {
			row("", why)
		}
	}
	nri := "not connected"
	if s.NRI.Connected {
		nri = "connected for " + ago(s.NRI.Since)
	}
	row("NRI", nri, s.NRI.LastError)
	if cols := drainRow(s.Drain); cols != nil {
		row(cols...)
	}
	if !s.Restart.Began.IsZero() {
		row("LAST RESTART", ago(s.Restart.Began)+" ago", "took "+s.Restart.Took.Round(time.Millisecond).String(), s.Restart.Failed)
		f := s.Restart.Freeze
		row("", fmt.Sprintf("%d containers frozen for %v, %d not protected, %d exit codes lost", f.Containers, f.Longest.Round(time.Millisecond), len(f.Unprotected), len(s.Restart.Lost)))
	}
	for _, p := range s.Pending {
		row("STAGED", p.ID, string(p.Op)+" "+strings.Join(p.Handlers, ","), p.Reason)
	}
	for _, r := range s.Rejected {
		row("REJECTED", r.ID, string(r.Op)+" "+strings.Join(r.Handlers, ","), r.Reason)
	}
	for _, i := range s.Installers {
		stuck := ""
		if i.Stuck {
			stuck = "STUCK"
		}
		row("IN FLIGHT", i.Pod, i.Why, "for "+ago(i.Since), stuck)
	}
	for _, h := range s.Handlers {
		name := h.Name
		if name == "" {
			name = "(default)"
		}
		row("HANDLER", name, fmt.Sprintf("%d pods", len(h.Pods)), h.Entry)
	}
	for _, n := range s.Notes {
		row("NOTE", n)
	}
	return w.Flush()
}

// plain drops control characters but tabs.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (r < ' ' || (r >= 0x7f && r < 0xa0)) {
			return '\uFFFD'
		}
		return r
	}, s)
}

func holdCommand() *cli.Command {
	return &cli.Command{
		Name:      "hold",
		Usage:     "keep the gate closed until release, also over a restart of the daemon",
		ArgsUsage: "[REASON]",
		Action: ask(func(ctx context.Context, c *cli.Command, d *control.Client) error {
			who := "an operator"
			if u, err := user.Current(); err == nil {
				who = u.Username
			}
			if c.Args().Present() {
				who += ": " + strings.Join(c.Args().Slice(), " ")
			}
			return d.Hold(ctx, who)
		}),
	}
}

func releaseCommand() *cli.Command {
	return &cli.Command{
		Name:   "release",
		Usage:  "end a hold",
		Action: ask(func(ctx context.Context, _ *cli.Command, d *control.Client) error { return d.Release(ctx) }),
	}
}
