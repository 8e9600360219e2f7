package freeze

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// place is a cgroup as a path of this mount namespace.
type place struct {
	Path    string `json:"path"`
	Version int    `json:"version"` // of the cgroup hierarchy, 1 or 2
}

// locate finds the cgroup that freezes the container whose init is pid: the freezer's of version 1 where that is
// mounted, else the one of version 2 (cgroups(7)). Below the container's own cgroup an init may have moved on.
func locate(pid int, container string) (place, error) {
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return place{}, fmt.Errorf("read cgroup: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return place{}, fmt.Errorf("read mounts: %w", err)
	}
	return find(string(cgroups), string(mounts), container)
}

// find prefers version 1: where both are mounted (hybrid) containers are in its hierarchies.
func find(cgroups, mounts, container string) (place, error) {
	errs := errors.New("find cgroup: none that freezes")
	rels := memberships(cgroups)
	for _, version := range []int{1, 2} {
		rel, member := rels[version]
		points := hierarchies(mounts, version)
		if !member || len(points) == 0 {
			continue
		}
		own, ok := cut(rel, container)
		if !ok {
			return place{}, fmt.Errorf("find cgroup: %s is not named after the container", rel)
		}
		for _, p := range points {
			if below, ok := strings.CutPrefix(own, strings.TrimSuffix(p.root, "/")+"/"); ok {
				return place{Path: path.Join(p.point, below), Version: version}, nil
			}
		}
		errs = fmt.Errorf("find cgroup: no mount of version %d shows %s", version, own)
	}
	return place{}, errs
}

// memberships reads /proc/PID/cgroup: the freezer's path of version 1, and the path of version 2, both relative to the
// reader's cgroup namespace.
func memberships(cgroups string) map[int]string {
	rels := map[int]string{}
	for line := range strings.Lines(cgroups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(parts) != 3:
		case slices.Contains(strings.Split(parts[1], ","), "freezer"):
			rels[1] = parts[2]
		case parts[0] == "0" && parts[1] == "":
			rels[2] = parts[2]
		}
	}
	return rels
}

// cut gives the path down to the part that is named after the container: ID, or cri-containerd-ID.scope.
func cut(rel, container string) (string, bool) {
	if container == "" || strings.Contains(rel, "..") { // outside this cgroup namespace
		return rel, false
	}
	parts := strings.Split(rel, "/")
	for i, p := range parts {
		if strings.Contains(p, container) {
			return strings.Join(parts[:i+1], "/"), true
		}
	}
	return rel, false
}

// hierarchy is a mounted one: its directory point is the cgroup root.
type hierarchy struct{ root, point string }

// hierarchies reads mountinfo (proc_pid_mountinfo(5)).
func hierarchies(mounts string, version int) (all []hierarchy) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(mounts) {
		left, right, found := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !found || len(l) < 5 || len(r) < 3 {
			continue
		}
		v1 := r[0] == "cgroup" && slices.Contains(strings.Split(r[2], ","), "freezer")
		if version == 1 && v1 || version == 2 && r[0] == "cgroup2" {
			all = append(all, hierarchy{unescape.Replace(l[3]), unescape.Replace(l[4])})
		}
	}
	return all
}
