package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"quiesce/plugin/stage"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quiesce-installer": main})
}

func TestScripts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("only root can run this test: it writes files owned by root")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mkstage": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(stage.Create(ts.MkAbs(args[0])))
			},
			"daemon": daemon,
			"count":  count,
			"serve":  serve,
		},
	})
}

// daemon plays the daemon and apply on the stage args[0]: "hint" publishes the hint only, "take" takes what is staged, "settle" makes it live.
func daemon(ts *testscript.TestScript, _ bool, args []string) {
	s, err := stage.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer s.Close()
	pending, err := s.Pending()
	ts.Check(err)
	ts.Check(s.PublishLive(pending))
	if args[1] == "hint" {
		return
	}
	staged, err := s.Staged()
	ts.Check(err)
	for _, e := range staged {
		_, err = s.Take(context.Background(), e)
		ts.Check(err)
	}
	pending, err = s.Acting()
	ts.Check(err)
	if args[1] == "take" {
		return
	}
	for _, e := range pending {
		ts.Check(s.Settle(e))
		phase := stage.IsLive
		if e.Op == stage.Remove {
			phase = stage.Removed
		}
		ts.Check(s.Publish(stage.NewResult(e, phase, "")))
	}
	ts.Check(s.PublishLive(nil))
}

// count checks how many entries the directory args[0] has.
func count(ts *testscript.TestScript, _ bool, args []string) {
	des, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := string(rune('0' + len(des))); got != args[1] {
		ts.Fatalf("%s has %s entries, want %s", filepath.Base(args[0]), got, args[1])
	}
}
