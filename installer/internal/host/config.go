package host

import (
	"bytes"
	"path"
	"strings"

	"quiesce/manifests"
	"quiesce/manifests/profile"
)

// environment is the drop-in that makes the runtime's unit read another config than the one on a read-only disk. It counts
// from the unit's next start on, which is not ours to bring about.
func environment(p profile.Profile, unit string) []manifests.Unit {
	if p.Environment == "" {
		return nil
	}
	text := "# managed by quiesce: the unit's own config cannot be written\n[Service]\nEnvironment=" + p.Environment + "\n"
	return []manifests.Unit{{Name: unit + ".d/50-quiesce.conf", Text: []byte(text)}}
}

// stopsWith are the drop-ins by which the stop of a unit with the kubelet in it is the drain first.
func stopsWith(p profile.Profile) []manifests.Unit {
	if len(p.StopsWith) == 0 {
		return nil
	}
	names := strings.Join(p.StopsWith, " ")
	units := []manifests.Unit{{
		Name: drain + ".d/50-stops-with.conf",
		Text: []byte("# managed by quiesce: the stop of these ends the node's service, too\n[Unit]\nPartOf=" + names + "\nAfter=" + names + "\n"),
	}}
	for _, u := range p.StopsWith {
		units = append(units, manifests.Unit{Name: u + ".d/50-quiesce.conf", Text: []byte("# managed by quiesce\n[Unit]\nWants=" + drain + "\n")})
	}
	return units
}

// ownConfig makes the config that the unit is told to read: a copy, where there is none.
func (n *Node) ownConfig() error {
	from, to := strings.TrimPrefix(n.profile.CopyFrom, "/"), strings.TrimPrefix(n.profile.Config, "/")
	if from == "" || n.exists(to) {
		return nil
	}
	text, err := n.look.ReadFile(from)
	if err != nil {
		n.say("note: there is no /" + from + " to begin with")
		return nil //nolint:nilerr // without any config containerd has its defaults, and apply makes the file
	}
	if err := n.tree.Mkdir(path.Dir(to), 0o755); err != nil {
		return err
	}
	_, err = n.put(to, 0o644, fromBytes(text))
	return err
}

// dropOwnConfig removes the copy, unless somebody has written to it, and the directory that drop-ins were in.
func (n *Node) dropOwnConfig() error {
	from, to := strings.TrimPrefix(n.profile.CopyFrom, "/"), strings.TrimPrefix(n.profile.Config, "/")
	if err := n.dropEmpty(path.Join(path.Dir(to), "conf.d")); err != nil || from == "" {
		return err
	}
	was, err := n.look.ReadFile(from)
	if err != nil {
		return nil //nolint:nilerr // then none was made
	}
	now, err := n.look.ReadFile(to)
	switch {
	case err != nil:
		return nil //nolint:nilerr // there is none
	case !bytes.Equal(was, now):
		n.say("note: /" + to + " was changed and is kept; containerd no longer reads it")
		return nil
	}
	if err := n.drop(to); err != nil {
		return err
	}
	return n.dropEmpty(path.Dir(to))
}
