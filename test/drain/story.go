package drain

import (
	"context"
	"slices"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// Outcome is the figures of the story: out/drain.json.
type Outcome struct {
	Postgres struct {
		Quiesce      Ending `json:"quiesce"`
		Killall      Ending `json:"killall"`
		PauseAndKill Ending `json:"pause_and_kill"`
	} `json:"postgres"`
	Order Order `json:"order"`
	Fence Fence `json:"fence"`
}

// Keep takes a piece of evidence under the name of a file; nil drops it.
type Keep func(file string, data []byte) error

func (k Keep) keep(file string, data []byte) error {
	if k == nil {
		return nil
	}
	return k(file, data)
}

// Boot boots a node with the victims' image, and makes a kubelet for it. Quiesce is on the node unless the options say
// otherwise.
func Boot(ctx context.Context, o lab.Options) (*lab.Lab, *Kubelet, error) {
	o.Node.Images = append(slices.Clone(o.Node.Images), node.Image{Name: Image, Programs: map[string]string{"/victim": "./test/drain/victim"}})
	l, err := lab.Boot(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return l, NewKubelet(l, o.Node.SystemdCgroup), nil
}

func script(ctx context.Context, l *lab.Lab, text string) (string, error) {
	return l.Exec(ctx, "sh", "-c", text)
}
