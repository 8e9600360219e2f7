package doctor

import (
	"slices"
	"time"
)

// Names of quiesce's units.
const (
	DaemonUnit = "quiesce.service"
	DrainUnit  = "quiesce-drain.service"
	ApplyUnit  = "quiesce-apply.service"
	BootUnit   = "quiesce-apply-boot.service"
)

const (
	again  = "quiesce-installer host"
	reload = "systemctl daemon-reload"
)

func units(f Facts, found found) {
	if f.UnitError != nil {
		found(Problem, "is systemd at work here? systemctl is-system-running", "systemd does not answer: %v", f.UnitError)
		return
	}
	for _, name := range []string{DaemonUnit, DrainUnit, ApplyUnit, BootUnit} {
		u := f.Units[name]
		if u.Load != "loaded" {
			found(Problem, again, "%s is %s", name, or(u.Load, "not known"))
			continue
		}
		if u.Stale {
			found(Warning, reload, "%s is on disk otherwise than systemd knows it", name)
		}
		if len(u.Want) == 0 && name != ApplyUnit {
			found(Problem, again, "%s is not enabled: nothing starts it at boot", name)
		}
	}
	if f.Units[DrainUnit].Load == "loaded" && f.Units[DrainUnit].Active != "active" {
		found(Problem, "systemctl start "+DrainUnit, "%s is %s: a stop of the node's services would not stop pods first", DrainUnit, f.Units[DrainUnit].Active)
	}
}

func order(f Facts, found found) {
	d, b := f.Units[DrainUnit], f.Units[BootUnit]
	if f.UnitError != nil || d.Load != "loaded" {
		found(Unknown, "", "not known without the unit")
		return
	}
	const fix = again + " --unit UNIT, with the unit that runs containerd"
	if !slices.Contains(d.After, f.Runtime) {
		found(Problem, fix, "%s is not ordered after %s: both stop at once", DrainUnit, f.Runtime)
	}
	if !slices.Contains(d.PartOf, f.Runtime) {
		found(Problem, fix, "%s is not part of %s: stopping that stops no pod first", DrainUnit, f.Runtime)
	}
	if !slices.Contains(d.Want, f.Runtime) {
		found(Problem, fix, "%s is not wanted by %s: it stays off when that is started again", DrainUnit, f.Runtime)
	}
	if k := f.Units[f.Kubelet]; k.Load == "loaded" && !slices.Contains(d.Before, f.Kubelet) {
		found(Warning, "set drain.kubelet, or a drop-in for "+DrainUnit+" with Before="+f.Kubelet, "%s is not ordered before %s: the kubelet may start again what a drain stops", DrainUnit, f.Kubelet)
	}
	if b.Load == "loaded" && !slices.Contains(b.Before, f.Runtime) {
		found(Warning, fix, "%s is not ordered before %s: changes of a node image need a restart", BootUnit, f.Runtime)
	}
}

func scopes(f Facts, found found) {
	if !f.ScopeFile {
		found(Problem, again, "the drop-in for containers' scopes is missing: at a shutdown systemd kills all containers at once")
		return
	}
	late := 0
	for _, s := range f.Scopes {
		if !slices.Contains(s.Before, DrainUnit) {
			late++
		}
	}
	if late > 0 {
		found(Problem, reload, "%d of %d containers are not ordered before %s, which the drop-in asks for", late, len(f.Scopes), DrainUnit)
	}
	if len(f.Scopes) == 0 {
		found(Note, "", "no container is a unit of systemd: either none runs, or the cgroups are kept by the runtime (cgroupfs); that needs no order")
	}
}

// leastDelay is how long logind has to wait for quiesce to begin.
const leastDelay = time.Second

func logind(f Facts, found found) {
	switch {
	case !f.Logind:
		found(Note, "", "drain.logind is off: a drain begins when systemd stops the runtime's unit")
	case f.DelayError != nil:
		found(Warning, "systemctl status systemd-logind dbus", "logind does not answer, a drain begins only when systemd stops units: %v", f.DelayError)
	case f.Delay < leastDelay:
		found(Warning, "InhibitDelayMaxSec in a file of /etc/systemd/logind.conf.d that comes last by name", "logind waits %v for whoever delays a shutdown: the drain begins in its unit's ExecStop", f.Delay)
	case f.Delay < f.Deadline:
		found(Note, "InhibitDelayMaxSec in a file of /etc/systemd/logind.conf.d that comes last by name", "logind waits up to %v, a drain may take %v: the rest is done when systemd stops the services", f.Delay, f.Deadline)
	}
}

func kubeletShutdown(f Facts, found found) {
	const fix = "shutdownGracePeriod: 0s in the kubelet's configuration, if quiesce's order is wanted for reboots too"
	if f.KubeletGrace > 0 {
		found(Warning, fix, "the kubelet's own graceful node shutdown is on (%v, %s): a shutdown through logind is the kubelet's, by its priorities; a stop of services stays quiesce's", f.KubeletGrace, f.KubeletFile)
	} else if slices.Contains(f.Delayers, "kubelet") {
		found(Warning, fix, "the kubelet delays shutdowns to stop pods itself")
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
