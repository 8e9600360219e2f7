package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func settings(f Facts, found found) {
	if f.Settings != nil {
		found(Problem, "correct the line; quiesce does not start with it", "%v", f.Settings)
	}
}

func daemon(f Facts, found found) {
	if u := f.Units[DaemonUnit]; f.UnitError == nil && u.Active != "active" {
		found(Problem, "systemctl start "+DaemonUnit+"; journalctl -u "+DaemonUnit, "%s is %s: nothing is applied, and pods that a drain stopped are not kept stopped", DaemonUnit, or(u.Active, "not there"))
	} else if f.Daemon != nil {
		found(Problem, "systemctl restart "+DaemonUnit, "%v", f.Daemon)
	}
}

func runtimeAnswers(f Facts, found found) {
	if f.RuntimeError != nil {
		found(Problem, "journalctl -u "+f.Runtime, "%v", f.RuntimeError)
	}
	if f.RuntimeConfig != nil {
		found(Problem, "correct the file; containerd does not start again with it", "containerd's configuration: %v", f.RuntimeConfig)
	}
}

func nriOn(f Facts, found found) {
	v, known := parse(f.Version)
	off := known && v.below(2, 0, 0) // the default, before 2.0
	if f.NRI.Disabled != nil {
		off = *f.NRI.Disabled
	}
	switch {
	case off:
		found(Problem, "merge manifests/containerd/nri-1.7.toml, or nri-2.toml, into containerd's configuration and restart it once, at a quiet time",
			"NRI is off in containerd: pods are seen late, and a restart cannot keep new containers out")
	case f.NRI.SocketError != nil:
		found(Problem, "is nriSocket right? journalctl -u "+f.Runtime, "nobody listens on %s: %v", f.NRI.Socket, f.NRI.SocketError)
	case f.Daemon == nil && !f.Connected:
		found(Problem, "journalctl -u "+DaemonUnit, "the daemon is not registered with NRI")
	}
}

// What containerd does unless it is told otherwise (containerd internal/nri/config.go), and what is too little.
const (
	defaultRequest = 2 * time.Second
	leastRequest   = time.Second
	leastRegister  = 2 * time.Second
)

func nriTimeouts(f Facts, found found) {
	if f.RuntimeConfig != nil {
		found(Unknown, "", "not known without containerd's configuration")
		return
	}
	if t := f.NRI.Request; t > 0 && t < leastRequest {
		found(Warning, "plugin_request_timeout = \"5s\" in [plugins.'io.containerd.nri.v1.nri']", "containerd drops a plugin that takes %v: on a busy node, this one", t)
	} else if t == 0 || t == defaultRequest {
		found(Note, "", "containerd drops a plugin that takes %v; on nodes with very many pods 5s is better", defaultRequest)
	}
	if t := f.NRI.Registration; t > 0 && t < leastRegister {
		found(Warning, "plugin_registration_timeout = \"5s\" in [plugins.'io.containerd.nri.v1.nri']", "containerd waits %v for a plugin to register", t)
	}
}

// hazard is a fault of some versions of containerd.
type hazard struct {
	from, to version // to is the first without it; zero: there is none yet
	severity Severity
	issue    string
	what     string
	remedy   string
}

// hazards are from containerd's issues and release branches.
func hazards() []hazard {
	const update = "update containerd"
	return []hazard{
		{version{1, 7, 0}, version{1, 7, 16}, Problem, "containerd#10085", "registering a plugin can deadlock CRI", update},
		{version{1, 7, 0}, version{1, 7, 26}, Warning, "nri#63", "pods made while a plugin registers are missed; lists find them later", update},
		{version{2, 0, 0}, version{2, 0, 4}, Warning, "nri#63", "pods made while a plugin registers are missed; lists find them later", update},
		{version{2, 0, 0}, version{2, 2, 0}, Warning, "end of life", "this line gets no more fixes", update},
		{version{2, 3, 0}, version{2, 3, 5}, Note, "containerd#13939", "a drop-in whose version is higher than the root file's keeps containerd from starting; quiesce writes the root's version, other installers may not", update},
		{version{1, 7, 0}, version{2, 0, 0}, Note, "containerd#5837", "a drop-in replaces the whole CRI table; quiesce edits the file that has it, other installers may not", ""},
		{version{1, 7, 0}, version{}, Note, "containerd#14083", "registering a plugin while a container is being stopped freezes CRI until that ends; do not restart quiesce during long stops", ""},
		{version{1, 7, 0}, version{}, Note, "containerd#12600", "a restart while a container is being stopped can leave its pod Terminating; the gate waits for stops it can see", ""},
	}
}

func versions(f Facts, found found) {
	v, ok := parse(f.Version)
	if !ok {
		found(Unknown, "", "containerd's version is not known: %q", f.Version)
		return
	}
	if v.below(1, 7, 0) {
		found(Problem, "update containerd", "containerd %s has no NRI that quiesce can use", f.Version)
	}
	for _, h := range hazards() {
		if !v.below(h.from[0], h.from[1], h.from[2]) && (h.to == version{} || v.below(h.to[0], h.to[1], h.to[2])) {
			found(h.severity, h.remedy, "%s (%s)", h.what, h.issue)
		}
	}
}

type version [3]int

func (v version) below(major, minor, patch int) bool {
	for i, n := range []int{major, minor, patch} {
		if v[i] != n {
			return v[i] < n
		}
	}
	return false
}

// parse reads 2.4.2, v2.4.2 and 1.7.35-k3s1.
func parse(s string) (v version, ok bool) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "-")
	s, _, _ = strings.Cut(s, "+")
	parts := strings.Split(s, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

func stops(f Facts, found found) {
	if f.Daemon != nil {
		found(Unknown, "", "not known without the daemon")
	}
	for _, n := range f.Notes {
		if strings.Contains(n, "stops are not observable") {
			found(Note, "", "%s", n)
		}
	}
}

func stageRooms(f Facts, found found) {
	if f.StageError != nil {
		found(Problem, again, "%v", f.StageError)
		return
	}
	for _, r := range f.Stage {
		switch {
		case r.Error != nil:
			found(Problem, again, "%v", r.Error)
		case r.UID != 0:
			found(Problem, "chown root: "+r.Path, "%s belongs to user %d, who is root on this node then", r.Path, r.UID)
		case r.Mode&^r.Want != 0:
			found(Problem, fmt.Sprintf("chmod %o %s", r.Want, r.Path), "%s has mode %o: more people may use it than may be root on this node", r.Path, r.Mode)
		case r.Mode != r.Want:
			found(Warning, fmt.Sprintf("chmod %o %s", r.Want, r.Path), "%s has mode %o, want %o", r.Path, r.Mode, r.Want)
		}
	}
}

func applied(f Facts, found found) {
	if f.Interrupted {
		found(Problem, "systemctl start "+DaemonUnit+", which puts back or finishes it", "an apply ended before it was done")
	}
	if f.StageError != nil {
		found(Unknown, "", "not known without the stage")
	}
	if f.Frozen {
		found(Problem, "quiesce thaw", "containers may still be frozen, and no apply is at work")
	}
	if f.Rejected > 0 {
		found(Note, "quiesce status", "%d changes were rejected; the reasons are kept", f.Rejected)
	}
}

func installers(f Facts, found found) {
	if f.RuntimeError != nil {
		found(Unknown, "", "not known without containerd")
	}
	for _, s := range f.Stuck {
		found(Warning, "end the pod, set maxDefer, or quiesce apply --now", "%s", s)
	}
}

func drained(f Facts, found found) {
	if f.Draining != "" {
		found(Warning, "quiesce resume, if it is not meant to be", "%s: new containers of drained pods are refused", f.Draining)
	}
}

func restarters(f Facts, found found) {
	for _, r := range f.Restarters {
		found(Warning, "$nrconf{override_rc}{qr(^("+strings.TrimSuffix(f.Runtime, ".service")+"|kubelet))} = 0; in a file of /etc/needrestart/conf.d", "%s", r)
	}
	if f.DuringUpgrade {
		found(Note, "", "drain.duringUpgrade is on: a package manager that stops containerd stops all pods first")
	}
}
