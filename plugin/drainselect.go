package main

import (
	"strings"

	"github.com/urfave/cli/v3"

	"quiesce/plugin/internal/drain"
)

func selectionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "all", Usage: "all pods of the node"},
		&cli.StringFlag{Name: "handler", Usage: "pods of the runtime handler `NAME`; \"\" is the default one"},
		&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "pods that match [NAMESPACE/]`LABELS`"},
		&cli.StringFlag{Name: "pod", Usage: "the pod `NAMESPACE/NAME`; the name may be a glob"},
	}
}

// selection reads which pods are meant. Exactly one flag says so.
func selection(c *cli.Command, def bool) (drain.Selection, error) {
	var s drain.Selection
	n := 0
	if c.Bool("all") {
		s.All = true
		n++
	}
	if c.IsSet("handler") {
		h := c.String("handler")
		s.Handler = &h
		n++
	}
	if c.IsSet("selector") {
		sel, err := drain.ParseSelector(c.String("selector"))
		if err != nil {
			return s, refuse("%w", err)
		}
		s.Selector = &sel
		n++
	}
	if c.IsSet("pod") {
		if s.Pod = c.String("pod"); strings.Count(s.Pod, "/") != 1 {
			return s, refuse("--pod %q must be NAMESPACE/NAME", s.Pod)
		}
		n++
	}
	if n == 0 && def {
		return drain.Selection{All: true}, nil
	}
	if n != 1 {
		return s, refuse("%s: say which pods: one of --all, --handler, --selector, --pod", c.Name)
	}
	return s, nil
}
