package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"

	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/drain"
	"quiesce/plugin/stage"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name:  "plan",
		Usage: "show in which order a drain would stop pods, and why",
		Flags: selectionFlags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			cfg, err := readConfig(c.String("config"))
			if err != nil {
				return err
			}
			sel, err := selection(c, true)
			if err != nil {
				return err
			}
			return withDrainer(cfg, func(d *drainer) error {
				snap, err := d.rt.Snapshot(ctx)
				if err != nil {
					return err
				}
				plan, problems := drain.New(snap, d.policy, sel)
				if err := plan.Print(c.Root().Writer); err != nil {
					return err
				}
				if problems != nil {
					return refuse("plan: %w", problems)
				}
				return nil
			})
		},
	}
}

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name:  "resume",
		Usage: "end a drain: the kubelet may start the pods again",
		Action: func(ctx context.Context, c *cli.Command) error {
			cfg, err := readConfig(c.String("config"))
			if err != nil {
				return err
			}
			return withDrainer(cfg, func(d *drainer) error {
				st, err := d.end(ctx)
				if err != nil {
					return err
				}
				if st == nil {
					fmt.Fprintln(c.Root().Writer, "no drain is on")
					return nil
				}
				fmt.Fprintf(c.Root().Writer, "the drain of %s is over\n", st.Selection)
				return nil
			})
		},
	}
}

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:  "report",
		Usage: "show what the last drain did to every container, hard kills first",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: table or json"},
			&cli.StringFlag{Name: "svg", Usage: "write a timeline to `FILE`"},
		},
		Action: func(_ context.Context, c *cli.Command) error {
			format := c.String("output")
			if format != "table" && format != "json" {
				return refuse("report: --output %q must be table or json", format)
			}
			cfg, err := readConfig(c.String("config"))
			if err != nil {
				return err
			}
			store, err := drain.OpenStore(cfg.StageDir)
			if err != nil {
				return err
			}
			defer store.Close()
			st, err := store.Load()
			if err != nil {
				return err
			}
			if st == nil {
				return refuse("report: there was no drain yet")
			}
			if file := c.String("svg"); file != "" {
				return writeSVG(st, file)
			}
			if format == "json" {
				e := json.NewEncoder(c.Root().Writer)
				e.SetIndent("", "  ")
				return e.Encode(st)
			}
			return st.Print(c.Root().Writer, time.Now())
		},
	}
}

func writeSVG(st *drain.State, file string) error {
	var b bytes.Buffer
	if err := st.SVG(&b, time.Now()); err != nil {
		return err
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	tree, err := stage.OpenTree(filepath.Dir(abs))
	if err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	defer tree.Close()
	return tree.WriteBytes(filepath.Base(abs), b.Bytes(), stage.Attr{Mode: 0o644, UID: os.Geteuid(), GID: os.Getegid()})
}

// progress draws one line on a terminal until it is stopped; elsewhere the log tells.
func progress(out io.Writer) func(context.Context, *drain.Engine) func() {
	return func(ctx context.Context, e *drain.Engine) func() {
		f, ok := out.(*os.File)
		if !ok || !terminal(f) {
			return func() {}
		}
		log.G(ctx).Logger.SetLevel(logrus.ErrorLevel) // the line says it
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					if st := e.State(); st != nil {
						fmt.Fprintf(f, "\r\x1b[K%s", progressLine(st, time.Now()))
					}
				case <-stop:
					fmt.Fprint(f, "\r\x1b[K")
					return
				}
			}
		}()
		return func() {
			close(stop)
			<-done
		}
	}
}

// progressLine is a bar, the tier, and who is still running.
func progressLine(st *drain.State, now time.Time) string {
	const width = 24
	done, all := 0, 0
	var who []string
	for _, p := range st.Pods {
		for _, c := range p.Containers {
			all++
			if c.Outcome != "" {
				done++
			} else if !c.Signal.IsZero() || !c.HookBegan.IsZero() {
				who = append(who, p.String())
			}
		}
	}
	full := width
	if all > 0 {
		full = width * done / all
	}
	tier := ""
	if st.Current < len(st.Steps) {
		tier = st.Steps[st.Current].Name
	}
	more := ""
	if len(who) > 2 {
		who, more = who[:2], fmt.Sprintf(" and %d more", len(who)-2)
	}
	return plain(fmt.Sprintf("[%s%s] %d/%d  %s  %s  %s%s", strings.Repeat("#", full), strings.Repeat(".", width-full), done, all,
		now.Sub(st.Began).Round(time.Second), tier, strings.Join(who, " "), more))
}

// summarize tells the result.
func summarize(w io.Writer, st *drain.State) {
	hard, all := 0, 0
	for _, l := range st.Lines() {
		all++
		if l.Container.Outcome.Hard() {
			hard++
			fmt.Fprintln(w, plain(fmt.Sprintf("%s: %s of %s after %s", l.Container.Outcome, l.Container.Name, l.Pod, l.Pod.Given)))
		}
	}
	fmt.Fprintf(w, "%s: %d pods, %d containers in %s, %d killed hard; see quiesce report\n",
		st.Phase, len(st.Pods), all, st.Took(time.Now()).Round(10*time.Millisecond), hard)
}

// drainRow is the drain in quiesce status.
func drainRow(d control.Drain) []string {
	if d.Phase == "" {
		return nil
	}
	fence := "no fence"
	if d.Fence {
		fence = fmt.Sprintf("fence up, %d containers refused", d.Refused)
	}
	return []string{"DRAIN", string(d.Phase), d.What, d.Tier, fence, d.Error}
}
