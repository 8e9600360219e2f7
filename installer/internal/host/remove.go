package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"quiesce/installer/internal/refusal"
	"quiesce/manifests"
	"quiesce/manifests/profile"
	"quiesce/plugin/stage"
)

// Remove takes quiesce off the node. It refuses while entries wait, because nobody would look after them, and while handlers
// are live, unless those are to be kept: then their shims and their part of the config stay, and the stage, by which a later
// host knows them again.
func (n *Node) Remove(ctx context.Context, keep bool) (err error) {
	if err := n.checkNode(); err != nil {
		return err
	}
	n.keep = keep
	unlock, err := n.unused()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	units, err := manifests.Units(manifests.DefaultUnit) // for their names, which are always the same
	if err == nil {
		n.profile, err = profile.Detect(n.look.FS())
	}
	units = append(units, stopsWith(n.profile)...)
	if !keep { // containerd reads what the handlers are in
		for _, u := range n.profile.Units {
			units = append(units, environment(n.profile, u)...)
		}
	}
	if err == nil {
		err = n.tidy()
	}
	stale := false
	if err == nil {
		stale, err = n.stop(ctx, units)
	}
	if err == nil {
		err = n.dropAll(ctx, units, stale)
	}
	if err == nil && !n.changed {
		n.say("nothing to remove")
	}
	return err
}

// unused makes sure that nothing depends on quiesce, and keeps apply from beginning until it is unlocked.
func (n *Node) unused() (unlock func() error, err error) {
	s, err := stage.Open(filepath.Join(n.dir, stageDir))
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, n.leftovers()
	}
	if err != nil {
		return nil, err
	}
	release, err := s.Lock()
	if errors.Is(err, stage.ErrLocked) {
		return nil, errors.Join(refusal.New("host --remove: a change is being applied right now; try again"), s.Close())
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	unlock = func() error { return errors.Join(release(), s.Close()) }
	if err := inUse(s, n.keep); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}

func inUse(s *stage.Store, keep bool) error {
	j, jerr := s.Journal()
	current, cerr := s.Current()
	pending, perr := s.Pending()
	if err := errors.Join(jerr, cerr, perr); err != nil {
		return err
	}
	var why []string
	if live := stage.Live(current); len(live) > 0 && !keep {
		names := strings.Join(slices.Sorted(maps.Keys(live)), ", ")
		why = append(why, "live handlers: "+names+" (quiesce-installer uninstall "+strings.ReplaceAll(names, ",", "")+", or --keep-handlers)")
	}
	var waiting []string
	for _, e := range append(pending, slices.DeleteFunc(current, func(e stage.Entry) bool { return e.Err == nil })...) {
		waiting = append(waiting, strings.Join(append([]string{e.ID}, e.Names()...), " "))
	}
	if len(waiting) > 0 {
		why = append(why, "entries not settled: "+strings.Join(waiting, ", "))
	}
	if j != nil {
		why = append(why, "an interrupted change that quiesce has yet to put back")
	}
	if len(why) > 0 {
		return refusal.New("host --remove: quiesce is in use: %s", strings.Join(why, "; "))
	}
	return nil
}

// leftovers refuses to drop entries of a stage that is not whole.
func (n *Node) leftovers() error {
	for _, room := range []string{"store/cur", "store/act", "inbox/new"} {
		if names, err := n.list(path.Join(stageDir, room)); err == nil && len(names) > 0 {
			return refusal.New("host --remove: the stage /%s is not whole, but %s has %s; `quiesce-installer host` repairs it", stageDir, room, strings.Join(names, ", "))
		}
	}
	return nil
}

// stop stops the units, and tells whether systemd knows one of them otherwise than it is on disk.
func (n *Node) stop(ctx context.Context, units []manifests.Unit) (stale bool, err error) {
	if n.units == nil {
		return false, nil
	}
	for _, u := range units {
		if u.DropIn() {
			continue
		}
		st, err := n.units.State(ctx, u.Name)
		if err != nil {
			return stale, err
		}
		stale = stale || st.Stale
		if st.Active == "" || st.Active == "inactive" {
			continue
		}
		if err := n.units.Run(ctx, Stop, u.Name); err != nil {
			return stale, err
		}
		n.did("stopped %s", u.Name)
	}
	return stale, nil
}

func (n *Node) dropAll(ctx context.Context, units []manifests.Unit, stale bool) error {
	if err := n.disable(units, nil); err != nil {
		return err
	}
	if err := n.dropEmptyWants(units); err != nil {
		return err
	}
	for _, u := range units {
		if err := n.drop(path.Join(unitDir, u.Name)); err != nil {
			return err
		}
		if u.DropIn() {
			if err := n.dropEmpty(path.Dir(path.Join(unitDir, u.Name))); err != nil {
				return err
			}
		}
	}
	if n.units != nil && (n.changed || stale) {
		if err := n.units.Reload(ctx); err != nil {
			return err
		}
	}
	for _, p := range programs {
		if to, err := n.look.Readlink(path.Join(linkDir, p)); err == nil && to == "/"+path.Join(binDir, p) {
			if err := n.drop(path.Join(linkDir, p)); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(n.drop(logindFile), n.dropEmpty(path.Dir(logindFile))); err != nil {
		return err
	}
	if n.keep {
		return errors.Join(n.drop("run/quiesce"), n.drop(binDir))
	}
	if err := errors.Join(n.dropSettings(), n.dropOwnConfig()); err != nil {
		return err
	}
	for _, dir := range []string{stage.LabelsFile, "run/quiesce", "opt/quiesce", stageDir} {
		if err := n.drop(dir); err != nil {
			return err
		}
	}
	return nil
}

// dropEmptyWants removes the directories of links that an earlier removal emptied before it was interrupted.
func (n *Node) dropEmptyWants(units []manifests.Unit) error {
	all, err := profile.All()
	if err != nil {
		return err
	}
	var by []string
	for _, p := range all {
		by = append(by, p.Units...)
	}
	for _, u := range units {
		by = append(by, u.WantedBy...)
	}
	for _, name := range by {
		if err := n.dropEmpty(path.Join(unitDir, name+".wants")); err != nil {
			return err
		}
	}
	return nil
}

// dropSettings removes the settings, but not what someone wrote.
func (n *Node) dropSettings() error {
	text, err := n.look.ReadFile(confFile)
	if err == nil && !bytes.Equal(text, manifests.Config(manifests.ConfigUnit(text))) {
		n.say(fmt.Sprintf("note: /%s was changed and is kept", confFile))
		return nil
	}
	if err := n.drop(confFile); err != nil {
		return err
	}
	return n.dropEmpty(path.Dir(confFile))
}
