package node

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Rules say which pods are installers.
//
// What a pod says of itself (label, job name, image) counts in Namespaces only, so that no tenant can hold the
// gate; what its containers can do (write to Paths) counts everywhere, for pods of Jobs.
type Rules struct {
	Label      string   // a label that is "true" on installer pods
	Namespaces []string // where pods are believed
	Jobs       []string // globs of Job names
	Images     []string // globs of image names; * matches any characters, slashes too
	Paths      []string // the host's root, containerd's config, shim directories, the inbox
	Results    string   // a pod that mounts it read-only waits for quiesce: the gate must not wait for the pod

	Undecided time.Duration // how long after its last change a Job's pod of unknown purpose counts
	Stuck     time.Duration // how long an installer may take
}

// Verdict is what the rules say of a pod.
type Verdict struct {
	InFlight  bool
	Undecided bool   // in flight for lack of knowledge only
	Stuck     bool   // in flight for longer than Rules.Stuck
	Why       string // for people
}

// Judge decides on one pod. It is pure.
func (r *Rules) Judge(p *Pod, now time.Time) Verdict {
	if !p.Ready {
		return Verdict{}
	}
	_, job := p.Job()
	why := r.recognise(p, job)
	switch {
	case why != "" && job:
		return Verdict{InFlight: true, Stuck: now.Sub(p.Created) > r.Stuck, Why: why}
	case why != "":
		return r.judgeService(p, now, why)
	case job && !p.Known() && !r.waits(p) && Younger(p.lastChange(), now, r.Undecided):
		return Verdict{InFlight: true, Undecided: true, Why: "a Job's pod whose containers are not all known yet"}
	default:
		return Verdict{}
	}
}

// recognise says why a pod is an installer, or nothing.
func (r *Rules) recognise(p *Pod, job bool) string {
	if job {
		for _, c := range p.planned() {
			for _, m := range c.Mounts {
				if at := r.reaches(m); at != "" {
					return fmt.Sprintf("container %s can write to %s", c.Name, at)
				}
			}
		}
	}
	if !slices.Contains(r.Namespaces, p.Namespace) {
		return ""
	}
	if p.Labels[r.Label] == "true" {
		return "label " + r.Label
	}
	if r.waits(p) {
		return ""
	}
	if name, ok := p.Job(); ok && matches(r.Jobs, name) {
		return "job name " + name
	}
	for _, c := range p.planned() {
		for _, image := range c.Images {
			if matches(r.Images, image) {
				return "image " + image
			}
		}
	}
	return ""
}

// waits tells whether a pod looks at the results, which it cannot write to.
func (r *Rules) waits(p *Pod) bool {
	return r.Results != "" && slices.ContainsFunc(p.planned(), func(c Container) bool {
		return slices.ContainsFunc(c.Mounts, func(m Mount) bool { return !m.Writable && within(r.Results, m.Host) })
	})
}

// reaches says which of the guarded paths a mount gives write access to.
func (r *Rules) reaches(m Mount) string {
	if !m.Writable || !filepath.IsAbs(m.Host) {
		return ""
	}
	for _, guarded := range r.Paths {
		if within(m.Host, guarded) || (guarded != "/" && within(guarded, m.Host)) {
			return guarded
		}
	}
	return ""
}

// within tells whether child is dir or below it.
func within(dir, child string) bool {
	dir, child = filepath.Clean(dir), filepath.Clean(child)
	return dir == "/" || child == dir || strings.HasPrefix(child, dir+"/")
}

// judgeService is for an installer that is no Job's: a DaemonSet that installs in its init containers and then stays.
// Only its init containers count: they have ended when a container runs that was made after another one's end.
func (r *Rules) judgeService(p *Pod, now time.Time, why string) Verdict {
	var running, ended bool
	for _, c := range p.Containers {
		running = running || c.Active()
		ended = ended || !c.Active()
	}
	switch {
	case running && ended, !running && ended:
		return Verdict{}
	case !Younger(p.lastChange(), now, r.Undecided): // its one container is a service, or it has none
		return Verdict{}
	default:
		return Verdict{InFlight: true, Why: why}
	}
}

// matches tells whether one of the globs matches s wholly.
func matches(globs []string, s string) bool {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	return slices.ContainsFunc(globs, func(g string) bool {
		ok, err := path.Match(flat(g), flat(s))
		return ok && err == nil
	})
}

// ValidGlobs checks patterns where they are configured.
func ValidGlobs(globs []string) error {
	for _, g := range globs {
		if _, err := path.Match(g, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", g, err)
		}
	}
	return nil
}

// Younger tells whether something of a time is younger than a limit. What seems to come from the future is not: the clock
// was set back, and nobody should wait until it is there again.
func Younger(at, now time.Time, limit time.Duration) bool {
	age := now.Sub(at)
	return -limit < age && age < limit
}

// Installer is a pod in flight.
type Installer struct {
	Pod *Pod
	Verdict
}

// Installers lists the pods in flight.
func (r *Rules) Installers(s Snapshot, now time.Time) []Installer {
	var out []Installer
	for _, p := range s.Pods {
		if v := r.Judge(p, now); v.InFlight {
			out = append(out, Installer{p, v})
		}
	}
	return out
}
