package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"quiesce/installer/internal/env"
	"quiesce/installer/internal/pod"
	"quiesce/installer/internal/rcm"
	"quiesce/installer/internal/refusal"
	"quiesce/installer/internal/results"
	"quiesce/manifests/profile"
	"quiesce/plugin/stage"
)

func statusVerb() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "say what became of what was staged, newest last",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "wait", Usage: "wait until it is live, removed or rejected; the exit code says which", Sources: env.Vars("QUIESCE_WAIT")},
			&cli.StringSliceFlag{Name: "handler", Aliases: []string{"runtime", "r"}, Usage: "only what names the handler `NAME`", Sources: env.Vars("QUIESCE_HANDLER")},
			&cli.StringFlag{Name: "entry", Usage: "only the entry `ID`", Sources: env.Vars("QUIESCE_ENTRY")},
			&cli.DurationFlag{Name: "timeout", Usage: "wait no longer than `D` (default: no limit)", Sources: env.Vars("QUIESCE_TIMEOUT")},
			&cli.StringFlag{Name: "results", Usage: "the `DIR` with the results", Value: stage.DefaultDir + "/results", Sources: env.Vars("QUIESCE_RESULTS")},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT`: table or json", Value: "table"},
			inboxFlag(),
		}, rcm.Flags()...),
		Action: status,
	}
}

func status(ctx context.Context, c *cli.Command) error {
	if err := noArgs(c); err != nil {
		return err
	}
	if f := c.String("output"); f != "table" && f != "json" {
		return refusal.New("status: --output %q: must be table or json", f)
	}
	src := results.Source{Dir: c.String("results"), Inbox: rcm.Inbox(c.String("inbox"), c.String("host-root"))}
	var waited error
	if c.Bool("wait") {
		if err := refuseSelf(src.Inbox); err != nil {
			return err
		}
		waited = wait(ctx, c, src)
	}
	rs, err := src.Read(ctx)
	if err != nil {
		return err
	}
	if err := show(c.Root().Writer, c.String("output"), results.Of(rs, c.StringSlice("handler"), c.String("entry"))); err != nil {
		return err
	}
	if c.String("output") == "table" {
		showNode(c.Root().Writer, c.String("results"))
	}
	return waited
}

// showNode tells what the daemon leaves for readers; before it has, there is nothing to tell.
func showNode(w io.Writer, dir string) {
	var n struct {
		profile.Found
		Gate stage.GateState
	}
	if stage.Node(dir, &n) != nil {
		return
	}
	if n.Gate.Phase != "" {
		fmt.Fprintf(w, "\nGATE %s since %s\n", n.Gate.Phase, n.Gate.Since.UTC().Format(time.RFC3339))
	}
	for _, b := range n.Gate.Blockers {
		fmt.Fprintln(w, "  "+b)
	}
	fmt.Fprintln(w, "\nRUNTIME")
	for _, why := range n.Why {
		fmt.Fprintln(w, "  "+why)
	}
}

// refuseSelf refuses to wait in an installer pod: nothing is applied while one is in flight, and it is one.
func refuseSelf(inbox string) error {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	defer mounts.Close()
	why := pod.Inside(os.Getenv, mounts, inbox)
	if why == "" || !pod.Writable(inbox) {
		return nil
	}
	return refusal.New("status --wait would wait for itself: this is a pod (%s) and its inbox %s is writable, so it counts as an installer "+
		"in flight, and nothing is applied before it has ended. Let it end, and wait in a second pod that mounts only %s/results, read-only",
		why, inbox, stage.DefaultDir)
}

func wait(ctx context.Context, c *cli.Command, src results.Source) error {
	if d := c.Duration("timeout"); d > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("timed out after %s", d))
		defer cancel()
		ctx = limited
	}
	var ts []results.Target
	for _, h := range c.StringSlice("handler") {
		ts = append(ts, results.Target{Handler: h})
	}
	if id := c.String("entry"); id != "" {
		ts = append(ts, results.Target{Entry: id})
	}
	return results.Wait(ctx, src.Read, ts, func(s string) { fmt.Fprintln(c.Root().ErrWriter, s) })
}

func show(w io.Writer, format string, rs []stage.Result) error {
	if format == "json" {
		if rs == nil {
			rs = []stage.Result{}
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(rs)
	}
	if len(rs) == 0 {
		_, err := fmt.Fprintln(w, "nothing staged")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HANDLER\tOP\tPHASE\tSINCE\tENTRY\tREASON")
	for _, r := range rs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", strings.Join(r.Handlers, ","), r.Op, r.Phase, r.Updated.UTC().Format(time.RFC3339), r.ID, r.Reason)
	}
	return t.Flush()
}
