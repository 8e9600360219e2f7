package doctor

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Severity of a finding.
type Severity string

// Problem: a promise is broken. Warning: one may be. Unknown: it could not be found out, and another finding says why.
// Note: good to know. OK: looked at, and right.
const (
	OK      Severity = "ok"
	Note    Severity = "note"
	Unknown Severity = "unknown"
	Warning Severity = "warning"
	Problem Severity = "problem"
)

// Finding is one thing that was found out.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	What     string   `json:"what"`
	Remedy   string   `json:"remedy,omitempty"`
}

// found makes a finding of a check.
type found func(s Severity, remedy, format string, a ...any)

// check is one question. fine is said when it finds nothing.
type check struct {
	name, fine string
	look       func(f Facts, found found)
}

func checks() []check {
	return []check{
		{"settings", "the configuration is read", settings},
		{"daemon", "quiesce.service runs and answers", daemon},
		{"containerd", "CRI answers", runtimeAnswers},
		{"nri", "NRI is on, and the daemon is registered", nriOn},
		{"nri timeouts", "containerd waits long enough for plugins", nriTimeouts},
		{"version", "no known hazard in this version of containerd", versions},
		{"units", "the units are as they were installed", units},
		{"unit order", "pods are stopped before their runtime and after their kubelet", order},
		{"scopes", "systemd stops no container before the drain has", scopes},
		{"logind", "a shutdown is noticed before anything stops", logind},
		{"kubelet shutdown", "the kubelet leaves shutdowns alone", kubeletShutdown},
		{"stage", "the stage has its rooms, owners and modes", stageRooms},
		{"apply", "no change is half done", applied},
		{"installers", "no installer is stuck", installers},
		{"drain", "no fence is up", drained},
		{"package manager", "nothing restarts containerd behind the gate", restarters},
		{"stops", "stops in flight are seen", stops},
	}
}

// Examine runs all checks.
func Examine(f Facts) (all []Finding) {
	for _, c := range checks() {
		before := len(all)
		c.look(f, func(s Severity, remedy, format string, a ...any) {
			all = append(all, Finding{c.name, s, strings.ReplaceAll(fmt.Sprintf(format, a...), "\n", "; "), remedy})
		})
		if len(all) == before {
			all = append(all, Finding{Check: c.name, Severity: OK, What: c.fine})
		}
	}
	return all
}

// Worst is the worst severity.
func Worst(all []Finding) Severity {
	rank := map[Severity]int{OK: 0, Note: 1, Unknown: 1, Warning: 2, Problem: 3}
	worst := OK
	for _, f := range all {
		if rank[f.Severity] > rank[worst] {
			worst = f.Severity
		}
	}
	return worst
}

// Print writes a table: the worst first, each with its remedy.
func Print(out io.Writer, all []Finding) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, s := range []Severity{Problem, Warning, Unknown, Note, OK} {
		for _, f := range all {
			if f.Severity != s {
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", strings.ToUpper(string(s)), f.Check, f.What)
			if f.Remedy != "" {
				fmt.Fprintf(w, "\t\t→ %s\n", f.Remedy)
			}
		}
	}
	return w.Flush()
}
