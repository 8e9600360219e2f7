package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"quiesce/manifests/profile"
	"quiesce/plugin/internal/apply"
	"quiesce/plugin/internal/control"
	"quiesce/plugin/internal/gate"
	"quiesce/plugin/stage"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quiesce": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(e *testscript.Env) error {
		return stage.Create(filepath.Join(e.WorkDir, "stage"))
	}})
}

func ticketFor(id string, at time.Time) apply.Ticket {
	return apply.Ticket{Ready: []string{id}, Issued: at}
}

// TestTicket: the unit's call needs the gate's word, fresh, and uses it up.
func TestTicket(t *testing.T) {
	cfg, err := fallback()
	if err != nil {
		t.Fatal(err)
	}
	cfg.RunDir = t.TempDir()
	if _, err := takeTicket(cfg); err == nil || !strings.Contains(err.Error(), "no ticket") {
		t.Errorf("without one: %v", err)
	}
	ticket := ticketFor("a", time.Now())
	if err := writeTicket(cfg, ticket); err != nil {
		t.Fatal(err)
	}
	if got, err := takeTicket(cfg); err != nil || len(got.Ready) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := takeTicket(cfg); err == nil {
		t.Error("it was good twice")
	}
	for _, age := range []time.Duration{2 * ticketAge, -2 * ticketAge} {
		if err := writeTicket(cfg, ticketFor("a", time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
		if _, err := takeTicket(cfg); err == nil || !strings.Contains(err.Error(), "old") {
			t.Errorf("of age %v: %v", age, err)
		}
	}
}

func TestContainerdIsFoundByItsCommandLine(t *testing.T) {
	for _, tc := range []struct {
		argv           []string
		config, binary string
	}{
		{[]string{"/usr/bin/containerd"}, "/etc/containerd/config.toml", "/usr/bin/containerd"},
		{[]string{"/usr/bin/containerd", "--config", "/x/y.toml"}, "/x/y.toml", "/usr/bin/containerd"},
		{[]string{"/usr/bin/containerd", "-c=/x/y.toml"}, "/x/y.toml", "/usr/bin/containerd"},
		{[]string{"containerd", "--config=/x.toml"}, "/x.toml", ""},
		{nil, "/etc/containerd/config.toml", ""},
		{[]string{"/usr/local/bin/k3s", "server", "--config", "/etc/rancher/k3s/config.yaml"}, "/etc/containerd/config.toml", ""},
	} {
		if got := containerdConfig(Config{}, profile.Found{Config: "/etc/containerd/config.toml"}, tc.argv); got != tc.config {
			t.Errorf("%v: config %s, want %s", tc.argv, got, tc.config)
		}
		if got := containerdBinary(Config{}, tc.argv); got != tc.binary {
			t.Errorf("%v: binary %s, want %s", tc.argv, got, tc.binary)
		}
	}
}

func TestStatusTableHasNoControlCharacters(t *testing.T) {
	s := control.Status{
		Gate:       control.Gate{Phase: gate.Collecting, Blockers: []gate.Blocker{{Reason: gate.InstallersInFlight, Who: []string{"x\x1b[2J/y"}}}},
		Installers: []control.Installer{{Pod: "a/b", Why: "label\r\n", Stuck: true}},
		Pending:    []stage.Result{{ID: "i", Op: stage.Install, Handlers: []string{"spin"}, Reason: "quiet\x07 period"}},
	}
	var out bytes.Buffer
	if err := printStatus(&out, s, time.Now()); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\r\x07") || !strings.Contains(out.String(), "STUCK") {
		t.Errorf("the table is %q", out.String())
	}
}

// TestConfigFileListsEverySetting keeps the file that host writes and the settings that exist together.
func TestConfigFileListsEverySetting(t *testing.T) {
	b, err := os.ReadFile("../manifests/config.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range topSettings() {
		if key == "stageDir" || key == "shimDir" || key == "runDir" || key == "drain" {
			continue // the units and the installer count on the default paths; drain is a table
		}
		if !strings.Contains(string(b), "#"+key+" = ") {
			t.Errorf("manifests/config.toml lacks %s", key)
		}
	}
}
