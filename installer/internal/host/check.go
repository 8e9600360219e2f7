package host

import (
	"cmp"
	"os"
	"regexp"

	"quiesce/installer/internal/refusal"
	"quiesce/manifests"
	"quiesce/manifests/profile"
)

const (
	unitDir  = "etc/systemd/system"
	confFile = "etc/quiesce/config.toml"
)

// Options say what to put on the node.
type Options struct {
	Binary string // the program quiesce
	Self   string // the program quiesce-installer
	Unit   string // the runtime's unit; empty: what the settings say, or the one that is there

	Settings []byte // of the daemon; nil: those that are there, or the defaults
}

var unitForm = regexp.MustCompile(`^[A-Za-z0-9:_.@-]+\.service$`)

// check refuses what could not be carried through and decides on the runtime's unit. It writes nothing.
func (n *Node) check(o *Options) error {
	if err := n.checkNode(); err != nil {
		return err
	}
	for _, program := range []string{o.Binary, o.Self} {
		if fi, err := os.Stat(program); err != nil || !fi.Mode().IsRegular() {
			return refusal.New("host: there is no program %s; name quiesce with --binary", program)
		}
	}
	if err := n.checkRuntime(); err != nil {
		return err
	}
	o.Unit = cmp.Or(o.Unit, n.setUnit(o.Settings), n.foundUnit(), n.profile.Unit(n.look.FS()), manifests.DefaultUnit)
	if !unitForm.MatchString(o.Unit) {
		return refusal.New("host: %q is not the name of a service unit", o.Unit)
	}
	switch found := n.hasUnit(o.Unit); {
	case !found && n.units != nil:
		return refusal.New("host: there is no unit %s on this node; name the unit that runs containerd with --unit", o.Unit)
	case !found:
		n.say("warning: " + n.dir + " has no unit " + o.Unit + "; if another one runs containerd, name it with --unit")
	}
	return nil
}

func (n *Node) checkNode() error {
	if os.Geteuid() != 0 {
		return refusal.New("host: needs root")
	}
	if fi, err := n.look.Stat(unitDir); err != nil || !fi.IsDir() {
		return refusal.New("host: %s has no directory /%s: not a node with systemd", n.dir, unitDir)
	}
	if _, err := n.look.Stat("run/systemd/system"); err != nil && n.units != nil {
		return refusal.New("host: systemd does not run here; for the image of a node use --root DIR")
	}
	return nil
}

// setUnit is the runtime's unit that the settings name, or nothing.
func (n *Node) setUnit(text []byte) string {
	if text == nil {
		text, _ = n.look.ReadFile(confFile) // there may be none
	}
	if text != nil {
		if unit := manifests.ConfigUnit(text); unit != manifests.DefaultUnit {
			return unit
		}
	}
	return ""
}

func (n *Node) hasUnit(unit string) bool { return profile.UnitFile(n.look.FS(), unit) != "" }
