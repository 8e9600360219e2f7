package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"quiesce/manifests"
	"quiesce/plugin/stage"
)

const (
	binDir   = "opt/quiesce/bin"
	linkDir  = "usr/local/bin"
	stageDir = "var/lib/quiesce" // stage.DefaultDir
	booted   = "run/quiesce/booted"
	daemon   = "quiesce.service"
	drain    = "quiesce-drain.service" // one that was never started has no ExecStop
)

var programs = []string{"quiesce", "quiesce-installer"}

// Install puts the node in order. On a running node it also starts the daemon, or restarts it if its program or unit changed.
func (n *Node) Install(ctx context.Context, o Options) error {
	if err := n.check(&o); err != nil {
		return err
	}
	units, err := manifests.Units(o.Unit)
	if err != nil {
		return err
	}
	units = slices.Concat(units, environment(n.profile, o.Unit), stopsWith(n.profile))
	if err := n.tidy(); err != nil {
		return err
	}
	if err := n.rooms(); err != nil {
		return err
	}
	newProgram, err := n.programs(o)
	if err != nil {
		return err
	}
	undo, err := n.settings(o)
	if err != nil {
		return err
	}
	if err := errors.Join(n.logind(), n.ownConfig()); err != nil {
		return err
	}
	newDaemon, reload, err := n.writeUnits(units)
	if err != nil {
		return err
	}
	if n.units != nil {
		if err := n.start(ctx, units, newProgram || newDaemon || undo != nil, reload); err != nil {
			return errors.Join(err, n.unset(ctx, undo))
		}
	}
	if n.changed {
		n.say(n.dir + " is in order")
	} else {
		n.say("already in order")
	}
	return nil
}

func (n *Node) rooms() error {
	const lastMade = stageDir + "/store/cur"
	fresh := !n.exists(lastMade)
	if err := n.tree.Mkdir(stageDir, 0o755); err != nil {
		return err
	}
	if err := stage.Create(filepath.Join(n.dir, stageDir)); err != nil {
		return err
	}
	if fresh {
		n.did("made the stage /%s", stageDir)
	}
	return nil
}

// programs puts the programs in place and tells whether quiesce is new.
func (n *Node) programs(o Options) (bool, error) {
	if err := n.tree.Mkdir(binDir, 0o755); err != nil {
		return false, err
	}
	isNew, err := n.put(path.Join(binDir, "quiesce"), 0o755, fromFile(o.Binary))
	if err != nil {
		return false, err
	}
	if _, err := n.put(path.Join(binDir, "quiesce-installer"), 0o755, fromFile(o.Self)); err != nil {
		return isNew, err
	}
	for _, p := range programs {
		n.linkProgram(p)
	}
	return isNew, nil
}

// linkProgram makes a program known to shells. A node whose /usr/local cannot be written does without.
func (n *Node) linkProgram(p string) {
	name, target := path.Join(linkDir, p), "/"+path.Join(binDir, p)
	if to, _ := n.look.Readlink(name); to != target && n.exists(name) {
		n.say(fmt.Sprintf("note: /%s is not ours and is left as it is", name))
		return
	}
	if err := n.link(name, target); err != nil {
		n.say(fmt.Sprintf("note: no link in /%s: %v", linkDir, err))
	}
}

// logindFile is read by logind when the daemon starts and has it do so.
const logindFile = "etc/systemd/logind.conf.d/" + manifests.LogindName

func (n *Node) logind() error {
	if err := n.tree.Mkdir(path.Dir(logindFile), 0o755); err != nil {
		return err
	}
	_, err := n.put(logindFile, 0o644, fromBytes(manifests.Logind()))
	return err
}

// writeUnits writes and enables the units; it tells whether the daemon's changed, and whether any did.
func (n *Node) writeUnits(units []manifests.Unit) (newDaemon, reload bool, err error) {
	if n.units != nil && !n.exists(booted) { // before the boot unit is there to be started
		if err := n.tree.Mkdir(booted, 0o700); err != nil {
			return false, false, err
		}
		n.did("marked this boot as over: /%s", booted)
	}
	before := n.changed
	n.changed = false
	for _, u := range units {
		if err := n.tree.Mkdir(path.Dir(path.Join(unitDir, u.Name)), 0o755); err != nil {
			return false, false, err
		}
		isNew, err := n.put(path.Join(unitDir, u.Name), 0o644, fromBytes(u.Text))
		if err != nil {
			return false, false, err
		}
		newDaemon = newDaemon || isNew && u.Name == daemon
	}
	err = n.enable(units)
	reload, n.changed = n.changed, before || n.changed
	return newDaemon, reload, err
}

// start makes systemd know the units, and the daemon run as it is on disk.
func (n *Node) start(ctx context.Context, units []manifests.Unit, restart, reload bool) error {
	var begin []string
	for _, u := range units {
		if u.DropIn() {
			continue
		}
		st, err := n.units.State(ctx, u.Name)
		if err != nil {
			return err
		}
		if u.Name == drain && st.Active != "active" {
			begin = append(begin, drain)
		}
		reload = reload || st.Stale || st.Unknown
		if u.Name == daemon {
			running := slices.Contains([]string{"active", "reloading"}, st.Active)
			restart = restart || st.Stale || !running || !n.runs(st)
		}
	}
	if reload {
		if err := n.units.Reload(ctx); err != nil {
			return err
		}
		n.did("reloaded systemd")
	}
	if restart {
		begin = append(begin, daemon)
	}
	for _, name := range slices.Backward(begin) { // the daemon first
		if err := n.units.Run(ctx, Restart, name); err != nil {
			return err
		}
		n.did("started %s", name)
	}
	return nil
}

// runs tells whether a unit's process runs the program that is in place. A pod without capabilities may not look at
// another's program: there the process must be younger than the file.
func (n *Node) runs(st State) bool {
	fi, err := n.look.Stat(path.Join(binDir, "quiesce"))
	if err != nil {
		return false
	}
	now, err := os.Stat(filepath.Join(n.dir, "proc", strconv.Itoa(st.PID), "exe"))
	if errors.Is(err, fs.ErrPermission) {
		return st.Began.After(fi.ModTime())
	}
	return err == nil && os.SameFile(now, fi)
}

// wanted is the path of the link by which a unit is wanted.
func wanted(by, unit string) string { return path.Join(unitDir, by+".wants", unit) }

// enable makes the links that `systemctl enable` would make, and removes those of an earlier --unit.
func (n *Node) enable(units []manifests.Unit) error {
	var keep []string
	for _, u := range units {
		for _, by := range u.WantedBy {
			name := wanted(by, u.Name)
			keep = append(keep, name)
			if err := n.tree.Mkdir(path.Dir(name), 0o755); err != nil {
				return err
			}
			if err := n.link(name, "/"+path.Join(unitDir, u.Name)); err != nil {
				return err
			}
		}
	}
	return n.disable(units, keep)
}

// disable removes the links that want one of the units, except those to keep, and directories that are empty then.
func (n *Node) disable(units []manifests.Unit, keep []string) error {
	dirs, err := n.list(unitDir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		by, ok := strings.CutSuffix(dir, ".wants")
		if !ok {
			continue
		}
		for _, u := range units {
			name := wanted(by, u.Name)
			if slices.Contains(keep, name) || !n.exists(name) {
				continue
			}
			if err := n.drop(name); err != nil {
				return err
			}
			if err := n.dropEmpty(path.Dir(name)); err != nil {
				return err
			}
		}
	}
	return nil
}
