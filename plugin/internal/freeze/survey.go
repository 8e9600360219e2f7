package freeze

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quiesce/plugin/internal/cri"
	"quiesce/plugin/internal/node"
)

// candidate is a chosen container that CRI says is running.
type candidate struct {
	id, name string
	init     Process // as containerd's task has it; zero: it has none that lives
}

// survey is what runs at one moment.
type survey struct {
	live        []candidate
	ending      []candidate // CRI does not know yet that they have ended
	unprotected []string    // infrastructure
}

// look lists everything. A paused task is an error: the restart would lose it.
func (f *Freezer) look(ctx context.Context) (survey, error) {
	var s survey
	pods, err := f.Runtime.List(ctx)
	if err != nil {
		return s, err
	}
	tasks, err := f.Runtime.Tasks(ctx) // later: a task that is missing now has ended, whatever the first list says
	if err != nil {
		return s, err
	}
	pids := map[string]int{}
	for _, t := range tasks {
		if t.Paused {
			return s, fmt.Errorf("a task is paused: %s", nameOf(pods, t.Container))
		}
		pids[t.Container] = t.PID
	}
	for _, p := range pods {
		chosen, why := f.Rules.Choose(p)
		for _, c := range p.Containers {
			name := p.String() + "/" + c.Name
			switch {
			case c.State != node.Running:
			case !chosen && why != "":
				s.unprotected = append(s.unprotected, name+": "+why)
			case !chosen:
			default:
				s.add(candidate{id: c.ID, name: name}, pids[c.ID])
			}
		}
	}
	return s, nil
}

func (s *survey) add(c candidate, pid int) {
	if pid > 0 {
		if p, live := processOf(pid); live {
			c.init = p
			s.live = append(s.live, c)
			return
		}
	}
	s.ending = append(s.ending, c)
}

// nameOf names a container or sandbox for people.
func nameOf(pods []*node.Pod, id string) string {
	for _, p := range pods {
		if p.ID == id {
			return p.String()
		}
		for _, c := range p.Containers {
			if c.ID == id {
				return p.String() + "/" + c.Name
			}
		}
	}
	return id
}

// target opens the cgroup of a candidate. It says why it cannot be protected, or returns an error if the restart has
// to be put off. A candidate that has ended meanwhile is neither: all are nil.
func target(c candidate) (h *held, unprotected string, err error) {
	at, err := locate(c.init.PID, c.id)
	if err == nil {
		h, unprotected, err = open(c, at)
	} else {
		unprotected, err = err.Error(), nil
	}
	if h == nil && err == nil && !c.init.Lives() {
		return nil, "", nil
	}
	return h, unprotected, err
}

func open(c candidate, at place) (h *held, unprotected string, err error) {
	g, err := openCgroup(at)
	if err != nil {
		return nil, err.Error(), nil //nolint:nilerr // it is told, and nothing else depends on it
	}
	unprotected, err = g.fit(c)
	if unprotected != "" || err != nil {
		return nil, unprotected, errors.Join(err, g.files.Close())
	}
	return &held{cgroup: g, member: member{place: at, Inode: g.Inode, Container: c.id, Name: c.name, Init: c.init}}, "", nil
}

// fit checks that a cgroup is the candidate's alone, holds nothing that must go on, and is not frozen by someone else.
func (c *cgroup) fit(of candidate) (unprotected string, err error) {
	s, err := c.state()
	if err != nil {
		return err.Error(), nil //nolint:nilerr // told as unprotected
	}
	if s != thawed {
		return "", fmt.Errorf("%s is frozen already (%s: %s)", of.name, c.Path, strings.ToLower(s))
	}
	pids, err := c.processes()
	if err != nil {
		return err.Error(), nil //nolint:nilerr // as above
	}
	if !slices.Contains(pids, of.init.PID) && of.init.Lives() {
		return "its cgroup does not hold its process", nil
	}
	for _, pid := range pids {
		why, err := forbidden(pid)
		if err != nil {
			return err.Error(), nil //nolint:nilerr // as above
		}
		if why != "" {
			return why, nil
		}
	}
	return "", nil
}

// blind tells whether the runtime cannot say what there is to freeze.
func blind(err error) bool { return errors.Is(err, cri.ErrNoTasks) }
