package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// healthy is a node on which everything is right.
func healthy() Facts {
	const rt = "containerd.service"
	unit := func(name string, want ...string) Unit {
		return Unit{Name: name, Load: "loaded", Active: "active", File: "enabled", Want: want}
	}
	drain, boot := unit(DrainUnit, rt), unit(BootUnit, rt)
	drain.After, drain.PartOf, drain.Before = []string{rt}, []string{rt}, []string{"kubelet.service"}
	boot.Before = []string{rt}
	return Facts{
		Runtime: rt, Kubelet: "kubelet.service", Version: "v2.4.2", Connected: true, ScopeFile: true, Logind: true, Delay: 5 * time.Second,
		Units: map[string]Unit{
			DaemonUnit: unit(DaemonUnit, "multi-user.target"), DrainUnit: drain, ApplyUnit: unit(ApplyUnit), BootUnit: boot,
			rt: unit(rt), "kubelet.service": unit("kubelet.service"),
		},
		Scopes: []Unit{{Name: "cri-containerd-1.scope", Before: []string{DrainUnit}}},
		Stage:  []Room{{Path: "/var/lib/quiesce/inbox", Mode: 0o700, Want: 0o700}},
	}
}

func TestAHealthyNodeIsClean(t *testing.T) {
	all := Examine(healthy())
	if w := Worst(all); w != Note {
		t.Errorf("worst: %s: %+v", w, all)
	}
	for _, c := range checks() {
		if !slices.ContainsFunc(all, func(f Finding) bool { return f.Check == c.name && (f.Severity == OK || f.Severity == Note) }) {
			t.Errorf("%s is not said to be right", c.name)
		}
	}
}

// fault is what goes wrong, and what is found of it.
type fault struct {
	harm  func(f *Facts)
	check string
	want  Severity
}

func faults() map[string]fault {
	broken := errors.New("broken")
	off := true
	change := func(name string, f func(u *Unit)) func(*Facts) {
		return func(x *Facts) {
			u := x.Units[name]
			f(&u)
			x.Units[name] = u
		}
	}
	return map[string]fault{
		"settings":               {func(f *Facts) { f.Settings = broken }, "settings", Problem},
		"daemon off":             {change(DaemonUnit, func(u *Unit) { u.Active = "failed" }), "daemon", Problem},
		"daemon mute":            {func(f *Facts) { f.Daemon = broken }, "daemon", Problem},
		"CRI away":               {func(f *Facts) { f.RuntimeError, f.Version = broken, "" }, "containerd", Problem},
		"config broken":          {func(f *Facts) { f.RuntimeConfig = broken }, "containerd", Problem},
		"NRI off":                {func(f *Facts) { f.NRI.Disabled = &off }, "nri", Problem},
		"NRI off by default":     {func(f *Facts) { f.Version = "1.7.35" }, "nri", Problem},
		"NRI deaf":               {func(f *Facts) { f.NRI.SocketError = broken }, "nri", Problem},
		"not registered":         {func(f *Facts) { f.Connected = false }, "nri", Problem},
		"short timeout":          {func(f *Facts) { f.NRI.Request = 100 * time.Millisecond }, "nri timeouts", Warning},
		"deadlock":               {func(f *Facts) { f.Version = "1.7.15" }, "version", Problem},
		"end of life":            {func(f *Facts) { f.Version = "2.1.9" }, "version", Warning},
		"too old":                {func(f *Facts) { f.Version = "1.6.30" }, "version", Problem},
		"drop-in version":        {func(f *Facts) { f.Version = "2.3.4" }, "version", Note},
		"no systemd":             {func(f *Facts) { f.UnitError = broken }, "units", Problem},
		"no drain unit":          {change(DrainUnit, func(u *Unit) { u.Load = "not-found" }), "units", Problem},
		"drain unit off":         {change(DrainUnit, func(u *Unit) { u.Active = "inactive" }), "units", Problem},
		"disabled":               {change(BootUnit, func(u *Unit) { u.Want = nil }), "units", Problem},
		"stale":                  {change(DaemonUnit, func(u *Unit) { u.Stale = true }), "units", Warning},
		"not after the runtime":  {change(DrainUnit, func(u *Unit) { u.After = nil }), "unit order", Problem},
		"not part of it":         {change(DrainUnit, func(u *Unit) { u.PartOf = nil }), "unit order", Problem},
		"not before the kubelet": {change(DrainUnit, func(u *Unit) { u.Before = nil }), "unit order", Warning},
		"no drop-in":             {func(f *Facts) { f.ScopeFile = false }, "scopes", Problem},
		"drop-in not in effect":  {func(f *Facts) { f.Scopes = append(f.Scopes, Unit{Name: "x"}) }, "scopes", Problem},
		"no delay":               {func(f *Facts) { f.Delay = 0 }, "logind", Warning},
		"short delay":            {func(f *Facts) { f.Deadline = time.Hour }, "logind", Note},
		"no logind":              {func(f *Facts) { f.DelayError = broken }, "logind", Warning},
		"kubelet's shutdown":     {func(f *Facts) { f.KubeletGrace = time.Minute }, "kubelet shutdown", Warning},
		"kubelet delays":         {func(f *Facts) { f.Delayers = []string{"kubelet"} }, "kubelet shutdown", Warning},
		"no stage":               {func(f *Facts) { f.StageError = broken }, "stage", Problem},
		"open inbox":             {func(f *Facts) { f.Stage[0].Mode = 0o770 }, "stage", Problem},
		"closed results":         {func(f *Facts) { f.Stage[0].Want = 0o755 }, "stage", Warning},
		"owner":                  {func(f *Facts) { f.Stage[0].UID = 1000 }, "stage", Problem},
		"interrupted":            {func(f *Facts) { f.Interrupted = true }, "apply", Problem},
		"frozen":                 {func(f *Facts) { f.Frozen = true }, "apply", Problem},
		"stuck":                  {func(f *Facts) { f.Stuck = []string{"a/b"} }, "installers", Warning},
		"drained":                {func(f *Facts) { f.Draining = "x" }, "drain", Warning},
		"needrestart":            {func(f *Facts) { f.Restarters = []string{"x"} }, "package manager", Warning},
	}
}

// TestEachFaultIsFound: fault → check and severity; every finding that is bad has a remedy.
func TestEachFaultIsFound(t *testing.T) {
	for name, tt := range faults() {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			tt.harm(&f)
			all := Examine(f)
			if !slices.ContainsFunc(all, func(x Finding) bool { return x.Check == tt.check && x.Severity == tt.want }) {
				t.Errorf("no %s of %s: %+v", tt.want, tt.check, all)
			}
			if slices.ContainsFunc(all, func(x Finding) bool { return x.Check == tt.check && x.Severity == OK }) {
				t.Errorf("%s is said to be right: %+v", tt.check, all)
			}
			for _, x := range all {
				if (x.Severity == Problem || x.Severity == Warning) && x.Remedy == "" {
					t.Errorf("no remedy: %+v", x)
				}
			}
			var out strings.Builder
			if err := Print(&out, all); err != nil || !strings.Contains(out.String(), strings.ToUpper(string(tt.want))) {
				t.Errorf("prints %v:\n%s", err, out.String())
			}
		})
	}
}
