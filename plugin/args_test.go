package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestNonsenseIsRefused: no command takes a flag or an argument it does not know, or a configuration that is none; it says so
// in a sentence, with the exit code of a refusal.
func TestNonsenseIsRefused(t *testing.T) {
	var names []string
	for _, c := range app().Commands {
		names = append(names, c.Name)
	}
	for _, name := range append(names, "nothing", "\x1b[2J") {
		for what, args := range map[string][]string{
			"a flag":             {name, "--nonsense"},
			"a flag's value":     {name, "--nonsense=" + strings.Repeat("x", 100_000)},
			"an argument":        {name, "\n"},
			"no configuration":   {"--config", "/dev/null/x", name},
			"a directory":        {"--config", "/", name},
			"a flag of the root": {"--nonsense", name},
		} {
			if what == "an argument" && name == "hold" || name == "thaw" && strings.Contains(strings.Join(args, " "), "--config") {
				continue // hold takes a reason; thaw goes on with the default settings
			}
			t.Run(name+"/"+what, func(t *testing.T) {
				var out bytes.Buffer
				a := app()
				a.Writer, a.ErrWriter = &out, &out
				a.CommandNotFound = nil // it ends the process
				err := a.Run(t.Context(), append([]string{"quiesce"}, args...))
				if _, ok := errors.AsType[refusedError](err); !ok || len(err.Error()) > 200_000 {
					t.Errorf("got %.300v, want a refusal; it prints %.300s", err, out.String())
				}
			})
		}
	}
}
