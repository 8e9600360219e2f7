package host

import (
	"bytes"
	"context"
	"fmt"
	"path"

	"quiesce/manifests"
	"quiesce/plugin/stage"
)

// settings writes the settings that are given, or the defaults where there are none. undo is what others were there; nil:
// what is there now was there, or nothing was.
func (n *Node) settings(o Options) (undo []byte, err error) {
	text, err := n.look.ReadFile(confFile)
	there := err == nil
	if there && o.Settings == nil {
		if set := manifests.ConfigUnit(text); set != o.Unit {
			n.say(fmt.Sprintf("warning: /%s is left as it is, but its unit is %s and not %s", confFile, set, o.Unit))
		}
		return nil, nil
	}
	want := o.Settings
	if want == nil {
		want = manifests.Config(o.Unit)
	}
	if err := n.tree.Mkdir(path.Dir(confFile), 0o755); err != nil {
		return nil, err
	}
	if _, err := n.put(confFile, 0o644, fromBytes(want)); err != nil {
		return nil, err
	}
	if there && !bytes.Equal(text, want) {
		return text, nil
	}
	return nil, nil
}

// unset puts back settings with which the daemon ran: with the new ones it does not.
func (n *Node) unset(ctx context.Context, undo []byte) error {
	if undo == nil {
		return nil
	}
	if err := n.tree.WriteBytes(confFile, undo, stage.Attr{Mode: 0o644}); err != nil {
		return err
	}
	n.did("put /%s back: the daemon does not start with the new settings", confFile)
	return n.units.Run(ctx, Restart, daemon)
}
